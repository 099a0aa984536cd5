package eager_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/eager"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

type variable = *autograd.Variable

// rig is a device with an allocator of its own, which fails once it is asked to.
type rig struct {
	memory.Allocator
	calls, failAt int
	e             tensor.Exec
	inner         *memory.Caching
}

func (r *rig) Alloc(bytes uint64, s device.Stream) (memory.Block, error) {
	if r.calls++; r.calls == r.failAt {
		return memory.Block{}, &memory.OOMError{Requested: bytes}
	}
	return r.Allocator.Alloc(bytes, s)
}

func (r *rig) allocated() int64 { return int64(r.inner.Stats().AllocatedBytes.All.Current) }

func newRig(t *testing.T) *rig {
	t.Helper()
	dev := host.New()
	inner, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	r := &rig{Allocator: inner, inner: inner}
	r.e, err = tensor.On(dev, tensor.WithAllocator(r))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.Zero(t, r.allocated())
		require.NoError(t, inner.Close())
		require.NoError(t, dev.Close())
	})
	return r
}

func (r *rig) tensor(t *testing.T, data []float64, shape ...int) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromSlice(r.e, data, shape...)
	require.NoError(t, err)
	return x
}

// A function that captures a variable of another graph has nothing to do with its arguments.
func TestOf_RefusesVariablesOfAnotherGraph(t *testing.T) {
	r := newRig(t)
	g := autograd.NewGraph(r.e.Device(), autograd.WithAllocator(r.inner))
	defer g.Release()
	x := r.tensor(t, []float64{1, 2}, 2)
	defer x.Release()
	foreign := g.Input(x)
	before := r.allocated()
	for what, f := range map[string]func(v variable) variable{
		"alone": func(variable) variable { return foreign }, "with the argument": func(v variable) variable { return v.Add(foreign) },
	} {
		_, err := eager.Of(x, f)
		require.ErrorIs(t, err, autograd.ErrOtherGraph, what)
		require.Equal(t, before, r.allocated())
	}
	_, err := eager.Of(x, func(variable) variable { return foreign })
	var value *tensor.ValueError
	require.ErrorAs(t, err, &value)
	require.ErrorContains(t, err, "eager.Of: result 0 of the function is of another graph than its arguments")
	require.NoError(t, g.Err())
}

func values(t *testing.T, x *tensor.Tensor) []float64 {
	t.Helper()
	v, err := x.Float64s()
	require.NoError(t, err)
	return v
}

func TestOf_GivesTheResultAndKeepsNothingElse(t *testing.T) {
	r := newRig(t)
	x := r.tensor(t, []float64{1, 2, 3, 4}, 2, 2)
	held := r.allocated()
	trace, err := eager.Of(x, variable.Trace)
	require.NoError(t, err)
	require.Equal(t, []float64{5}, values(t, trace))
	require.Equal(t, held+512, r.allocated(), "the result alone")
	kron, err := eager.Of2(x, trace, variable.Kron)
	require.NoError(t, err)
	require.Equal(t, []float64{5, 10, 15, 20}, values(t, kron))
	sum, err := eager.Of3(x, trace, kron, func(a, b, c variable) variable { return a.Mul(b).Sub(c).Abs().Sum(nil, false) })
	require.NoError(t, err)
	require.Equal(t, []float64{0}, values(t, sum))
	for _, y := range []*tensor.Tensor{trace, kron, sum} {
		y.Release()
	}
	require.Equal(t, held, r.allocated())
	x.Release()
}

