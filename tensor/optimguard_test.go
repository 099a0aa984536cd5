package tensor_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// guarded are steps of each optimizer under a guard, with tensors of their own as state.
var guarded = map[string]func(p, g tensors, state func() tensors, by guard) error{
	"SGDStep": func(p, g tensors, _ func() tensors, by guard) error {
		return steps.SGD(p, g, nil, training.SGD{LR: 1}, by)
	},
	"SGDStep with momentum": func(p, g tensors, state func() tensors, by guard) error {
		return steps.SGD(p, g, state(), training.SGD{LR: 1, Momentum: 0.9, Dampening: 0.5, First: true}, by)
	},
	"AdamStep": func(p, g tensors, state func() tensors, by guard) error {
		return steps.Adam(p, g, state(), state(), nil, training.Adam{LR: 1, Beta1: 0.9, Beta2: 0.99, Eps: 1, Step: 1}, by)
	},
	"RMSPropStep": func(p, g tensors, state func() tensors, by guard) error {
		return steps.RMSProp(p, g, state(), nil, nil, training.RMSProp{LR: 1, Alpha: 0.9, Eps: 1}, by)
	},
	"AdagradStep": func(p, g tensors, state func() tensors, by guard) error {
		return steps.Adagrad(p, g, state(), training.Adagrad{LR: 1, LRDecay: 0.5, Eps: 1, Step: 1}, by)
	},
	"LionStep": func(p, g tensors, state func() tensors, by guard) error {
		return steps.Lion(p, g, state(), training.Lion{LR: 1, Beta1: 0.9, Beta2: 0.99}, by)
	},
}

func TestStepGuard_ScaledAndCountedStepsAreOrdinaryOnes(t *testing.T) {
	b := onHost(t)
	ones := func(v float64) tensors { return tensors{must(t)(tensor.Full(b.Exec, v, tensor.Float32, 3))} }
	zeros := func() tensors { return ones(0) }
	for name, step := range guarded {
		plain, other, skipped := iota(t, b.Exec, 3), iota(t, b.Exec, 3), iota(t, b.Exec, 3)
		require.NoError(t, step(tensors{plain}, ones(2), zeros, guard{}))
		scale, found := must(t)(tensor.Full(b.Exec, 1024, tensor.Float32, 1)), must(t)(tensor.Zeros(b.Exec, tensor.Float32))
		count := must(t)(tensor.Zeros(b.Exec, tensor.Int64))
		by := guard{Scale: scale, Found: found, Counts: tensors{count}}
		require.NoError(t, step(tensors{other}, ones(2*1024), zeros, by))
		require.Equal(t, values(t, plain), values(t, other), name)
		require.Equal(t, []float64{1}, values(t, count), name)

		require.NoError(t, found.FillInPlace(1))
		require.NoError(t, step(tensors{skipped}, ones(math.Inf(1)), zeros, by))
		require.Equal(t, []float64{0, 1, 2}, values(t, skipped), name)
		require.Equal(t, []float64{1}, values(t, count), name)
		require.EqualValues(t, 2, count.Version(), name)
	}
}

// A scaled gradient may be too large for the type of its parameter, in which it is not.
func TestStepGuard_DividesGradientsOfWiderTypesBeforeTheyAreConverted(t *testing.T) {
	b := onHost(t)
	p, q := must(t)(tensor.Ones(b.Exec, tensor.Float16, 2)), must(t)(tensor.Ones(b.Exec, tensor.Float16, 2))
	wide := must(t)(tensor.FromSlice(b.Exec, []float32{0x1p20, -0x1p18}))
	half := must(t)(tensor.FromSlice(b.Exec, []float32{0x1p10, -0x1p11}))
	half = must(t)(half.To(tensor.Float16))
	scale := must(t)(tensor.Full(b.Exec, 0x1p20, tensor.Float32, 1))
	before := b.allocated()
	by := guard{Scale: scale}
	require.NoError(t, steps.SGD(tensors{p, q}, tensors{wide, half}, nil, training.SGD{LR: 0.5}, by))
	require.Equal(t, []float64{0.5, 1.125}, values(t, p))
	require.Equal(t, []float64{1 - 0x1p-11, 1 + 0x1p-10}, values(t, q), "not rounded between division and step")
	require.Equal(t, before, b.allocated())
	require.Equal(t, []float64{0x1p20, -0x1p18}, values(t, wide))
}

func TestStepGuard_OperandsThatDoNotFitAreRefusedBeforeAnythingChanges(t *testing.T) {
	b := onHost(t)
	other, _ := onSim(t)
	p, g := iota(t, b.Exec, 2), iota(t, b.Exec, 2)
	one := must(t)(tensor.Ones(b.Exec, tensor.Float32))
	two := must(t)(tensor.Ones(b.Exec, tensor.Float32, 2))
	wide := must(t)(tensor.Ones(b.Exec, tensor.Float64))
	far := must(t)(tensor.Ones(other.Exec, tensor.Float32))
	var value *tensor.ValueError
	var shape *tensor.ShapeError
	var dtype *tensor.DTypeError
	var device *tensor.DeviceError
	step := func(by guard) error {
		return steps.SGD(tensors{p}, tensors{g}, nil, training.SGD{LR: 1}, by)
	}
	require.ErrorAs(t, step(guard{Scale: two}), &shape)
	require.ErrorAs(t, step(guard{Found: wide}), &dtype)
	require.ErrorAs(t, step(guard{Scale: one, Found: far}), &device)
	require.ErrorAs(t, step(guard{Counts: tensors{one}}), &dtype)
	require.ErrorAs(t, step(guard{Counts: tensors{}}), &value)
	require.ErrorIs(t, step(guard{Counts: tensors{nil}}), tensor.ErrReleased)
	require.Equal(t, []float64{0, 1}, values(t, p))
	require.Zero(t, p.Version())
}

func TestStepGuard_TakesNoMoreLaunches(t *testing.T) {
	launches := 0
	b, _ := onSim(t, sim.OnCall(func(c sim.Call) {
		if c.Kind == sim.CallSubmit {
			launches++
		}
	}))
	var params, counts tensors
	for range 10 {
		params = append(params, must(t)(tensor.Zeros(b.Exec, tensor.Float32, 5)))
		counts = append(counts, must(t)(tensor.Zeros(b.Exec, tensor.Int64)))
	}
	one := must(t)(tensor.Ones(b.Exec, tensor.Float32))
	launches = 0
	require.NoError(t, steps.Adam(params, params, params, params, nil,
		training.Adam{LR: 1}, guard{Scale: one, Found: one, Counts: counts}))
	require.Equal(t, 1, launches)
}
