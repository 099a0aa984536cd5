package cuda_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/internal/fakecuda"
)

// A pool is the device's and lives on when somebody else, here a second set of devices, uses the context too. It lets go only of memory whose
// free has been waited for.
func TestClose_LeavesNothingInAPoolThatLivesOn(t *testing.T) {
	const n = 64 << 20
	r := cudatest.New(t, 1)
	others, err := cuda.OpenLibrary(fakecuda.Build(t))
	require.NoError(t, err)
	other := others[0]
	defer func() { require.NoError(t, other.Close()) }()
	before, err := other.MemInfo()
	require.NoError(t, err)
	_, err = r.Devices[0].AllocAsync(n, r.Devices[0].DefaultStream())
	require.NoError(t, err)
	r.DelayWork(2 * time.Millisecond)
	require.NoError(t, r.Devices[0].Close())
	after, err := other.MemInfo()
	require.NoError(t, err)
	require.Equal(t, before.Free, after.Free)
}
