package tensor_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// Normalisations.

func init() { register(normOperations, normSamples, normRefusals) }

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
	"LayerNormGrad given": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.LayerNorm(in[0], in[1], a.ints(0), given(in), optional(in, 4))
	},
	"LayerNormForward": func(in tensors, a args) (*tensor.Tensor, error) {
		return only(gradients.LayerNormForward(tensor.BFloat16, in[0], a.ints(1), optional(in, 1), optional(in, 2), a.float(0), false))
	},
	"LayerNormGradAdd": inPlace(func(t *tensor.Tensor, in tensors, a args) error {
		out, m, err := tensor.LayerNorm(in[2], a.ints(1), nil, nil, a.float(0))
		if err != nil {
			return err
		}
		defer out.Release()
		defer m.Release()
		return gradients.LayerNormAdd(t, in[1], in[2], a.ints(1), m, optional(in, 3))
	}),
	"LayerNormGradAdd given": inPlace(func(t *tensor.Tensor, in tensors, a args) error {
		return gradients.LayerNormAdd(t, in[1], in[2], a.ints(0), given(in[1:]), optional(in, 5))
	}),
	"LayerNormSums": func(in tensors, a args) (*tensor.Tensor, error) {
		out, m, err := tensor.RMSNorm(in[1], a.ints(1), nil, a.float(0))
		return withMoments(out, m, err, func(m tensor.Moments) (*tensor.Tensor, error) {
			return stacked(gradients.LayerNormSums(in[0], in[1], a.ints(1), m))
		})
	},
	"LayerNormSums given": func(in tensors, a args) (*tensor.Tensor, error) {
		return stacked(gradients.LayerNormSums(in[0], in[1], a.ints(0), given(in)))
	},
	"GroupNormGrad": func(in tensors, a args) (*tensor.Tensor, error) {
		out, m, err := tensor.GroupNorm(in[1], a.int(1), nil, nil, a.float(0))
		return withMoments(out, m, err, func(m tensor.Moments) (*tensor.Tensor, error) {
			return gradients.GroupNorm(in[0], in[1], a.int(1), m, optional(in, 2))
		})
	},
	"GroupNormGrad given": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.GroupNorm(in[0], in[1], a.int(0), given(in), optional(in, 4))
	},
	"GroupNormSums": func(in tensors, a args) (*tensor.Tensor, error) {
		out, m, err := tensor.GroupNorm(in[1], a.int(1), nil, nil, a.float(0))
		return withMoments(out, m, err, func(m tensor.Moments) (*tensor.Tensor, error) {
			return stacked(gradients.GroupNormSums(in[0], in[1], a.int(1), m))
		})
	},
	"GroupNormSums given": func(in tensors, a args) (*tensor.Tensor, error) {
		return stacked(gradients.GroupNormSums(in[0], in[1], a.int(0), given(in)))
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
	"BatchNorm given": func(in tensors, a args) (*tensor.Tensor, error) {
		return tensor.BatchNorm(in[0], tensor.Moments{Rstd: in[1], Mean: in[2]}, optional(in, 3), optional(in, 4))
	},
	"BatchNormGrad": func(in tensors, a args) (*tensor.Tensor, error) { return batchNormGrad(in, a.float(0)) },
	"BatchNormGrad eval": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.BatchNorm(in[0], in[1], tensor.Moments{Mean: in[2], Var: in[2], Eps: a.float(0)}, optional(in, 3), nil, nil)
	},
	"BatchNormGrad given": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.BatchNorm(in[0], in[1], given(in), optional(in, 4), optional(in, 5), optional(in, 6))
	},
	"BatchNormSums given": func(in tensors, a args) (*tensor.Tensor, error) {
		return stacked(gradients.BatchNormSums(in[0], in[1], given(in)))
	},
}

