package cuda_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/internal/fakecuda"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/kernels"
	"github.com/cistern-ml/cistern/kernels/cuda"
	"github.com/cistern-ml/cistern/kernels/op"
)

// What blocks of GPUs can share, in bytes, gives tiles from two to four stages: RTX 30 and 40, A100, H100.
var sharedMemories = []int{101376, 166912, 232448}

// Small products would never take large tiles. These have tiles that begin early, tiles that cannot, and steps with and without
// an eye on the ends. Sums are exact, so each element must be right to the bit.
func TestMatMul_InTilesOfEverySize(t *testing.T) {
	for i, shared := range sharedMemories {
		t.Run(strconv.Itoa(shared), func(t *testing.T) {
			everyway(t, func(t *testing.T, dev device.Device, r *cudatest.Rig) {
				require.Equal(t, shared, dev.Properties().SharedMemory)
				inTiles(t, dev, r, i)
			}, func(l *fakecuda.Library) { l.Set("block_shared", strconv.Itoa(shared)) })
		})
	}
}

// inTiles computes products in each tile, of each layout, in one order of warps or the other.
func inTiles(t *testing.T, dev device.Device, r *cudatest.Rig, order int) {
	for j, tile := range cuda.Tiles() {
		for transposes := range 4 {
			if (order+j+transposes)%len(sharedMemories) != fulltests.Or(1, 0) {
				continue // each tile and layout is run on one of the devices, in full tests on another
			}
			t.Run(fmt.Sprint(tile, transposes), func(t *testing.T) {
				cuda.PreferTile(t, tile)
				r.Greedy((order+j+transposes)%2 == 1)
				multiplyTiles(t, dev, transposes)
			})
		}
	}
}

// multiplyTiles computes products with the operands transposed or not.
func multiplyTiles(t *testing.T, dev device.Device, transposes int) {
	rng := rand.New(rand.NewPCG(9, uint64(transposes)))
	for n, size := range [][3]int{{136, 264, 330}, {131, 260, 72}, {24, 40, 64}} {
		d := []dtype.DType{dtype.Float16, dtype.BFloat16}[(n+transposes)%2]
		a, b := newMatrix(rng, size[0], size[2], 8, transposes&1 != 0), newMatrix(rng, size[2], size[1], 0, transposes&2 != 0)
		dst, c := newMatrix(rng, size[0], size[1], 0, false), newMatrix(rng, size[0], size[1], 8*n, false)
		require.Zero(t, multiply(t, dev, d, a, b, dst, c))
	}
}

func TestMatMul_SaysSoWhenBlocksAreNotGivenTheirSharedMemory(t *testing.T) {
	dev, r := emulated(t)
	cuda.PreferTile(t, "large")
	m := memory{t, dev}
	square := func() op.View { return m.put(dtype.Float16, ramp(256), []int{16, 16}) }
	call := op.Call{Op: op.MatMul, Stream: dev.DefaultStream(), Out: []op.View{square()}, In: []op.View{square(), square()}, F: [8]float64{1}}
	r.Fail("cuFuncSetAttribute", 1, 1)
	require.ErrorIs(t, kernels.Launch(&call), device.ErrInvalidValue)
	r.ClearFaults()
	require.NoError(t, kernels.Launch(&call), "and tries again at the next call")
}

// float32 has tiles of its own, for any strides.
func TestMatMul_InLargeTilesOfFloat32(t *testing.T) { everyway(t, inFloatTiles) }

func inFloatTiles(t *testing.T, dev device.Device, r *cudatest.Rig) {
	for _, greedy := range []bool{false, true} {
		r.Greedy(greedy)
		t.Run(strconv.FormatBool(greedy), func(t *testing.T) { multiplyFloatTiles(t, dev) })
	}
}

func multiplyFloatTiles(t *testing.T, dev device.Device) {
	cuda.PreferTile(t, "float")
	rng := rand.New(rand.NewPCG(10, 11))
	for i, size := range [][3]int{{136, 132, 75}, {129, 131, 64}, {300, 140, 9}, {17, 33, 31}, {140, 128, 500}} {
		for transposes := range 4 {
			if (i+transposes)%fulltests.Or(1, 3) != 0 {
				continue
			}
			t.Run(fmt.Sprint(size, transposes), func(t *testing.T) {
				a, b := newMatrix(rng, size[0], size[2], i, transposes&1 != 0), newMatrix(rng, size[2], size[1], transposes, transposes&2 != 0)
				dst, c := newMatrix(rng, size[0], size[1], i/3, transposes == 3), newMatrix(rng, size[0], size[1], 0, i == 1)
				multiply(t, dev, dtype.Float32, a, b, dst, c)
			})
		}
	}
}

func TestMatMulAct_InLargeTilesOfFloat32WritesBothResults(t *testing.T) {
	everyway(t, inFloatTilesBoth)
}

func inFloatTilesBoth(t *testing.T, dev device.Device, _ *cudatest.Rig) {
	cuda.PreferTile(t, "float")
	rng := rand.New(rand.NewPCG(12, 13))
	for extra := range 2 {
		a, b := newMatrix(rng, 130, 40, 0, false), newMatrix(rng, 40, 136, 0, true)
		dst, pre := newMatrix(rng, 130, 136, 3*extra, false), newMatrix(rng, 130, 136, 8, false)
		multiplyAct(t, dev, dtype.Float32, a, b, dst, newMatrix(rng, 130, 136, 0, false), pre)
	}
}

// TestGPU_MatMulInTilesOfEverySize takes tiles of as many stages as this GPU's blocks have shared memory for.
func TestGPU_MatMulInTilesOfEverySize(t *testing.T) {
	dev := gpu(t, false)
	t.Logf("%d bytes of shared memory", dev.Properties().SharedMemory)
	for _, tile := range cuda.Tiles() {
		for transposes := range 4 {
			t.Run(fmt.Sprint(tile, transposes), func(t *testing.T) {
				cuda.PreferTile(t, tile)
				multiplyTiles(t, dev, transposes)
			})
		}
	}
	t.Run("float", func(t *testing.T) { multiplyFloatTiles(t, dev) })
}
