package op_test

import (
	"testing"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/stretchr/testify/require"
)

const f16 = dtype.Float16

func TestCheck_AcceptsNormalisations(t *testing.T) {
	a, half := straight(f32, 4, 6, 5), straight(f16, 4, 6, 5)
	rows, c := straight(f32, 8), straight(f32, 6)
	for name, err := range map[string]error{
		"rows":              check(op.RowNorm, these(a, rows, rows), these(a), 2),
		"affine":            check(op.RowNorm, these(a, rows, rows), these(a, c, c), 2, op.NormWeight|op.NormBias),
		"bias alone":        check(op.RowNorm, these(a, rows, rows), these(a, c), 2, op.NormBias),
		"root mean square":  check(op.RowNorm, these(a, rows), these(a, c), 2, op.NormWeight|op.NormRMS),
		"half":              check(op.RowNorm, these(half, rows, rows), these(half, straight(f16, 6)), 2, op.NormWeight),
		"mixed":             check(op.RowNorm, these(half, rows, rows), these(half, c), 2, op.NormWeight),
		"gradient":          check(op.RowNormGrad, these(a), these(a, a, rows, rows, c), 2, op.NormWeight),
		"sums of rows":      check(op.NormSums, these(c, c), these(a, a, rows, rows), 2),
		"sums of channels":  check(op.NormSums, these(c, c), these(a, a, c, c), 0),
		"stats":             check(op.ChannelStats, these(c, c), these(half)),
		"running":           check(op.ChannelStats, these(c, c, straight(f16, 6), straight(f16, 6)), these(half), 0, op.NormRunning),
		"channels":          check(op.ChannelNorm, these(a), these(a, c, c, c, c), 0, op.NormWeight|op.NormBias),
		"channels gradient": check(op.ChannelNormGrad, these(a), these(a, a, c, c, c, c, c), 0, op.NormWeight|op.NormTraining),
		"constants":         check(op.ChannelNormGrad, these(a), these(a, a, c, c), 0, op.NormVariance),
		"bags":              check(op.EmbeddingBag, these(straight(f32, 3, 4)), these(straight(f32, 9, 4), straight(i64, 7), straight(i64, 3)), op.BagSum),
		"greatest of bags":  check(op.EmbeddingBag, these(straight(f32, 3, 4), straight(i64, 3, 4)), these(straight(f32, 9, 4), straight(i64, 7), straight(i64, 3)), op.BagMax),
		"bags gradient": check(op.EmbeddingBagGrad, these(straight(f32, 9, 4)),
			these(straight(f32, 3, 4), straight(i64, 7), straight(i64, 3), straight(i64, 3)), op.BagMean),
		"gather":  check(op.Gather, these(straight(f32, 2, 7)), these(straight(f32, 3, 4), straight(i64, 2, 7)), 1),
		"scatter": check(op.Scatter, these(straight(boo, 3, 4)), these(straight(boo, 2, 7), straight(i64, 2, 7)), 1),
	} {
		require.NoError(t, err, name)
	}
}

func TestCheck_RefusesNormalisationsWithTheValuesThatExplainIt(t *testing.T) {
	a, rows, c := straight(f32, 4, 6, 5), straight(f32, 8), straight(f32, 6)
	gap, gapC := straight(f32, 4, 6, 5), straight(f32, 6)
	gap.Strides[2], gapC.Strides[0] = 2, 2
	for name, k := range map[string]struct {
		err  error
		want string
	}{
		"missing output": {check(op.RowNorm, these(a, rows), these(a), 2), "2 outputs and 1 inputs"},
		"missing input":  {check(op.ChannelNorm, these(a), these(a, c, c), 0, op.NormWeight), "1 outputs and 3 inputs do not fit"},
		"type":           {check(op.ChannelStats, these(c, c), these(straight(i64, 4, 6, 5))), "not defined for int64"},
		"dimensions":     {check(op.ChannelStats, these(c, c), these(straight(f32, 4, 6))), "want three dimensions"},
		"groups":         {check(op.RowNorm, these(a, rows, rows), these(a), 4), "6 channels are not 4 equal groups"},
		"no groups":      {check(op.RowNorm, these(a, rows, rows), these(a), 0), "not 0 equal groups"},
		"shapes":         {check(op.RowNorm, these(straight(f32, 4, 6, 4), rows, rows), these(a), 2), "[4 6 4]"},
		"strides":        {check(op.ChannelNorm, these(a), these(gap, c, c)), "want contiguous"},
		"vector":         {check(op.ChannelNorm, these(a), these(a, c, rows)), "want 6 contiguous"},
		"vector strides": {check(op.ChannelNorm, these(a), these(a, c, gapC)), "want 6 contiguous"},
		"vector type":    {check(op.ChannelNorm, these(a), these(a, c, straight(f64, 6))), "float64 beside float32"},
		"weight type":    {check(op.RowNorm, these(a, rows, rows), these(a, straight(f16, 6)), 2, op.NormWeight), "float16"},
		"bag mode":       {check(op.EmbeddingBag, these(straight(f32, 3, 4)), these(straight(f32, 9, 4), straight(i64, 7), straight(i64, 3)), 3), "mode 3"},
		"bag mean":       {check(op.EmbeddingBag, these(straight(f32, 3, 4)), these(straight(f32, 9, 4), straight(i64, 7), straight(i64, 3)), op.BagMean), "want 2 and 3"},
		"bag counts": {check(op.EmbeddingBag, these(straight(f32, 3, 4), straight(i64, 3)), these(straight(f32, 9, 4), straight(i64, 7), straight(i64, 3)), op.BagMax),
			"3 counts or places, want 12"},
		"bag offsets":   {check(op.EmbeddingBag, these(straight(f32, 3, 4)), these(straight(f32, 9, 4), straight(i64, 7), straight(i64, 2))), "2 offsets"},
		"bag indices":   {check(op.EmbeddingBag, these(straight(f32, 3, 4)), these(straight(f32, 9, 4), straight(f32, 7), straight(i64, 3))), "want int64"},
		"gather":        {check(op.Gather, these(straight(f32, 2, 7)), these(straight(f32, 3, 4), straight(i64, 2, 6)), 1), "does not index"},
		"gather wide":   {check(op.Gather, these(straight(f32, 4, 7)), these(straight(f32, 3, 4), straight(i64, 4, 7)), 1), "larger"},
		"scatter":       {check(op.ScatterAdd, these(gapC), these(c, straight(i64, 6)), 0), "not contiguous"},
		"scatter types": {check(op.ScatterAdd, these(straight(i64, 6)), these(straight(i64, 6), straight(i64, 6)), 0), "not defined"},
	} {
		require.ErrorIs(t, k.err, op.ErrCall, name)
		require.ErrorContains(t, k.err, k.want, name)
	}
}

func TestStatType_IsFloat32ForHalfPrecision(t *testing.T) {
	require.Equal(t, f32, op.ComputeType(f16))
	require.Equal(t, f32, op.ComputeType(dtype.BFloat16))
	require.Equal(t, f32, op.ComputeType(f32))
	require.Equal(t, f64, op.ComputeType(f64))
}