var normSamples = []sample{
	{"LayerNorm", "float32[2 3] float32[3] float32[3]", args{1e-5, 3.0}}, {"LayerNorm", "~float16[3 2] float32[3]", args{1e-5, 3.0}},
	{"LayerNorm", "float64[2 3 4]", args{1e-5, 3.0, 4.0}}, {"RMSNorm", "bfloat16[2 3] bfloat16[3]", args{1e-5, 3.0}},
	{"GroupNorm", "float32[2 4 3] float32[4] float32[4]", args{1e-5, 2.0}}, {"GroupNorm", "~float32[4 2]", args{1e-5, 2.0}},
	{"LayerNormGrad", "float32[2 3] ~float32[3 2] float32[3]", args{1e-5, 3.0}},
	{"LayerNormGrad", "float32[2 3] float32[2 3]", args{1e-5, 3.0}},
	{"LayerNormGrad given", "float32[2 3] ~float32[3 2] float32[2] float32[2] float32[3]", args{3.0}},
	{"LayerNormGrad given", "bfloat16[2 3] float32[2 3] float32[2] float32[2] float32[3]", args{3.0}},
	{"LayerNormSums given", "float16[2 3] ~float32[3 2] float32[2] float32[2]", args{3.0}},
	{"LayerNormForward", "float32[2 3] float32[3] float32[3]", args{1e-5, 3.0}}, {"LayerNormForward", "~float32[3 2]", args{1e-5, 3.0}},
	{"LayerNormGradAdd", "float32[2 3] float32[2 3] ~float32[3 2] float32[3]", args{1e-5, 3.0}},
	{"LayerNormGradAdd given", "float32[2 3] bfloat16[2 3] float32[2 3] float32[2] float32[2] float32[3]", args{3.0}},
	{"LayerNormGrad given", "float16[2 3] float16[2 3] float32[2]", args{3.0}}, {"LayerNormSums", "float16[2 3] float16[2 3]", args{1e-5, 3.0}},
	{"LayerNormSums", "float32[0 3] float32[0 3]", args{1e-5, 3.0}},
	{"LayerNormSums given", "float32[2 3] float32[2 3] float32[2] float32[2]", args{3.0}},
	{"GroupNormGrad", "float32[2 4 3] float32[2 4 3] float32[4]", args{1e-5, 2.0}},
	{"GroupNormGrad given", "float32[2 4 3] float32[2 4 3] float32[4] float32[4] float32[4]", args{2.0}},
	{"GroupNormSums", "~float32[4 2] float32[2 4]", args{1e-5, 2.0}},
	{"GroupNormSums given", "float32[2 4 3] float32[2 4 3] float32[4] float32[4]", args{2.0}}, {"BatchMoments", "float32[4 3]", args{1e-5}},
	{"BatchMoments", "~float16[3 4]", args{1e-5}}, {"BatchMoments running", "float32[4 3 2] float32[3] float32[3]", args{1e-5, 0.1}},
	{"BatchNorm", "float32[4 3 2] float32[3] float32[3]", args{1e-5}}, {"BatchNorm", "~bfloat16[3 4] float32[3]", args{1e-5}},
	{"BatchNorm eval", "float32[4 3 2] float32[3] float32[3] float32[3] float32[3]", args{3.0}},
	{"BatchNorm given", "float32[4 3 2] float32[3] float32[3] float32[3] float32[3]", nil},
	{"BatchNormGrad", "float32[4 3 2] float32[4 3 2] float32[3]", args{1e-5}},
	{"BatchNormGrad eval", "float32[4 3] ~float32[3 4] float32[3]", args{2.0}},
	{"BatchNormGrad given", "float32[4 3 2] float32[4 3 2] float32[3] float32[3] float32[3] float32[3] float32[3]", nil},
	{"BatchNormGrad given", "float32[4 3 2] float32[4 3 2] float32[3] float32[3] float32[3]", nil},
	{"BatchNormSums given", "float32[4 3 2] float32[4 3 2] float32[3] float32[3]", nil},
	{"BatchNormSums given", "~bfloat16[3 4] bfloat16[4 3] float32[3] float32[3]", nil},
}

