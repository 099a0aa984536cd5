package tensor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/cistern-ml/cistern/memory"
)

func TestLaunch_TakesTheWorkspaceOnlyForTheCall(t *testing.T) {
	dev := sim.New(device.GiB)
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	e, err := On(dev, WithAllocator(alloc))
	require.NoError(t, err)
	x, err := Zeros(e, Float32, 10)
	require.NoError(t, err)
	defer x.Release()
	t.Cleanup(func(original func(*op.Call) uint64) func() { return func() { workspace = original } }(workspace))
	workspace = func(*op.Call) uint64 { return 5000 }
	y, err := x.Exp()
	require.NoError(t, err)
	defer y.Release()
	stats := alloc.Stats().AllocatedBytes.All
	require.EqualValues(t, 2*512, stats.Current)
	require.EqualValues(t, 2*512+5120, stats.Peak)

	dev.FailNext(sim.CallSubmit, 1, device.ErrLaunch)
	_, err = x.Exp()
	require.ErrorIs(t, err, device.ErrLaunch)
	require.EqualValues(t, 2*512, alloc.Stats().AllocatedBytes.All.Current)

	workspace = func(*op.Call) uint64 { return 2 * device.GiB }
	_, err = x.Exp()
	require.ErrorIs(t, err, memory.ErrOutOfMemory)
	require.ErrorContains(t, err, "tensor: Exp: ")
	require.EqualValues(t, 2*512, alloc.Stats().AllocatedBytes.All.Current)
}

// shapesOfProducts are the shapes of the results of the products that run launches.
func shapesOfProducts(t *testing.T, run func() (*Tensor, error)) (shapes []Shape) {
	t.Helper()
	defer func(original func(*op.Call) uint64) { workspace = original }(workspace)
	workspace = func(c *op.Call) uint64 {
		if c.Op == op.MatMul {
			shapes = append(shapes, Shape(c.Out[0].Shape[:c.Out[0].NDim]).Clone())
		}
		return 0
	}
	x, err := run()
	require.NoError(t, err)
	x.Release()
	return shapes
}

func TestMatMul_OfABatchAndOneMatrixIsOneTallProduct(t *testing.T) {
	dev := sim.New(device.GiB)
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	e, err := On(dev, WithAllocator(alloc))
	require.NoError(t, err)
	zeros := func(shape ...int) *Tensor {
		x, err := Zeros(e, Float32, shape...)
		require.NoError(t, err)
		t.Cleanup(x.Release)
		return x
	}
	batch, matrix, bias := zeros(2, 3, 4), zeros(4, 5), zeros(5)
	transposed, err := batch.Transpose(0, 1) // [3, 2, 4], whose rows are not at one distance
	require.NoError(t, err)
	defer transposed.Release()
	weight := zeros(5, 4)
	for name, c := range map[string]struct {
		run  func() (*Tensor, error)
		want Shape
	}{
		"a batch and a matrix":       {func() (*Tensor, error) { return batch.MatMul(matrix) }, Shape{6, 5}},
		"of rows that lie anyhow":    {func() (*Tensor, error) { return transposed.MatMul(matrix) }, Shape{3, 2, 5}},
		"a layer":                    {func() (*Tensor, error) { return Linear(batch, weight, bias) }, Shape{6, 5}},
		"a layer of four dimensions": {func() (*Tensor, error) { return Linear(zeros(2, 1, 3, 4), weight, nil) }, Shape{6, 5}},
		"two batches":                {func() (*Tensor, error) { return batch.MatMul(zeros(2, 4, 5)) }, Shape{2, 3, 5}},
		"one matrix and a batch":     {func() (*Tensor, error) { return weight.MatMul(zeros(2, 4, 3)) }, Shape{2, 5, 3}},
	} {
		require.Equal(t, []Shape{c.want}, shapesOfProducts(t, c.run), name)
	}
}
