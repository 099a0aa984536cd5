package op_test

import (
	"errors"
	"testing"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/stretchr/testify/require"
)

const (
	f32 = dtype.Float32
	f64 = dtype.Float64
	i64 = dtype.Int64
	boo = dtype.Bool
)

// straight is a contiguous view somewhere.
func straight(d dtype.DType, shape ...int) op.View {
	w := op.View{Ptr: 4096, DType: d, NDim: len(shape)}
	step := 1
	for i := len(shape) - 1; i >= 0; i-- {
		w.Shape[i], w.Strides[i] = shape[i], step
		step *= shape[i]
	}
	return w
}

func these(w ...op.View) []op.View { return w }

// anyStream stands for a stream: Check only asks whether there is one.
type anyStream struct{ device.Stream }

func check(id op.ID, out, in []op.View, scalars ...int64) error {
	c := op.Call{Op: id, Stream: anyStream{}, Out: out, In: in}
	copy(c.I[:], scalars)
	return op.Check(&c)
}

func TestCheck_AcceptsWhatTheSpecificationAllows(t *testing.T) {
	broadcast := straight(f32, 3, 4)
	broadcast.Strides[0] = 0
	for name, err := range map[string]error{
		"add":             check(op.Add, these(straight(f32, 3, 4)), these(straight(f32, 3, 4), broadcast)),
		"add of nothing":  check(op.Add, these(op.View{DType: f32, NDim: 1}), these(op.View{DType: f32, NDim: 1}, op.View{DType: f32, NDim: 1})),
		"compare":         check(op.Lt, these(straight(boo, 3)), these(straight(i64, 3), straight(i64, 3))),
		"cast":            check(op.Cast, these(straight(boo, 3)), these(straight(f64, 3))),
		"where":           check(op.Where, these(straight(boo, 3)), these(straight(boo, 3), straight(boo, 3), straight(boo, 3))),
		"sum of integers": check(op.Sum, these(straight(i64, 1, 4)), these(straight(dtype.Uint8, 3, 4))),
		"argmax":          check(op.ArgMax, these(straight(i64, 3, 1)), these(straight(f32, 3, 4)), 1),
		"matmul":          check(op.MatMul, these(straight(f32, 5, 2, 4)), these(straight(f32, 5, 2, 3), straight(f32, 5, 3, 4))),
		"softmax":         check(op.Softmax, these(straight(f32, 4)), these(straight(f32, 4))),
		"nll":             check(op.NLL, these(straight(f32, 4)), these(straight(f32, 4, 10), straight(i64, 4))),
		"nll gradient":    check(op.NLLGrad, these(straight(f32, 4, 10)), these(straight(f32, 4), straight(i64, 4))),
		"index select":    check(op.IndexSelect, these(straight(f32, 2, 7)), these(straight(f32, 2, 3), straight(i64, 7)), 1),
		"index add":       check(op.IndexAdd, these(straight(f32, 2, 3)), these(straight(f32, 2, 7), straight(i64, 7)), 1),
		"sort":            check(op.Sort, these(straight(f32, 2, 3), straight(i64, 2, 3)), these(straight(f32, 2, 3))),
		"topk":            check(op.TopK, these(straight(f32, 2, 1), straight(i64, 2, 1)), these(straight(f32, 2, 3))),
		"gather":          check(op.Gather, these(straight(f32, 2, 7)), these(straight(f32, 3, 4), straight(i64, 2, 7)), 1),
		"scatter":         check(op.Scatter, these(straight(f32, 3, 4)), these(straight(f32, 2, 7), straight(i64, 2, 7)), 1),
		"tril":            check(op.Tril, these(straight(f32, 5, 2, 3)), these(straight(f32, 5, 2, 3)), -1),
		"cumsum":          check(op.CumSum, these(straight(i64, 3)), these(straight(boo, 3))),
		"sgd":             check(op.SGDStep, these(straight(f32, 2), straight(f32, 3)), these(straight(f32, 2), straight(f32, 3)), 2),
		"sgd of nothing":  check(op.SGDStep, nil, nil),
		"adam":            check(op.AdamStep, these(straight(f32, 2), straight(f32, 2), straight(f32, 2)), these(straight(f32, 2)), 1),
		"arange":          check(op.Arange, these(straight(i64, 2)), nil),
		"convolution": check(op.Conv2D, these(straight(f32, 2, 6, 5, 5)), these(straight(f32, 2, 4, 5, 5), straight(f32, 6, 2, 3, 3)),
			1, 1, 1, 1, 1, 1, 2),
		"convolution with a bias": check(op.Conv2D, these(straight(f32, 2, 6, 5, 5)),
			these(straight(f32, 2, 4, 5, 5), straight(f32, 6, 2, 3, 3), straight(f32, 6)), 1, 1, 1, 1, 1, 1, 2),
		"gradient of kernels": check(op.Conv2DGradWeight, these(straight(f32, 6, 4, 3, 3)),
			these(straight(f32, 2, 6, 5, 5), straight(f32, 2, 4, 5, 5)), 1, 1, 1, 1, 1, 1, 1),
		"max pool": check(op.MaxPool2D, these(straight(f32, 2, 3, 2, 2), straight(dtype.Uint8, 2, 3, 2, 2)), these(straight(f32, 2, 3, 4, 4)),
			2, 2, 2, 2, 0, 0, 1, 1),
		"adaptive pool":          check(op.AvgPool2D, these(straight(f32, 2, 3, 2, 2)), these(straight(f32, 2, 3, 4, 4))),
		"gradient of resampling": check(op.UpsampleNearest2DGrad, these(straight(f32, 2, 3, 2, 2)), these(straight(f32, 2, 3, 4, 4))),
		"uniform":                check(op.Uniform, these(straight(f32, 2, 2)), nil),
	} {
		require.NoError(t, err, name)
	}
}

