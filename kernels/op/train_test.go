package op_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/kernels/op"
)

func TestCheck_OfOptimizersAndClipping(t *testing.T) {
	stream := device.Stream(host.Default().DefaultStream())
	x, norm, half := view(dtype.Float32, 2, 3), view(dtype.Float64), view(dtype.Float16, 2, 3)
	transposed := x
	transposed.Strides = [op.MaxDims]int{1, 2}
	one := [8]int64{1}
	flag, count := view(dtype.Float32), view(dtype.Int64)
	decided := func(flags int64) [8]int64 { return [8]int64{0: 1, 4: flags} }
	for name, c := range map[string]struct {
		call op.Call
		bad  bool
	}{
		"rmsprop":          {call: op.Call{Op: op.RMSPropStep, Out: views(x, x), In: views(x), I: one}},
		"rmsprop momentum": {call: op.Call{Op: op.RMSPropStep, Out: views(x, x, x), In: views(x), F: [8]float64{4: 1}, I: one}},
		"rmsprop all": {
			call: op.Call{Op: op.RMSPropStep, Out: views(x, x, x, x), In: views(x), F: [8]float64{4: 1}, I: [8]int64{1, 1}}},
		"rmsprop without a buffer": {
			call: op.Call{Op: op.RMSPropStep, Out: views(x, x), In: views(x), F: [8]float64{4: 1}, I: one}, bad: true},
		"amsgrad":                 {call: op.Call{Op: op.AdamStep, Out: views(x, x, x, x), In: views(x), I: [8]int64{1, 0, 0, 1}}},
		"amsgrad without largest": {call: op.Call{Op: op.AdamStep, Out: views(x, x, x), In: views(x), I: [8]int64{1, 0, 0, 1}}, bad: true},
		"adagrad":                 {call: op.Call{Op: op.AdagradStep, Out: views(x, x), In: views(x), I: one}},
		"lion of two types":       {call: op.Call{Op: op.LionStep, Out: views(x, half), In: views(x), I: one}, bad: true},

		"decided": {call: op.Call{Op: op.AdamStep, Out: views(x, x, x, count), In: views(x, flag, flag),
			I: decided(op.StepScaled | op.StepGuarded | op.StepCounted)}},
		"guarded":           {call: op.Call{Op: op.SGDStep, Out: views(half), In: views(half, flag), I: decided(op.StepGuarded)}},
		"counted":           {call: op.Call{Op: op.SGDStep, Out: views(x, count), In: views(x), I: decided(op.StepCounted)}},
		"without its scale": {call: op.Call{Op: op.SGDStep, Out: views(x), In: views(x, flag), I: decided(op.StepScaled | op.StepGuarded)}, bad: true},
		"a scale too many":  {call: op.Call{Op: op.SGDStep, Out: views(x), In: views(x, flag), I: one}, bad: true},
		"a wide flag":       {call: op.Call{Op: op.LionStep, Out: views(x, x), In: views(x, norm), I: decided(op.StepGuarded)}, bad: true},
		"a long scale":      {call: op.Call{Op: op.LionStep, Out: views(x, x), In: views(x, x), I: decided(op.StepScaled)}, bad: true},
		"without a counter": {call: op.Call{Op: op.LionStep, Out: views(x, x), In: views(x), I: decided(op.StepCounted)}, bad: true},
		"a narrow counter":  {call: op.Call{Op: op.LionStep, Out: views(x, x, flag), In: views(x), I: decided(op.StepCounted)}, bad: true},

		"norm":              {call: op.Call{Op: op.GradNorm, Out: views(norm), In: views(x, x), F: [8]float64{math.Inf(1)}, I: [8]int64{2}}},
		"norm in float32":   {call: op.Call{Op: op.GradNorm, Out: views(view(dtype.Float32)), In: views(x), I: one}, bad: true},
		"norm of two types": {call: op.Call{Op: op.GradNorm, Out: views(norm), In: views(x, half), I: [8]int64{2}}, bad: true},
		"clip":              {call: op.Call{Op: op.ClipNorm, Out: views(half), In: views(norm), I: one}},
		"clip without norm": {call: op.Call{Op: op.ClipNorm, Out: views(half), I: one}, bad: true},
		"clip strided":      {call: op.Call{Op: op.ClipNorm, Out: views(transposed), In: views(norm), I: one}, bad: true},
		"clip value":        {call: op.Call{Op: op.ClipValue, Out: views(half, half), I: [8]int64{2}}},
		"clip integers":     {call: op.Call{Op: op.ClipValue, Out: views(view(dtype.Int32)), I: one}, bad: true},
	} {
		c.call.Stream = stream
		if err := op.Check(&c.call); c.bad {
			require.ErrorIs(t, err, op.ErrCall, name)
		} else {
			require.NoError(t, err, name)
		}
	}
}

func TestCheck_OfCells(t *testing.T) {
	stream := device.Stream(host.Default().DefaultStream())
	state, four, three := view(dtype.Float32, 2, 5), view(dtype.Float32, 2, 20), view(dtype.Float32, 2, 15)
	apart := state
	apart.Strides = [op.MaxDims]int{40, 1}
	transposed := state
	transposed.Strides = [op.MaxDims]int{1, 2}
	for name, c := range map[string]struct {
		call op.Call
		bad  bool
	}{
		"lstm":            {call: op.Call{Op: op.LSTMCell, Out: views(four, apart, state), In: views(apart)}},
		"lstm narrow":     {call: op.Call{Op: op.LSTMCell, Out: views(three, state, state), In: views(state)}, bad: true},
		"lstm transposed": {call: op.Call{Op: op.LSTMCell, Out: views(four, transposed, state), In: views(state)}, bad: true},
		"lstm rows":       {call: op.Call{Op: op.LSTMCell, Out: views(four, state, state), In: views(view(dtype.Float32, 3, 5))}, bad: true},
		"lstm grad":       {call: op.Call{Op: op.LSTMCellGrad, Out: views(four, state), In: views(four, state, state, state, state, state)}},
		"lstm grad no":    {call: op.Call{Op: op.LSTMCellGrad, Out: views(four, state), In: views(state, state, state, state, state, state)}, bad: true},
		"gru":             {call: op.Call{Op: op.GRUCell, Out: views(three, state, state), In: views(three, state)}},
		"gru grad":        {call: op.Call{Op: op.GRUCellGrad, Out: views(three, three, state), In: views(three, state, state, state, state)}},
		"gru vector":      {call: op.Call{Op: op.GRUCell, Out: views(three, state, view(dtype.Float32, 5)), In: views(three, state)}, bad: true},
	} {
		c.call.Stream = stream
		if err := op.Check(&c.call); c.bad {
			require.ErrorIs(t, err, op.ErrCall, name)
		} else {
			require.NoError(t, err, name)
		}
	}
}
