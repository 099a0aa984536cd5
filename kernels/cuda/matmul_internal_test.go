package cuda

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/internal/loops"
)

// onlyProperties is a device that is asked for nothing else.
type onlyProperties struct {
	device.Device
	properties device.Properties
}

func (d onlyProperties) Properties() device.Properties { return d.properties }

var (
	a100    = onlyProperties{properties: device.Properties{Processors: 108, SharedMemory: 166912}}
	h200    = onlyProperties{properties: device.Properties{Processors: 132, SharedMemory: 232448}}
	rtx4090 = onlyProperties{properties: device.Properties{Processors: 128, SharedMemory: 101376}}
	unknown = onlyProperties{}
)

// planOf plans a product of row-major half-precision matrices.
func planOf(dev device.Device, batch, m, n, k int, workspace uint64) work {
	w := work{product: product{dtype: dtype.Float16, m: m, n: n, k: k, depth: k, slices: 1, alpha: 1, batch: &loop{loops.Nest{Total: batch}}}}
	w.a, w.b, w.dst = matrix{Row: k, Column: 1}, matrix{Row: n, Column: 1}, matrix{Row: n, Column: 1}
	w.plan(workspace)
	w.fit(dev)
	return w
}

func TestPlan_TakesTheTileWithWhichTheDeviceIsDoneFirst(t *testing.T) {
	for _, c := range []struct {
		dev            device.Device
		batch, m, n, k int
		kernel         string
		blocks, slices int
		stages, shared int
	}{
		{h200, 1, 4096, 4096, 4096, "matmul_large_nn_f16", 512, 1, 4, 196608},
		{a100, 1, 4096, 4096, 4096, "matmul_large_nn_f16", 512, 1, 3, 147456},
		{rtx4090, 1, 4096, 4096, 4096, "matmul_large_nn_f16", 512, 1, 2, 98304},
		{h200, 1, 2048, 2048, 2048, "matmul_large_nn_f16", 128, 1, 4, 196608},
		{h200, 1, 1408, 1536, 1024, "matmul_middle_nn_f16", 132, 1, 4, 65536},
		{rtx4090, 1, 1408, 1024, 1024, "matmul_middle_nn_f16", 88, 1, 3, 49152},
		{h200, 1, 512, 512, 512, "matmul_small_nn_f16", 64, 2, 4, 65536},
		{h200, 64, 128, 64, 64, "matmul_small_nn_f16", 2, 1, 4, 65536},
		{h200, 1, 512, 512, 8192, "matmul_middle_nn_f16", 16, 8, 4, 65536},
		{h200, 1, 5_000_000, 64, 64, "matmul_down_nn_f16", 1, 1, 0, 73728},
		{h200, 1, 50_000, 256, 64, "matmul_down_nn_f16", 4, 1, 0, 73728},
		{h200, 1, 50_000, 64, 256, "matmul_down_nn_f16", 1, 1, 0, 98304},
		{rtx4090, 1, 50_000, 64, 256, "matmul_down_nn_f16", 1, 1, 0, 98304},
		{rtx4090, 1, 50_000, 64, 320, "matmul_small_nn_f16", 782, 1, 2, 32768}, // too much to keep
		{unknown, 1, 50_000, 64, 64, "matmul_small_nn_f16", 782, 1, 2, 32768},
		{a100, 64, 64, 3136, 64, "matmul_across_nn_f16", 1, 1, 0, 73728},
		{unknown, 1, 4096, 4096, 4096, "matmul_middle_nn_f16", 1024, 1, 2, 32768},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			w := planOf(c.dev, c.batch, c.m, c.n, c.k, math.MaxUint64)
			require.Equal(t, c.kernel, w.kernel.name)
			require.EqualValues(t, c.blocks, w.shape.Grid.X)
			require.Equal(t, c.slices, w.slices)
			require.Equal(t, c.stages, w.stages)
			require.EqualValues(t, c.shared, w.shape.Shared)
		})
	}
}

// Blocks along y share the strips of a product: at most two for each processor, with as many strips for each, or as nearly as can be.
func TestPlan_GivesBlocksAsManyStrips(t *testing.T) {
	for _, c := range []struct {
		dev               device.Device
		batch, m, n, k, y int
	}{
		{h200, 1, 256 * 264, 64, 64, 264},
		{h200, 1, 256*264 + 1, 64, 64, 133},
		{h200, 1, 256 * 400, 64, 64, 200},
		{h200, 1, 256 * 600, 64, 64, 200},
		{h200, 1, 256 * 264, 64, 512, 132}, // whose blocks share more than half of what there is
		{rtx4090, 1, 256 * 264, 64, 64, 88},
		{h200, 1, 256 * 264, 256, 64, 66},
		{h200, 20, 64, 3136, 64, 13},
		{h200, 40, 64, 3136, 64, 5},
		{h200, 300, 64, 3136, 64, 1},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			w := planOf(c.dev, c.batch, c.m, c.n, c.k, math.MaxUint64)
			require.EqualValues(t, c.y, w.shape.Grid.Y, w.kernel.name)
		})
	}
}

func TestPlan_CutsSumsAlikeOnEveryDeviceAndOnlyWithWorkspaceForThem(t *testing.T) {
	for _, k := range []int{512, 700, 1000, 4096, 100_000} {
		want := planOf(h200, 1, 256, 384, k, math.MaxUint64)
		require.Greater(t, want.slices, 1)
		require.Zero(t, want.depth%sliceStep)
		require.GreaterOrEqual(t, want.slices*want.depth, k)
		require.Less(t, (want.slices-1)*want.depth, k)
		require.EqualValues(t, want.slices*256*384*4, want.bytes)
		for _, dev := range []device.Device{a100, rtx4090, unknown} {
			got := planOf(dev, 1, 256, 384, k, want.bytes)
			require.Equal(t, []int{want.slices, want.depth}, []int{got.slices, got.depth})
		}
		none := planOf(h200, 1, 256, 384, k, want.bytes-1)
		require.Equal(t, []int{1, k}, []int{none.slices, none.depth})
		require.Zero(t, none.bytes)
	}
}
