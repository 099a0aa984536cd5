package examples

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// What docs/from-pytorch.md says of lifetimes and differences, sentence by sentence.

func TestFromPyTorch_Lifetimes(t *testing.T) {
	dev, e := rig(t)
	x, err := tensor.Full(e, 2, tensor.Float32, 3)
	require.NoError(t, err)
	g := autograd.NewGraph(dev)
	in := g.Input(x, autograd.RequiresGrad())
	x.Release() // the graph has a handle of its own
	passed, kept := in.MulScalar(2), in.MulScalar(3).Keep()
	loss := passed.Mul(kept).Sum(nil, false)
	lent, err := kept.Tensor()
	require.NoError(t, err)
	lent.Release() // does nothing: it is lent
	require.NoError(t, loss.Backward())
	require.False(t, passed.Alive(), "Backward frees the values between")
	require.True(t, kept.Alive() && loss.Alive() && in.Alive())

	var inner *autograd.Variable
	result := g.Scope(func() *autograd.Variable {
		inner = in.AddScalar(1)
		return inner.MulScalar(2)
	})
	require.False(t, inner.Alive())
	require.True(t, result.Alive())

	taken, err := kept.Take()
	require.NoError(t, err)
	g.Release()
	_, err = loss.Item()
	require.ErrorIs(t, err, autograd.ErrReleased)
	values, err := taken.Float64s()
	require.NoError(t, err)
	require.Equal(t, []float64{6, 6, 6}, values)
	taken.Release()
	a, err := memory.For(dev)
	require.NoError(t, err)
	require.Zero(t, a.Stats().Allocation.All.Current)
}

func TestFromPyTorch_Differences(t *testing.T) {
	dev, e := rig(t)
	x, err := tensor.FromSlice(e, []float64{1, 2, 3, 4}, 2, 2)
	require.NoError(t, err)
	defer x.Release()
	require.Equal(t, tensor.Float64, x.DType())
	for _, dt := range dtype.All() {
		require.Contains(t, []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16, tensor.Int64, tensor.Int32, tensor.Uint8, tensor.Bool}, dt)
	}

	require.Equal(t, tensor.Float32, placed(t, dev, nn.Linear(1, 1)).Weight.Tensor().DType())

	row, err := x.Select(0, 1)
	require.NoError(t, err)
	defer row.Release()
	zeros, err := tensor.Zeros(e, tensor.Float64, 2)
	require.NoError(t, err)
	defer zeros.Release()
	require.NoError(t, row.CopyFrom(zeros))
	values, err := x.Float64s()
	require.NoError(t, err)
	require.Equal(t, []float64{1, 2, 0, 0}, values, "a part was written through a view")

	g := autograd.NewGraph(dev)
	defer g.Release()
	n, err := g.Arange(0, 3, 1, tensor.Int64).AddScalar(2).Sum(nil, false).Item()
	require.NoError(t, err)
	require.Equal(t, 9.0, n)
	require.Equal(t, tensor.Int64, g.Arange(0, 3, 1, tensor.Int64).AddScalar(2).DType())
	require.ErrorIs(t, g.Input(x, autograd.RequiresGrad()).MulScalar(2).Select(0, 0).AddScalarInPlace(1).Graph().Err(), autograd.ErrInPlace)

	elsewhere := host.New()
	defer func() { require.NoError(t, elsewhere.Close()) }()
	other := autograd.NewGraph(elsewhere)
	defer other.Release()
	var wrong *tensor.DeviceError
	require.ErrorAs(t, other.Input(x).Graph().Err(), &wrong)
}
