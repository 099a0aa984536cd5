package tensor_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// The normalisations and the operations with an index for each element, for the tests that walk all operations.

func init() {
	maps.Copy(operations, normOperations)
	samples = append(samples, normSamples...)
	refusals = append(refusals, normRefusals...)
}

// optional is input i, nil if there are not as many.
func optional(in tensors, i int) *tensor.Tensor {
	if i < len(in) {
		return in[i]
	}
	return nil
}

// only is the first result of a normalisation, without its moments.
func only(out *tensor.Tensor, m tensor.Moments, err error) (*tensor.Tensor, error) {
	m.Release()
	return out, err
}

// stacked puts two results of one shape together.
func stacked(a, b *tensor.Tensor, err error) (*tensor.Tensor, error) {
	if err != nil {
		return nil, err
	}
	defer a.Release()
	defer b.Release()
	return tensor.Stack(tensors{a, b}, 0)
}

// withMoments runs f on the moments that a forward function gave.
func withMoments(out *tensor.Tensor, m tensor.Moments, err error, f func(m tensor.Moments) (*tensor.Tensor, error)) (*tensor.Tensor, error) {
	if err != nil {
		return nil, err
	}
	defer m.Release()
	out.Release()
	return f(m)
}

var normOperations = map[string]operation{
	"LayerNorm": func(in tensors, a args) (*tensor.Tensor, error) {
		return only(tensor.LayerNorm(in[0], a.ints(1), optional(in, 1), optional(in, 2), a.float(0)))
	},
	"RMSNorm": func(in tensors, a args) (*tensor.Tensor, error) {
		return only(tensor.RMSNorm(in[0], a.ints(1), optional(in, 1), a.float(0)))
	},
	"GroupNorm": func(in tensors, a args) (*tensor.Tensor, error) {
		return only(tensor.GroupNorm(in[0], a.int(1), optional(in, 1), optional(in, 2), a.float(0)))
	},
	"LayerNormGrad": func(in tensors, a args) (*tensor.Tensor, error) {
		out, m, err := tensor.LayerNorm(in[1], a.ints(1), nil, nil, a.float(0))
		return withMoments(out, m, err, func(m tensor.Moments) (*tensor.Tensor, error) {
			return gradients.LayerNorm(in[0], in[1], a.ints(1), m, optional(in, 2))
		})
	},
	"LayerNormSums": func(in tensors, a args) (*tensor.Tensor, error) {
		out, m, err := tensor.RMSNorm(in[1], a.ints(1), nil, a.float(0))
		return withMoments(out, m, err, func(m tensor.Moments) (*tensor.Tensor, error) {
			return stacked(gradients.LayerNormSums(in[0], in[1], a.ints(1), m))
		})
	},
	"GroupNormGrad": func(in tensors, a args) (*tensor.Tensor, error) {
		out, m, err := tensor.GroupNorm(in[1], a.int(1), nil, nil, a.float(0))
		return withMoments(out, m, err, func(m tensor.Moments) (*tensor.Tensor, error) {
			return gradients.GroupNorm(in[0], in[1], a.int(1), m, optional(in, 2))
		})
	},
	"GroupNormSums": func(in tensors, a args) (*tensor.Tensor, error) {
		out, m, err := tensor.GroupNorm(in[1], a.int(1), nil, nil, a.float(0))
		return withMoments(out, m, err, func(m tensor.Moments) (*tensor.Tensor, error) {
			return stacked(gradients.GroupNormSums(in[0], in[1], a.int(1), m))
		})
	},
	"BatchMoments": func(in tensors, a args) (*tensor.Tensor, error) {
		m, err := tensor.BatchMoments(in[0], nil, nil, 0, a.float(0))
		return stacked(m.Mean, m.Rstd, err)
	},
	"BatchMoments running": func(in tensors, a args) (*tensor.Tensor, error) { return runningMoments(in, a.float(0), a.float(1)) },
	"BatchNorm":            func(in tensors, a args) (*tensor.Tensor, error) { return batchNorm(in, a.float(0)) },
	"BatchNorm eval": func(in tensors, a args) (*tensor.Tensor, error) {
		return tensor.BatchNorm(in[0], tensor.Moments{Mean: in[1], Var: in[2], Eps: a.float(0)}, optional(in, 3), optional(in, 4))
	},
	"BatchNormGrad": func(in tensors, a args) (*tensor.Tensor, error) { return batchNormGrad(in, a.float(0)) },
	"BatchNormGrad eval": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.BatchNorm(in[0], in[1], tensor.Moments{Mean: in[2], Var: in[2], Eps: a.float(0)}, optional(in, 3), nil, nil)
	},

	"Gather": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].Gather(a.int(0), in[1]) },
	"TakeAlongDim": func(in tensors, a args) (*tensor.Tensor, error) {
		return in[0].TakeAlongDim(in[1], a.int(0))
	},
	"Scatter": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].Scatter(a.int(0), in[1], in[2]) },
	"ScatterAdd": func(in tensors, a args) (*tensor.Tensor, error) {
		return in[0].ScatterAdd(a.int(0), in[1], in[2])
	},
	"ScatterValue": func(in tensors, a args) (*tensor.Tensor, error) {
		return in[0].ScatterValue(a.int(0), in[1], a.float(1))
	},
	"ScatterInPlace": inPlace(func(t *tensor.Tensor, in tensors, a args) error {
		return t.ScatterInPlace(a.int(0), in[1], in[2])
	}),
	"ScatterAddInPlace": inPlace(func(t *tensor.Tensor, in tensors, a args) error {
		return t.ScatterAddInPlace(a.int(0), in[1], in[2])
	}),
	"EmbeddingBag": func(in tensors, a args) (*tensor.Tensor, error) {
		out, extra, err := tensor.EmbeddingBag(in[0], in[1], in[2], tensor.BagMode(a.int(0)), a.int(1))
		extra.Release()
		return out, err
	},
	"EmbeddingBagGrad": func(in tensors, a args) (*tensor.Tensor, error) {
		out, extra, err := tensor.EmbeddingBag(in[0], in[1], in[2], tensor.BagMode(a.int(0)), a.int(1))
		if err != nil {
			return nil, err
		}
		defer out.Release()
		defer extra.Release()
		return gradients.EmbeddingBag(out, in[1], in[2], extra, in[0].Dim(0), tensor.BagMode(a.int(0)), a.int(1))
	},
	"MaskedFill": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].MaskedFill(optional(in, 1), a.float(0)) },
	"OneHot":     dim((*tensor.Tensor).OneHot),
}