func TestCheck_RefusesWithTheValuesThatExplainIt(t *testing.T) {
	shared, gap := straight(f32, 3), straight(f32, 3)
	shared.Strides[0], gap.Strides[0] = 0, 2
	nowhere := straight(f32, 3)
	nowhere.Ptr = 0
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"unknown operation":     {check(op.ID(999), nil, nil), "no such operation"},
		"arity":                 {check(op.Add, these(straight(f32, 3)), these(straight(f32, 3))), "1 outputs and 1 inputs, want 1 and 2"},
		"output type":           {check(op.Lt, these(straight(f32, 3)), these(straight(f32, 3), straight(f32, 3))), "output is float32, want bool"},
		"input type":            {check(op.Add, these(straight(f32, 3)), these(straight(f32, 3), straight(f64, 3))), "input 1 is float64, want float32"},
		"undefined type":        {check(op.Exp, these(straight(i64, 3)), these(straight(i64, 3))), "not defined for int64"},
		"invalid type":          {check(op.Exp, these(op.View{}), these(straight(f32))), "has type invalid"},
		"shapes":                {check(op.Add, these(straight(f32, 3)), these(straight(f32, 3), straight(f32, 4))), "input 1 has shape [4], the output [3]"},
		"negative shape":        {check(op.Exp, these(straight(f32, -1)), these(straight(f32, 3))), "[-1]"},
		"shared output":         {check(op.Exp, these(shared), these(straight(f32, 3))), "stride 0"},
		"no memory":             {check(op.Exp, these(straight(f32, 3)), these(nowhere)), "no memory"},
		"sum type":              {check(op.Sum, these(straight(dtype.Int32, 1)), these(straight(dtype.Int32, 3))), "want int64"},
		"sum shape":             {check(op.Sum, these(straight(f32, 2, 2)), these(straight(f32, 3, 2))), "[3 2]"},
		"argmax dimension":      {check(op.ArgMax, these(straight(i64, 3, 4)), these(straight(f32, 3, 4)), 1), "dimension 1 is not"},
		"argmax two dimensions": {check(op.ArgMax, these(straight(i64, 1, 1)), these(straight(f32, 3, 4)), 1), "[3 4]"},
		"matmul":                {check(op.MatMul, these(straight(f32, 2, 4)), these(straight(f32, 2, 3), straight(f32, 4, 4))), "[2 3] and [4 4] do not give [2 4]"},
		"softmax of a scalar":   {check(op.Softmax, these(straight(f32)), these(straight(f32))), "no last dimension"},
		"nll":                   {check(op.NLL, these(straight(f32, 4)), these(straight(f32, 5, 10), straight(i64, 4))), "[5 10]"},
		"classes":               {check(op.NLL, these(straight(f32, 4)), these(straight(f32, 4, 10), straight(f32, 4))), "want int64"},
		"index":                 {check(op.IndexSelect, these(straight(f32, 2, 6)), these(straight(f32, 2, 3), straight(i64, 7)), 1), "[7]"},
		"index dimension":       {check(op.IndexSelect, these(straight(f32, 2, 7)), these(straight(f32, 2, 3), straight(i64, 7)), 2), "dimension 2"},
		"index other":           {check(op.IndexAdd, these(straight(f32, 2, 3)), these(straight(f32, 9, 7), straight(i64, 7)), 1), "differ outside"},
		"sorted lengths":        {check(op.Sort, these(straight(f32, 2), straight(i64, 2)), these(straight(f32, 3))), "[3], the outputs [2] and [2]"},
		"topk lengths":          {check(op.TopK, these(straight(f32, 4), straight(i64, 4)), these(straight(f32, 3))), "[4]"},
		"sorted outputs":        {check(op.Sort, these(straight(f32, 3), straight(i64, 2)), these(straight(f32, 3))), "[3] and [2]"},
		"sorted scalar":         {check(op.Sort, these(straight(f32), straight(i64)), these(straight(f32))), "no last dimension"},
		"gather indices":        {check(op.Gather, these(straight(f32, 2, 7)), these(straight(f32, 3, 4), straight(i64, 2, 6)), 1), "[2 6]"},
		"gather outside":        {check(op.Gather, these(straight(f32, 4, 7)), these(straight(f32, 3, 4), straight(i64, 4, 7)), 1), "is larger than"},
		"scatter dimension":     {check(op.Scatter, these(straight(f32, 3)), these(straight(f32, 2), straight(i64, 2)), 1), "dimension 1"},
		"triangle":              {check(op.Triu, these(straight(f32, 3)), these(straight(f32, 3))), "two dimensions"},
		"groups":                {check(op.AdamStep, these(straight(f32, 2)), these(straight(f32, 2)), 1), "want 3 and 1"},
		"group types":           {check(op.SGDStep, these(straight(f32, 2)), these(straight(f64, 2)), 1), "float64"},
		"group sizes":           {check(op.SGDStep, these(straight(f32, 2)), these(straight(f32, 3)), 1), "one size"},
		"group strides":         {check(op.SGDStep, these(gap), these(straight(f32, 3)), 1), "contiguous"},
		"convolution of matrices": {check(op.Conv2D, these(straight(f32, 6, 5)), these(straight(f32, 4, 5), straight(f32, 6, 4)), 1, 1, 1, 1, 1, 1, 1),
			"[6 5], want four dimensions"},
		"stride": {check(op.Conv2D, these(straight(f32, 2, 6, 5, 5)), these(straight(f32, 2, 4, 5, 5), straight(f32, 6, 4, 3, 3)), 0, 1, 1, 1, 1, 1, 1),
			"[0 1 1 1 1 1 1]"},
		"channels": {check(op.Conv2D, these(straight(f32, 2, 6, 5, 5)), these(straight(f32, 2, 4, 5, 5), straight(f32, 6, 4, 3, 3)), 1, 1, 1, 1, 1, 1, 2),
			"of 2 groups"},
		"images": {check(op.Conv2DGradInput, these(straight(f32, 3, 4, 5, 5)), these(straight(f32, 2, 6, 5, 5), straight(f32, 6, 4, 3, 3)), 1, 1, 1, 1, 1, 1, 1),
			"[3 4 5 5]"},
		"bias": {check(op.Conv2D, these(straight(f32, 2, 6, 5, 5)),
			these(straight(f32, 2, 4, 5, 5), straight(f32, 6, 4, 3, 3), straight(f32, 5)), 1, 1, 1, 1, 1, 1, 1), "[5]"},
		"planes":      {check(op.AvgPool2D, these(straight(f32, 2, 3, 2, 2)), these(straight(f32, 2, 4, 4, 4))), "[2 4 4 4]"},
		"empty image": {check(op.UpsampleNearest2D, these(straight(f32, 2, 3, 2, 2)), these(straight(f32, 2, 3, 0, 4))), "is empty"},
		"numbers": {check(op.MaxPool2D, these(straight(f32, 2, 3, 2, 2), straight(i64, 2, 3, 2, 2)), these(straight(f32, 2, 3, 4, 4)),
			2, 2, 2, 2, 0, 0, 1, 1), "int64"},
		"window": {check(op.AvgPool2D, these(straight(f32, 2, 3, 2, 2)), these(straight(f32, 2, 3, 4, 4)), 2, 0, 2, 2), "[2 0 2 2]"},
		"arange": {check(op.Arange, these(straight(f32, 2, 2)), nil), "one dimension"},
		"random": {check(op.Normal, these(gap), nil), "not contiguous"},
	} {
		require.ErrorIs(t, c.err, op.ErrCall, name)
		require.ErrorContains(t, c.err, c.want, name)
		var e *op.Error
		require.True(t, errors.As(c.err, &e), name)
	}
	require.ErrorIs(t, op.Check(&op.Call{Op: op.Fill}), op.ErrCall, "a call without a stream")
}

func TestClone_SharesNothingWithTheOriginal(t *testing.T) {
	c := op.Call{Op: op.Add, Out: these(straight(f32, 3)), In: these(straight(f32, 3), straight(f32, 3))}
	d := c.Clone()
	c.Out[0].Ptr, c.In[1].Ptr = 0, 0
	require.Equal(t, device.Ptr(4096), d.Out[0].Ptr)
	require.Equal(t, device.Ptr(4096), d.In[1].Ptr)
}

func TestView_Contiguous(t *testing.T) {
	w := straight(f32, 2, 3, 4)
	require.True(t, w.Contiguous())
	require.Equal(t, 24, w.Len())
	w.Strides[1] = 5
	require.False(t, w.Contiguous())
	w.Shape[0], w.Shape[1] = 1, 1
	require.True(t, w.Contiguous(), "strides of dimensions of one element do not count")
	w.Shape[2] = 0
	w.Strides[2] = 7
	require.True(t, w.Contiguous())
	scalar := straight(f32)
	require.True(t, scalar.Contiguous())
	require.Equal(t, 1, scalar.Len())
}
