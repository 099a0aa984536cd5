package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

func TestComparisons_HaveTheirResultsAndNoGradient(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{1, 2, 3}), autograd.RequiresGrad())
	y := g.Input(r.tensor([]float64{2, 2, 2}))
	for name, c := range map[string]struct {
		got  *autograd.Variable
		want []float64
	}{
		"eq": {x.Eq(y), []float64{0, 1, 0}}, "ne": {x.Ne(y), []float64{1, 0, 1}},
		"lt": {x.Lt(y), []float64{1, 0, 0}}, "le": {x.Le(y), []float64{1, 1, 0}},
		"eq_scalar": {x.EqScalar(2), []float64{0, 1, 0}}, "ne_scalar": {x.NeScalar(2), []float64{1, 0, 1}},
		"lt_scalar": {x.LtScalar(2), []float64{1, 0, 0}}, "le_scalar": {x.LeScalar(2), []float64{1, 1, 0}},
		"gt_scalar": {x.GtScalar(2), []float64{0, 0, 1}}, "ge_scalar": {x.GeScalar(2), []float64{0, 1, 1}},
		"logical_and": {x.And(x.Lt(y)), []float64{1, 0, 0}}, "logical_or": {x.Lt(y).Or(x.Gt(y)), []float64{1, 0, 1}},
		"logical_xor": {x.Le(y).Xor(x.Ge(y)), []float64{1, 0, 1}}, "logical_not": {x.Lt(y).Not(), []float64{0, 1, 1}},
		"any": {x.Gt(y).Any(nil, false), []float64{1}}, "all": {x.Gt(y).All([]int{0}, true), []float64{0}},
		"isnan": {x.IsNaN(), []float64{0, 0, 0}}, "isinf": {x.IsInf(), []float64{0, 0, 0}}, "isfinite": {x.IsFinite(), []float64{1, 1, 1}},
		"gt": {x.Gt(y), []float64{0, 0, 1}}, "ge": {x.Ge(y), []float64{0, 1, 1}},
	} {
		require.Equal(t, tensor.Bool, c.got.DType(), name)
		require.Equal(t, c.want, valuesOf(t, c.got), name)
		require.False(t, c.got.RequiresGrad(), name)
		require.True(t, c.got.IsLeaf(), name)
	}
	require.Equal(t, []float64{2}, valuesOf(t, x.ArgMax(0, true)))
	require.Equal(t, []float64{0}, valuesOf(t, x.ArgMin(0, false)))
	require.False(t, x.ArgMax(0, false).RequiresGrad())
}

func TestBitwise_HasItsResultsAndNoGradient(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x, y := g.Input(r.ints([]int64{1, 6, -4})), g.Input(r.ints([]int64{3, 2, 1}))
	for name, c := range map[string]struct {
		got  *autograd.Variable
		want []float64
	}{
		"and": {x.BitwiseAnd(y), []float64{1, 2, 0}}, "or": {x.BitwiseOr(y), []float64{3, 6, -3}}, "xor": {x.BitwiseXor(y), []float64{2, 4, -3}},
		"not": {x.BitwiseNot(), []float64{-2, -7, 3}}, "left": {x.BitwiseLeftShift(y), []float64{8, 24, -8}},
		"right": {x.BitwiseRightShift(y), []float64{0, 1, -2}}, "and number": {x.BitwiseAndScalar(5), []float64{1, 4, 4}},
		"or number": {x.BitwiseOrScalar(1), []float64{1, 7, -3}}, "xor number": {x.BitwiseXorScalar(1), []float64{0, 7, -3}},
		"left by number": {x.BitwiseLeftShiftScalar(1), []float64{2, 12, -8}}, "right by number": {x.BitwiseRightShiftScalar(1), []float64{0, 3, -2}},
	} {
		require.Equal(t, tensor.Int64, c.got.DType(), name)
		require.Equal(t, c.want, valuesOf(t, c.got), name)
		require.False(t, c.got.RequiresGrad(), name)
	}
	f := g.Input(r.tensor([]float64{1, 2}))
	f.BitwiseAnd(f)
	var refused *tensor.DTypeError
	require.ErrorAs(t, g.Err(), &refused)
}