// runningMoments is the running mean and variance after one batch.
func runningMoments(in tensors, eps, momentum float64) (*tensor.Tensor, error) {
	mean, err := in[1].Clone()
	if err != nil {
		return nil, err
	}
	variance, err := in[2].Clone()
	if err != nil {
		mean.Release()
		return nil, err
	}
	m, err := tensor.BatchMoments(in[0], mean, variance, momentum, eps)
	if err != nil {
		mean.Release()
		variance.Release()
		return nil, err
	}
	m.Release()
	return stacked(mean, variance, nil)
}

func batchNorm(in tensors, eps float64) (*tensor.Tensor, error) {
	m, err := tensor.BatchMoments(in[0], nil, nil, 0, eps)
	if err != nil {
		return nil, err
	}
	defer m.Release()
	return tensor.BatchNorm(in[0], m, optional(in, 1), optional(in, 2))
}

func batchNormGrad(in tensors, eps float64) (*tensor.Tensor, error) {
	m, err := tensor.BatchMoments(in[1], nil, nil, 0, eps)
	if err != nil {
		return nil, err
	}
	defer m.Release()
	product, sum, err := gradients.BatchNormSums(in[0], in[1], m)
	if err != nil {
		return nil, err
	}
	defer product.Release()
	defer sum.Release()
	return gradients.BatchNorm(in[0], in[1], m, optional(in, 2), product, sum)
}

