package sim_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

func TestString_IsOneLineWhateverTheDevice(t *testing.T) {
	var dev *sim.Device
	var during string
	dev = sim.New(64<<20, sim.OnCall(func(sim.Call) { during = dev.String() }))
	_, err := dev.Malloc(2 << 20)
	require.NoError(t, err)
	require.Equal(t, dev.ID().String()+": 64MiB", during, "a call holds the lock")
	calls := dev.Calls()
	require.Equal(t, dev.ID().String()+": 2MiB of 64MiB in use", dev.String())
	dev.Occupy(1 << 40)
	require.Equal(t, dev.ID().String()+": 64MiB of 64MiB in use", dev.String())
	require.Equal(t, calls, dev.Calls(), "it is no driver call")
	require.Equal(t, fmt.Sprintf("{%s}", dev), fmt.Sprintf("%v", struct{ Device device.Device }{dev}))
	require.NoError(t, dev.Close())
	require.Equal(t, dev.ID().String()+": closed", dev.String())
	require.Equal(t, "sim: no device", (*sim.Device)(nil).String())
	require.Equal(t, "sim: no device", new(sim.Device).String())
}