func TestAll_HasViewsAndInputsAmongItsResults(t *testing.T) {
	r := newRig(t)
	x := r.tensor(t, []float64{3, 1, 2})
	out, err := eager.All([]*tensor.Tensor{x}, func(in []variable) []variable {
		v, i := in[0].CumMax(0)
		return []variable{v, i, in[0], in[0], in[0].Narrow(0, 1, 2)}
	})
	require.NoError(t, err)
	require.True(t, x.SharesStorage(out[2]))
	x.Release()
	require.Equal(t, []float64{3, 1, 2}, values(t, out[2]))
	require.Equal(t, []float64{1, 2}, values(t, out[4]))
	more, err := out[0].Add(out[0]) // under the Exec of x
	require.NoError(t, err)
	require.Equal(t, r.e.Allocator(), more.Exec().Allocator())
	more.Release()
	for _, y := range out {
		y.Release()
	}
	none, err := eager.All([]*tensor.Tensor{more.On(r.e)}, func([]variable) []variable { return nil })
	require.Error(t, err, "a released tensor")
	require.Nil(t, none)
}

func TestOf_DrawsFromAGenerator(t *testing.T) {
	r := newRig(t)
	x := r.tensor(t, make([]float64, 64))
	draw := func() []float64 {
		y, err := eager.Of(x, func(v variable) variable { return v.RandLike() }, autograd.WithGenerator(tensor.NewGenerator(5)))
		require.NoError(t, err)
		defer y.Release()
		return values(t, y)
	}
	require.Equal(t, draw(), draw())
	x.Release()
}

func TestOf_ReturnsErrorsAndKeepsNothing(t *testing.T) {
	r := newRig(t)
	x, other := r.tensor(t, []float64{1, 2, 3}), newRig(t)
	y := other.tensor(t, []float64{1, 2, 3})
	held := r.allocated()
	g := autograd.NewGraph(other.e.Device())
	defer g.Release()
	var shape *tensor.ShapeError
	var value *tensor.ValueError
	var gone *tensor.ReleasedError
	_, err := eager.Of(x, variable.Trace)
	require.ErrorAs(t, err, &shape)
	_, err = eager.Of2(x, y, variable.Add)
	require.Error(t, err, "of another device")
	_, err = eager.Of(x, func(variable) variable { return nil })
	require.ErrorAs(t, err, &value)
	_, err = eager.Of(x, nil)
	require.ErrorAs(t, err, &value)
	_, err = eager.Of2(x, x, nil)
	require.ErrorAs(t, err, &value)
	_, err = eager.Of3(x, x, x, nil)
	require.ErrorAs(t, err, &value)
	_, err = eager.All([]*tensor.Tensor{x}, nil)
	require.ErrorAs(t, err, &value)
	_, err = eager.All(nil, func(in []variable) []variable { return in })
	require.ErrorAs(t, err, &value)
	_, err = eager.Of2(x, nil, variable.Add)
	require.ErrorAs(t, err, &gone)
	_, err = eager.All([]*tensor.Tensor{x}, func(in []variable) []variable { return []variable{in[0].Exp(), nil} })
	require.ErrorAs(t, err, &value)
	require.Panics(t, func() { _, _ = eager.Of(x, func(v variable) variable { v.Exp(); panic("the program's") }) })
	require.Equal(t, held, r.allocated())
	x.Release()
	y.Release()
	_, err = eager.Of(x, variable.Trace)
	require.ErrorAs(t, err, &gone)
}

func TestOf_KeepsNothingWhenMemoryIsMissing(t *testing.T) {
	r := newRig(t)
	x := r.tensor(t, []float64{1, 2, 3, 4}, 2, 2)
	held := r.allocated()
	for nth := 1; ; nth++ {
		r.calls, r.failAt = 0, nth
		y, err := eager.Of2(x, x, func(a, b variable) variable { return a.Kron(b).Softmin(0) })
		r.failAt = 0
		if err == nil {
			require.Greater(t, nth, 2)
			y.Release()
			break
		}
		require.ErrorIs(t, err, memory.ErrOutOfMemory)
		require.Equal(t, held, r.allocated())
	}
	x.Release()
}

func TestOf_OnADeviceThatIsClosedIsAnError(t *testing.T) {
	dev := host.New()
	e, err := tensor.On(dev)
	require.NoError(t, err)
	x, err := tensor.FromSlice(e, []float64{1, 2})
	require.NoError(t, err)
	require.NoError(t, dev.Close())
	_, err = eager.Of(x, variable.Exp)
	require.Error(t, err)
	x.Release()
}