var normSamples = []sample{
	{"LayerNorm", "float32[2 3] float32[3] float32[3]", args{1e-5, 3.0}}, {"LayerNorm", "~float16[3 2] float32[3]", args{1e-5, 3.0}},
	{"LayerNorm", "float64[2 3 4]", args{1e-5, 3.0, 4.0}}, {"RMSNorm", "bfloat16[2 3] bfloat16[3]", args{1e-5, 3.0}},
	{"GroupNorm", "float32[2 4 3] float32[4] float32[4]", args{1e-5, 2.0}}, {"GroupNorm", "~float32[4 2]", args{1e-5, 2.0}},
	{"LayerNormGrad", "float32[2 3] ~float32[3 2] float32[3]", args{1e-5, 3.0}}, {"LayerNormGrad", "float32[2 3] float32[2 3]", args{1e-5, 3.0}},
	{"LayerNormSums", "float16[2 3] float16[2 3]", args{1e-5, 3.0}}, {"LayerNormSums", "float32[0 3] float32[0 3]", args{1e-5, 3.0}},
	{"GroupNormGrad", "float32[2 4 3] float32[2 4 3] float32[4]", args{1e-5, 2.0}},
	{"GroupNormSums", "~float32[4 2] float32[2 4]", args{1e-5, 2.0}},
	{"BatchMoments", "float32[4 3]", args{1e-5}}, {"BatchMoments", "~float16[3 4]", args{1e-5}},
	{"BatchMoments running", "float32[4 3 2] float32[3] float32[3]", args{1e-5, 0.1}},
	{"BatchNorm", "float32[4 3 2] float32[3] float32[3]", args{1e-5}}, {"BatchNorm", "~bfloat16[3 4] float32[3]", args{1e-5}},
	{"BatchNorm eval", "float32[4 3 2] float32[3] float32[3] float32[3] float32[3]", args{3.0}},
	{"BatchNormGrad", "float32[4 3 2] float32[4 3 2] float32[3]", args{1e-5}},
	{"BatchNormGrad eval", "float32[4 3] ~float32[3 4] float32[3]", args{2.0}},
	{"Gather", "float32[2 3] int64[2 4]", args{1.0}}, {"Gather", "~bool[3 2] int32[1 2]", args{0.0}},
	{"TakeAlongDim", "float32[2 3] int64[1 4]", args{1.0}}, {"TakeAlongDim", "float32[1 3] int32[2 4]", args{-1.0}},
	{"Scatter", "float32[2 3] int64[2 4] float32[2 5]", args{1.0}}, {"Scatter", "~int32[3 2] int32[1 2] int32[2 2]", args{0.0}},
	{"ScatterAdd", "float32[2 3] int32[2 4] ~float32[4 2]", args{1.0}}, {"ScatterAdd", "float16[2] int64[0] float16[1]", args{0.0}},
	{"ScatterValue", "float32[2 3] int64[2 4]", args{1.0, 0.5}}, {"ScatterInPlace", "bool[2 3] int64[2 1] bool[2 3]", args{1.0}},
	{"ScatterAddInPlace", "float32[2 3] int64[2 1] float32[2 3]", args{1.0}},
	{"EmbeddingBag", "~float32[3 2] int32[4] int64[2]", args{0.0, -1.0}}, {"EmbeddingBag", "float32[2 3] int64[4] int32[2]", args{1.0, 0.0}},
	{"EmbeddingBag", "float16[2 3] int64[4] int64[2]", args{2.0, -1.0}}, {"EmbeddingBagGrad", "float32[2 3] int32[4] int64[2]", args{0.0, -1.0}},
	{"EmbeddingBagGrad", "float32[2 3] int64[4] int64[2]", args{1.0, -1.0}}, {"EmbeddingBagGrad", "float32[2 3] int64[4] int64[2]", args{2.0, -1.0}},
	{"MaskedFill", "float32[2 3] bool[3]", args{-1.0}}, {"MaskedFill", "~int32[2 3] bool[2 3 1]", args{2.0}},
	{"OneHot", "int64[2 3]", args{2.0}}, {"OneHot", "~int32[2 3]", args{4.0}},
}

