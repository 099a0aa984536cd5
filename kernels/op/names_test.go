package op_test

import (
	"strings"
	"testing"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/stretchr/testify/require"
)

func TestID_EveryOperationHasANameOfItsOwnAndTypes(t *testing.T) {
	seen := map[string]op.ID{}
	for id := op.Invalid + 1; int(id) < op.Count; id++ {
		require.True(t, id.Valid())
		name := id.String()
		require.NotEmpty(t, name, "operation %d has no row in specs", id)
		require.Equal(t, strings.ToLower(name), name)
		require.NotContains(t, seen, name)
		seen[name] = id
		require.NotEmpty(t, id.Types(), name)
		out, in, variable := id.Arity()
		require.True(t, variable || out > 0 && in >= 0, name)
	}
	require.Equal(t, "add", op.Add.String())
	require.Equal(t, "relu_backward", op.ReLUGrad.String())
	require.Equal(t, "op(0)", op.Invalid.String())
	require.Equal(t, "op(9999)", op.ID(9999).String())
	require.False(t, op.ID(op.Count).Valid())
	require.Nil(t, op.Invalid.Types())
}

func TestArity_SaysWhereViewsAreOptional(t *testing.T) {
	for _, id := range []op.ID{op.MatMul, op.Conv2D, op.CrossEntropy, op.Attention, op.SGDStep, op.AmpUnscale} {
		_, _, variable := id.Arity()
		require.True(t, variable, id)
	}
	out, in, variable := op.MatMul.Arity()
	require.Equal(t, []int{1, 3}, []int{out, in})
	require.True(t, variable)
	out, in, variable = op.Add.Arity()
	require.Equal(t, []int{1, 2}, []int{out, in})
	require.False(t, variable)
}

func TestKey_IsTheTypeOfTheComputation(t *testing.T) {
	view := func(d dtype.DType) op.View { return op.View{DType: d} }
	key := func(id op.ID, out dtype.DType, in ...dtype.DType) dtype.DType {
		c := op.Call{Op: id, Out: []op.View{view(out)}}
		for _, d := range in {
			c.In = append(c.In, view(d))
		}
		return c.Key()
	}
	require.Equal(t, dtype.Float16, key(op.Add, dtype.Float16, dtype.Float16, dtype.Float16))
	require.Equal(t, dtype.Int32, key(op.Lt, dtype.Bool, dtype.Int32, dtype.Int32))
	require.Equal(t, dtype.Float64, key(op.Cast, dtype.Int64, dtype.Float64))
	require.Equal(t, dtype.Uint8, key(op.Sum, dtype.Int64, dtype.Uint8))
	require.Equal(t, dtype.Float32, key(op.Where, dtype.Float32, dtype.Bool, dtype.Float32, dtype.Float32))
	require.Equal(t, dtype.Float32, key(op.ArgMax, dtype.Int64, dtype.Float32))
	require.Equal(t, dtype.BFloat16, key(op.AdamStep, dtype.BFloat16, dtype.BFloat16))
	require.Equal(t, dtype.Invalid, (&op.Call{Op: op.SGDStep}).Key())
	require.Equal(t, dtype.Invalid, (&op.Call{Op: op.Lt}).Key())
	require.Equal(t, dtype.Invalid, (&op.Call{Op: 9999}).Key())
}

func TestElementwise_SaysWhereOutputsMayBeInputs(t *testing.T) {
	require.True(t, op.GELUGrad.Elementwise())
	require.True(t, op.Copy.Elementwise())
	require.False(t, op.Softmax.Elementwise())
	require.False(t, op.Sum.Elementwise())
	require.False(t, op.Invalid.Elementwise())
}
