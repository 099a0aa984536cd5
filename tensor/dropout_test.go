package tensor_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/tensor"
)

func TestDropout_KeepsTheExpectationAndRepeatsFromTheSameState(t *testing.T) {
	b := onHost(t)
	gen := tensor.NewGenerator(5)
	ones := must(t)(tensor.Ones(b.Exec, tensor.Float32, 100, 201))
	state := gen.State()
	first := values(t, must(t)(ones.Dropout(gen, 0.25)))
	mean, _ := moments(first)
	require.InDelta(t, 1, mean, 0.02)
	for _, v := range first {
		require.True(t, v == 0 || math.Abs(v-4.0/3) < 1e-6, "%v", v)
	}
	require.NotEqual(t, first, values(t, must(t)(ones.Dropout(gen, 0.25))))
	gen.SetState(state)
	require.Equal(t, first, values(t, must(t)(ones.Dropout(gen, 0.25))))

	gen.SetState(state)
	transposed := must(t)(must(t)(tensor.Ones(b.Exec, tensor.Float32, 201, 100)).Transpose(0, 1))
	require.Equal(t, first, values(t, must(t)(transposed.Dropout(gen, 0.25))), "the layout makes no difference")
}

// What is dropped does not depend on the memory format, as in PyTorch: numbers belong to places of the shape.
func TestDropout_DropsTheSameInAllMemoryFormats(t *testing.T) {
	b := onHost(t)
	for _, shape := range [][]int{{2, 4, 6, 8}, {3, 5, 3, 7}, {2, 3, 2, 4, 5}, {0, 3, 4, 5}, {2, 1, 4, 5}} {
		for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16} {
			f := tensor.ChannelsLast + tensor.MemoryFormat(len(shape)-4)
			x := must(t)(must(t)(tensor.RandN(b.Exec, tensor.NewGenerator(2), tensor.Float32, shape...)).To(dt))
			gen := tensor.NewGenerator(1)
			want := must(t)(x.Dropout(gen, 0.4))
			state := gen.State()
			last := must(t)(x.ToMemoryFormat(f))
			gen = tensor.NewGenerator(1)
			got := must(t)(last.Dropout(gen, 0.4))
			require.Equal(t, values(t, want), values(t, got), "%v", shape)
			require.Equal(t, state, gen.State())
			require.True(t, got.IsContiguousIn(f) || shape[0] == 0)
			require.False(t, got.SharesStorage(last))
		}
	}
}

func TestDropout_AtItsEnds(t *testing.T) {
	b := onHost(t)
	gen := tensor.NewGenerator(5)
	x := must(t)(tensor.FromSlice(b.Exec, []float32{1, -2, 3}))
	require.Equal(t, []float64{1, -2, 3}, values(t, must(t)(x.Dropout(gen, 0))))
	for _, v := range values(t, must(t)(x.Dropout(gen, 1))) {
		require.Zero(t, v)
	}
	nan := must(t)(tensor.Full(b.Exec, math.NaN(), tensor.Float64, 2))
	require.True(t, math.IsNaN(values(t, must(t)(nan.Dropout(gen, 1)))[0]), "0 * NaN")
}

func TestDropout_RefusesWrongArguments(t *testing.T) {
	b := onHost(t)
	gen := tensor.NewGenerator(1)
	x := must(t)(tensor.Ones(b.Exec, tensor.Float32, 3))
	var value *tensor.ValueError
	var dtype *tensor.DTypeError
	_, err := x.Dropout(nil, 0.5)
	require.ErrorAs(t, err, &value)
	for _, p := range []float64{-0.1, 1.1, math.NaN()} {
		_, err = x.Dropout(gen, p)
		require.ErrorAs(t, err, &value)
	}
	_, err = must(t)(tensor.Ones(b.Exec, tensor.Int32, 3)).Dropout(gen, 0.5)
	require.ErrorAs(t, err, &dtype)
	require.Zero(t, gen.State().Offset, "a refused call consumes nothing")
}

func TestDropout_OfNothingIsAnotherHandleWithoutALaunch(t *testing.T) {
	calls := 0
	b, _ := onSim(t, sim.OnCall(func(c sim.Call) {
		if c.Kind == sim.CallSubmit {
			calls++
		}
	}))
	x := must(t)(must(t)(tensor.Ones(b.Exec, tensor.Float32, 3, 4)).T())
	gen := tensor.NewGenerator(1)
	state, before := gen.State(), b.allocated()
	calls = 0
	y := must(t)(x.Dropout(gen, 0))
	require.True(t, y.SharesStorage(x))
	require.Equal(t, x.Strides(), y.Strides())
	require.Zero(t, calls)
	require.Equal(t, before, b.allocated())
	require.Equal(t, state, gen.State(), "nothing was drawn")
	_, err := must(t)(tensor.Ones(b.Exec, tensor.Int32, 3)).Dropout(gen, 0)
	var types *tensor.DTypeError
	require.ErrorAs(t, err, &types, "also of nothing")
}
