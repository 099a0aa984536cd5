package cuda_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
)

func TestString_IsOneLineWhateverTheDevice(t *testing.T) {
	d := cudatest.New(t, 1, nil).Devices[0]
	facts := d.Properties()
	require.Equal(t, "cuda:0: "+facts.Name+", "+device.FormatBytes(facts.TotalMemory), d.String())
	require.Equal(t, fmt.Sprintf("{%s}", d), fmt.Sprintf("%v", struct{ Device device.Device }{d}))
	require.NoError(t, d.Close())
	require.Equal(t, "cuda:0: closed", d.String())
	require.Equal(t, "cuda: no device", (*cuda.Device)(nil).String())
	require.Equal(t, "cuda: no device", new(cuda.Device).String())
}

func TestString_OfADeviceThatIsLost(t *testing.T) {
	r := cudatest.New(t, 1)
	_, broken := loadKernels(t, r)
	d := r.Devices[0]
	require.NoError(t, broken.Launch(d.DefaultStream(), device.LaunchShape{}, new(device.Params)))
	require.Error(t, d.Synchronize(context.Background()))
	require.Equal(t, "cuda:0: "+d.Properties().Name+", unusable after an error", d.String())
}
