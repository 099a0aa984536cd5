package cuda_test

import (
	"testing"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
)

func TestCallForeign_ReturnsTheStatusOfTheFunction(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	libc, err := purego.Dlopen("libc.so.6", purego.RTLD_NOW)
	require.NoError(t, err)
	abs, err := purego.Dlsym(libc, "abs")
	require.NoError(t, err)
	minus := ^uintptr(41) // -42
	status, err := d.CallForeign(abs, minus)
	require.NoError(t, err)
	require.EqualValues(t, 42, status)
	status, err = d.CallForeign(abs, 0)
	require.NoError(t, err)
	require.Zero(t, status)
	r.Fail("cuCtxSetCurrent", 1, 999)
	_, err = d.CallForeign(abs, 1)
	require.ErrorIs(t, err, device.ErrUnavailable)
	require.ErrorContains(t, err, "cuCtxSetCurrent")
}