var normRefusals = []struct {
	sample
	want refusal
}{
	{sample{"LayerNorm", "float32[2 3]", args{1e-5, 2.0}}, "shape"}, {sample{"LayerNorm", "float32[2 3]", args{1e-5}}, "shape"},
	{sample{"LayerNorm", "float32[3]", args{1e-5, 1.0, 3.0}}, "shape"}, {sample{"LayerNorm", "int32[2 3]", args{1e-5, 3.0}}, "dtype"},
	{sample{"LayerNorm", "float32[2 3] float32[2]", args{1e-5, 3.0}}, "shape"},
	{sample{"LayerNorm", "float32[2 3] float16[3]", args{1e-5, 3.0}}, "dtype"},
	{sample{"LayerNorm", "float16[2 3] float16[3] float32[3]", args{1e-5, 3.0}}, "dtype"},
	{sample{"RMSNorm", "float32[2 3] float64[3]", args{1e-5, 3.0}}, "dtype"},
	{sample{"GroupNorm", "float32[3]", args{1e-5, 1.0}}, "shape"}, {sample{"GroupNorm", "float32[2 3]", args{1e-5, 2.0}}, "shape"},
	{sample{"GroupNorm", "float32[2 4]", args{1e-5, 0.0}}, "shape"}, {sample{"GroupNorm", "float32[2 4] float32[2]", args{1e-5, 2.0}}, "shape"},
	{sample{"BatchMoments", "float32[1 3]", args{1e-5}}, "shape"}, {sample{"BatchMoments", "float32[3]", args{1e-5}}, "shape"},

	{sample{"Gather", "float32[2 3] float32[2 3]", args{1.0}}, "dtype"}, {sample{"Gather", "float32[2 3] int64[3]", args{1.0}}, "shape"},
	{sample{"Gather", "float32[2 3] int64[3 3]", args{1.0}}, "shape"}, {sample{"Gather", "float32[2 3] int64[2 3]", args{2.0}}, "shape"},
	{sample{"Gather", "float32[2 0] int64[2 3]", args{1.0}}, "shape"}, {sample{"TakeAlongDim", "float32[2 3] int64[3 3]", args{1.0}}, "shape"},
	{sample{"TakeAlongDim", "float32[2 3] int64[3]", args{1.0}}, "shape"}, {sample{"Scatter", "float32[2 3] int64[2 4] float32[2 3]", args{1.0}}, "shape"},
	{sample{"Scatter", "float32[2 3] int64[2 4] float64[2 4]", args{1.0}}, "dtype"},
	{sample{"Scatter", "float32[2 3] int64[2 4] float32[8]", args{1.0}}, "shape"},
	{sample{"ScatterAdd", "int64[2 3] int64[2 3] int64[2 3]", args{1.0}}, "dtype"},
	{sample{"ScatterAdd", "float32[0 3] int64[2 3] float32[2 3]", args{0.0}}, "shape"},
	{sample{"ScatterValue", "float32[2 3] int64[3 4]", args{1.0, 1.0}}, "shape"},
	{sample{"EmbeddingBag", "int32[2 3] int64[4] int64[2]", args{0.0, -1.0}}, "dtype"},
	{sample{"EmbeddingBag", "float32[2 3] float32[4] int64[2]", args{0.0, -1.0}}, "dtype"},
	{sample{"EmbeddingBag", "float32[6] int64[4] int64[2]", args{0.0, -1.0}}, "shape"},
	{sample{"EmbeddingBag", "float32[2 3] int64[2 2] int64[2]", args{0.0, -1.0}}, "shape"},
	{sample{"EmbeddingBag", "float32[2 3] int64[4] int64[2]", args{3.0, -1.0}}, "value"},
	{sample{"EmbeddingBag", "float32[2 3] int64[4] int64[2]", args{0.0, 2.0}}, "value"},
	{sample{"MaskedFill", "float32[2 3] int32[2 3]", args{1.0}}, "dtype"}, {sample{"MaskedFill", "float32[2 3] bool[2]", args{1.0}}, "shape"},
	{sample{"OneHot", "float32[2 3]", args{1.0}}, "dtype"}, {sample{"OneHot", "int64[2 3]", args{-2.0}}, "value"},
	{sample{"OneHot", "int64[2 3]", args{0.0}}, "value"}, {sample{"OneHot", "int64[0]", args{-1.0}}, "shape"},
}

