package host_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
)

func TestString_IsOneLineWhateverTheDevice(t *testing.T) {
	dev := host.New(host.Capacity(64 << 20))
	defer dev.Close()
	p, err := dev.Malloc(2 << 20)
	require.NoError(t, err)
	defer dev.Free(p)
	require.Equal(t, dev.ID().String()+": 2MiB of 64MiB in use", dev.String())
	closed := host.New()
	require.NoError(t, closed.Close())
	require.Equal(t, closed.ID().String()+": closed", closed.String())
	require.Equal(t, "host: no device", (*host.Device)(nil).String())
	require.Equal(t, "host: no device", new(host.Device).String())
	require.Equal(t, fmt.Sprintf("{%s}", dev), fmt.Sprintf("%v", struct{ Device device.Device }{dev}))
}