var normRefusals = []refused{
	{sample{"LayerNormForward", "float64[2 3]", args{1e-5, 3.0}}, "dtype"}, {sample{"LayerNormForward", "float32[2 3]", args{1e-5, 2.0}}, "shape"},
	{sample{"LayerNormGradAdd given", "float32[3 2] float32[2 3] float32[2 3] float32[2] float32[2]", args{3.0}}, "shape"},
	{sample{"LayerNormGradAdd given", "float64[2 3] float64[2 3] float64[2 3] float64[2] float64[2]", args{3.0}}, "dtype"},
	{sample{"LayerNormGradAdd given", "float32[2 3] float64[2 3] float32[2 3] float32[2] float32[2]", args{3.0}}, "dtype"},
	{sample{"LayerNorm", "float32[2 3]", args{1e-5, 2.0}}, "shape"}, {sample{"LayerNorm", "float32[2 3]", args{1e-5}}, "shape"},
	{sample{"LayerNorm", "float32[3]", args{1e-5, 1.0, 3.0}}, "shape"}, {sample{"LayerNorm", "int32[2 3]", args{1e-5, 3.0}}, "dtype"},
	{sample{"LayerNorm", "float32[2 3] float32[2]", args{1e-5, 3.0}}, "shape"},
	{sample{"LayerNorm", "float32[2 3] float16[3]", args{1e-5, 3.0}}, "dtype"},
	{sample{"LayerNorm", "float16[2 3] float16[3] float32[3]", args{1e-5, 3.0}}, "dtype"},
	{sample{"RMSNorm", "float32[2 3] float64[3]", args{1e-5, 3.0}}, "dtype"},
	{sample{"RMSNorm", "float32[2 3] float32[2]", args{1e-5, 3.0}}, "shape"}, {sample{"GroupNorm", "float32[3]", args{1e-5, 1.0}}, "shape"},
	{sample{"GroupNorm", "float32[2 3]", args{1e-5, 2.0}}, "shape"}, {sample{"GroupNorm", "float32[2 4]", args{1e-5, 0.0}}, "shape"},
	{sample{"GroupNorm", "float32[2 4] float32[2]", args{1e-5, 2.0}}, "shape"},
	{sample{"GroupNorm", "float32[2 4] float64[4]", args{1e-5, 2.0}}, "dtype"},
	{sample{"LayerNormGrad given", "float32[2 3] float32[2 3] float32[3] float32[2]", args{3.0}}, "shape"},
	{sample{"LayerNormGrad given", "float32[2 3] float32[2 3] float32[2] int64[2]", args{3.0}}, "dtype"},
	{sample{"LayerNormGrad given", "float32[3 3] float32[2 3] float32[2]", args{3.0}}, "shape"},
	{sample{"LayerNormGrad given", "float32[2 3] float32[2 3] float32[2] float32[2] float32[2]", args{3.0}}, "shape"},
	{sample{"LayerNormSums given", "float32[2 3] float64[2 3] float32[2]", args{3.0}}, "dtype"},
	{sample{"LayerNormSums given", "float32[2 3] float32[2 3] float32[2]", args{2.0}}, "shape"},
	{sample{"GroupNormGrad given", "float32[2 4] float32[2 4] float32[4] float32[4]", args{3.0}}, "shape"},
	{sample{"GroupNormGrad given", "float32[2 4] float32[2 4] float32[4] float32[4] float16[4]", args{2.0}}, "dtype"},
	{sample{"GroupNormSums given", "float32[2 4] float32[2 4] float32[4] float32[2]", args{2.0}}, "shape"},
	{sample{"GroupNormSums given", "float32[2 4] float32[2 4] bool[4] float32[4]", args{2.0}}, "dtype"},
	{sample{"BatchMoments", "float32[1 3]", args{1e-5}}, "shape"}, {sample{"BatchMoments", "float32[3]", args{1e-5}}, "shape"},
	{sample{"BatchMoments running", "float32[4 3] float32[3] float32[4]", args{1e-5, 0.1}}, "shape"},
	{sample{"BatchMoments running", "float32[4 3] float32[3] float64[3]", args{1e-5, 0.1}}, "dtype"},
	{sample{"BatchMoments", "int32[4 3]", args{1e-5}}, "dtype"},
	{sample{"BatchNorm given", "float32[4 3] float32[4] float32[3]", nil}, "shape"},
	{sample{"BatchNorm given", "float32[4 3] float32[3] int32[3]", nil}, "dtype"},
	{sample{"BatchNorm given", "float32[4 3] float32[3] float32[3] float32[4]", nil}, "shape"},
	{sample{"BatchNormGrad given", "float32[4 3] float32[4 3] float32[3] float32[3] float32[3] float32[2] float32[3]", nil}, "shape"},
	{sample{"BatchNormGrad given", "float32[4 3] float32[4 3] float32[3] float32[3] float32[3] float32[3] int64[3]", nil}, "dtype"},
	{sample{"BatchNormSums given", "float32[4 3] float32[4 2] float32[2] float32[2]", nil}, "shape"},
	{sample{"BatchNormSums given", "int32[4 3] int32[4 3] float32[3] float32[3]", nil}, "dtype"},
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

// given are the moments among the inputs of a gradient: input 2 and, unless it is of an RMS norm, 3.
func given(in tensors) tensor.Moments { return tensor.Moments{Rstd: in[2], Mean: optional(in, 3)} }

func TestNormPrograms_GiveWhatPyTorchGives(t *testing.T) { checkProgramFile(t, onHost(t), "norm.json") }

func TestNorms_RefuseAReleasedSecondOperand(t *testing.T) {
	b := onHost(t)
	gone := iota(t, b.Exec, 2, 2)
	gone.Release()
	for _, s := range slices.Concat(normSamples, indexSamples) {
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