func TestNormPrograms_GiveWhatPyTorchGives(t *testing.T) { checkProgramFile(t, onHost(t), "norm.json") }

func TestNorms_RefuseAReleasedSecondOperand(t *testing.T) {
	b := onHost(t)
	gone := iota(t, b.Exec, 2, 2)
	gone.Release()
	for _, s := range normSamples {
		in := s.inputs(t, b.Exec)
		if len(in) < 2 || s.op == "BatchMoments running" { // which clones it
			continue
		}
		before := b.allocated()
		in[1] = gone
		_, err := s.run(in)
		require.ErrorIs(t, err, tensor.ErrReleased, "%v", s)
		require.Equal(t, before, b.allocated(), "%v kept memory", s)
	}
}

func TestScatterInPlace_OfItsOwnElementsReadsThemFirst(t *testing.T) {
	b := onHost(t)
	x := must(t)(tensor.FromSlice(b.Exec, []float32{1, 2, 3, 4}, 4))
	to := must(t)(tensor.FromSlice(b.Exec, []int64{1, 2, 3, 0}, 4))
	require.NoError(t, x.ScatterInPlace(0, to, x))
	require.Equal(t, []float64{4, 1, 2, 3}, values(t, x), "a rotation, not a smear")
	require.NoError(t, to.ScatterInPlace(0, to, to))
	require.Equal(t, []float64{0, 1, 2, 3}, values(t, to), "indices and source are the destination")
}

func TestScatterInPlace_ChangesAViewAndNothingElse(t *testing.T) {
	b := onHost(t)
	x := must(t)(tensor.Zeros(b.Exec, tensor.Float32, 3, 2))
	column := must(t)(must(t)(x.Transpose(0, 1)).Narrow(0, 1, 1))
	at := must(t)(tensor.FromSlice(b.Exec, []int64{2, 0, 2}, 1, 3))
	before := x.Version()
	require.NoError(t, column.ScatterAddInPlace(1, at, must(t)(tensor.Ones(b.Exec, tensor.Float32, 1, 3))))
	require.Equal(t, []float64{0, 1, 0, 0, 0, 2}, values(t, x))
	require.NotEqual(t, before, x.Version())
	wide := must(t)(must(t)(tensor.Zeros(b.Exec, tensor.Float32, 1)).Expand(3))
	require.ErrorContains(t, wide.ScatterInPlace(0, at, x), "dimensions")
	require.ErrorContains(t, wide.ScatterInPlace(0, must(t)(at.Select(0, 0)), must(t)(x.Select(1, 0))), "share an address")
}

func TestBatchMoments_TakesBothRunningStatisticsOrNeither_AndContiguous(t *testing.T) {
	b := onHost(t)
	x, r := iota(t, b.Exec, 4, 3), iota(t, b.Exec, 3)
	column := must(t)(iota(t, b.Exec, 3, 2).Select(1, 0))
	before := b.allocated()
	for want, running := range map[refusal][2]*tensor.Tensor{"value": {r, nil}, "shape": {r, column}} {
		for _, pair := range [][2]*tensor.Tensor{running, {running[1], running[0]}} {
			_, err := tensor.BatchMoments(x, pair[0], pair[1], 0.1, 1e-5)
			require.Equal(t, want, kindOf(err))
			typed(t, "BatchMoments", err)
			require.Equal(t, before, b.allocated())
			require.Zero(t, r.Version(), "nothing was written")
		}
	}
}
