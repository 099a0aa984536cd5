package amp_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

func TestPolicy_HasAClassForEveryOperationOfAutogradAndForNoOther(t *testing.T) {
	require.Equal(t, autograd.Operations(), amp.PolicyNames())
	for _, op := range autograd.Operations() {
		_, known := amp.ClassOf(op)
		require.True(t, known, op)
	}
	_, known := amp.ClassOf("fft")
	require.False(t, known)
}

func TestPolicy_NamesNoOperationTwice(t *testing.T) {
	names := append(amp.PolicyNames(), amp.PeerNames()...)
	slices.Sort(names)
	require.Len(t, slices.Compact(slices.Clone(names)), len(names))
}

// vars are the inputs of a run.
type vars = []*autograd.Variable

// runs calls each operation of autograd on arguments of one type of shape [4, 4]; classes and mask are made by the run.
var runs = map[string]func(r *rig, in vars) *autograd.Variable{
	"amax":       one(func(v *autograd.Variable) *autograd.Variable { return v.Max([]int{-1}, false) }),
	"amin":       one(func(v *autograd.Variable) *autograd.Variable { return v.Min([]int{-1}, false) }),
	"argmax":     one(func(v *autograd.Variable) *autograd.Variable { return v.ArgMax(-1, false) }),
	"argmin":     one(func(v *autograd.Variable) *autograd.Variable { return v.ArgMin(-1, false) }),
	"contiguous": one((*autograd.Variable).Contiguous),
	"to_memory_format": one(func(v *autograd.Variable) *autograd.Variable {
		return v.View(1, 2, 2, 4).ToMemoryFormat(tensor.ChannelsLast)
	}),
	"dropout":     one(func(v *autograd.Variable) *autograd.Variable { return v.Dropout(0.5) }),
	"expand":      one(func(v *autograd.Variable) *autograd.Variable { return v.Expand(2, 4, 4) }),
	"flatten":     one(func(v *autograd.Variable) *autograd.Variable { return v.Flatten(0, -1) }),
	"log_softmax": one(func(v *autograd.Variable) *autograd.Variable { return v.LogSoftmax(-1) }),
	"mean":        one(func(v *autograd.Variable) *autograd.Variable { return v.Mean(nil, false) }),
	"narrow":      one(func(v *autograd.Variable) *autograd.Variable { return v.Narrow(0, 1, 2) }),
	"permute":     one(func(v *autograd.Variable) *autograd.Variable { return v.Permute(1, 0) }),
	"reshape":     one(func(v *autograd.Variable) *autograd.Variable { return v.Reshape(2, 8) }),
	"select":      one(func(v *autograd.Variable) *autograd.Variable { return v.Select(0, 1) }),
	"slice":       one(func(v *autograd.Variable) *autograd.Variable { return v.Slice(0, 0, 2, 1) }),
	"softmax":     one(func(v *autograd.Variable) *autograd.Variable { return v.Softmax(-1) }),
	"squeeze":     one(func(v *autograd.Variable) *autograd.Variable { return v.Squeeze() }),
	"std":         one(func(v *autograd.Variable) *autograd.Variable { return v.Std(nil, 1, false) }),
	"sub_scalar":  one(func(v *autograd.Variable) *autograd.Variable { return v.SubScalar(1.5) }),
	"sum":         one(func(v *autograd.Variable) *autograd.Variable { return v.Sum(nil, false) }),
	"t":           one((*autograd.Variable).T),
	"to":          one(func(v *autograd.Variable) *autograd.Variable { return v.To(tensor.Float64) }),
	"transpose":   one(func(v *autograd.Variable) *autograd.Variable { return v.Transpose(0, 1) }),
	"unsqueeze":   one(func(v *autograd.Variable) *autograd.Variable { return v.Unsqueeze(0) }),
	"var":         one(func(v *autograd.Variable) *autograd.Variable { return v.Var(nil, 1, false) }),
	"view":        one(func(v *autograd.Variable) *autograd.Variable { return v.View(16) }),
	"add":         two((*autograd.Variable).Add),
	"matmul":      two((*autograd.Variable).MatMul),
	"cat":         func(_ *rig, in vars) *autograd.Variable { return autograd.Cat(in, 0) },
	"stack":       func(_ *rig, in vars) *autograd.Variable { return autograd.Stack(in, 0) },
	"linear":      func(_ *rig, in vars) *autograd.Variable { return in[0].Linear(in[1], nil) },
	"linear_bias": func(_ *rig, in vars) *autograd.Variable { return in[0].Linear(in[1], in[2].Select(0, 0)) },
	"l1_loss":     loss((*autograd.Variable).L1Loss),
	"mse_loss":    loss((*autograd.Variable).MSELoss),
	"conv1d":      func(_ *rig, in vars) *autograd.Variable { return in[0].Conv1d(in[1].View(4, 4, 1), nil, tensor.Conv{}) },
	"conv1d_bias": func(_ *rig, in vars) *autograd.Variable {
		return in[0].Conv1d(in[1].View(4, 4, 1), in[2].Select(0, 0), tensor.Conv{})
	},
	"conv2d": func(_ *rig, in vars) *autograd.Variable {
		return in[0].View(4, 2, 2).Conv2d(in[1].View(4, 4, 1, 1), nil, tensor.Conv{})
	},
	"conv2d_bias": func(_ *rig, in vars) *autograd.Variable {
		return in[0].View(4, 2, 2).Conv2d(in[1].View(4, 4, 1, 1), in[2].Select(0, 0), tensor.Conv{})
	},
	"conv_transpose1d": func(_ *rig, in vars) *autograd.Variable {
		return in[0].ConvTranspose1d(in[1].View(4, 4, 1), nil, tensor.ConvTranspose{})
	},
	"conv_transpose1d_bias": func(_ *rig, in vars) *autograd.Variable {
		return in[0].ConvTranspose1d(in[1].View(4, 4, 1), in[2].Select(0, 0), tensor.ConvTranspose{})
	},
	"conv_transpose2d": func(_ *rig, in vars) *autograd.Variable {
		return in[0].View(4, 2, 2).ConvTranspose2d(in[1].View(4, 4, 1, 1), nil, tensor.ConvTranspose{})
	},
	"conv_transpose2d_bias": func(_ *rig, in vars) *autograd.Variable {
		return in[0].View(4, 2, 2).ConvTranspose2d(in[1].View(4, 4, 1, 1), in[2].Select(0, 0), tensor.ConvTranspose{})
	},
	"max_pool1d":           one(func(v *autograd.Variable) *autograd.Variable { return v.MaxPool1d(halves) }),
	"max_pool2d":           one(func(v *autograd.Variable) *autograd.Variable { return v.View(1, 4, 4).MaxPool2d(halves) }),
	"avg_pool1d":           one(func(v *autograd.Variable) *autograd.Variable { return v.AvgPool1d(halves) }),
	"avg_pool2d":           one(func(v *autograd.Variable) *autograd.Variable { return v.View(1, 4, 4).AvgPool2d(halves) }),
	"adaptive_max_pool1d":  one(func(v *autograd.Variable) *autograd.Variable { return v.AdaptiveMaxPool1d(2) }),
	"adaptive_max_pool2d":  one(func(v *autograd.Variable) *autograd.Variable { return v.View(1, 4, 4).AdaptiveMaxPool2d(2) }),
	"adaptive_avg_pool1d":  one(func(v *autograd.Variable) *autograd.Variable { return v.AdaptiveAvgPool1d(2) }),
	"adaptive_avg_pool2d":  one(func(v *autograd.Variable) *autograd.Variable { return v.View(1, 4, 4).AdaptiveAvgPool2d(2) }),
	"upsample_nearest2d":   one(func(v *autograd.Variable) *autograd.Variable { return v.View(1, 1, 4, 4).UpsampleNearest2d(twice) }),
	"upsample_bilinear2d":  one(func(v *autograd.Variable) *autograd.Variable { return v.View(1, 1, 4, 4).UpsampleBilinear2d(twice) }),
	"checkpoint":           func(_ *rig, in vars) *autograd.Variable { return autograd.Checkpoint(first, in...) },
	"index_select":         func(r *rig, in vars) *autograd.Variable { return in[0].IndexSelect(0, r.classes(in[0])) },
	"nll_loss":             func(r *rig, in vars) *autograd.Variable { return in[0].NLLLoss(r.classes(in[0])) },
	"binary_cross_entropy": two(func(a, b *autograd.Variable) *autograd.Variable { return a.BCELoss(b, autograd.MeanReduction) }),
	"huber_loss":           two(func(a, b *autograd.Variable) *autograd.Variable { return a.HuberLoss(b, 1, autograd.MeanReduction) }),
	"kl_div":               two(func(a, b *autograd.Variable) *autograd.Variable { return a.KLDivLoss(b, false, autograd.MeanReduction) }),
	"smooth_l1_loss":       two(func(a, b *autograd.Variable) *autograd.Variable { return a.SmoothL1Loss(b, 1, autograd.MeanReduction) }),
	"scaled_dot_product_attention": func(_ *rig, in vars) *autograd.Variable {
		return autograd.ScaledDotProductAttention(in[0], in[1], in[2])
	},
	"scaled_dot_product_attention_packed": one(func(v *autograd.Variable) *autograd.Variable { return v.SelfAttention(2, 1) }),
	"cross_entropy": func(r *rig, in vars) *autograd.Variable {
		return in[0].CrossEntropy(r.classes(in[0]))
	},
	"binary_cross_entropy_with_logits": two(func(a, b *autograd.Variable) *autograd.Variable {
		return a.BCEWithLogitsLoss(b, autograd.MeanReduction)
	}),
	"where": func(r *rig, in vars) *autograd.Variable {
		mask := r.keep(tensor.FromSlice(r.exec, []bool{true, false, false, true}))
		return autograd.Where(in[0].Graph().Input(mask), in[0], in[1])
	},
	"bitwise_not": one(func(v *autograd.Variable) *autograd.Variable { return v.To(tensor.Int64).BitwiseNot() }),
	"bitwise_and": two(func(a, b *autograd.Variable) *autograd.Variable {
		return a.To(tensor.Int64).BitwiseAnd(b.To(tensor.Int64))
	}),
	"bitwise_and_scalar": one(func(v *autograd.Variable) *autograd.Variable { return v.To(tensor.Int64).BitwiseAndScalar(1) }),
	"bitwise_or": two(func(a, b *autograd.Variable) *autograd.Variable {
		return a.To(tensor.Int64).BitwiseOr(b.To(tensor.Int64))
	}),
	"bitwise_or_scalar": one(func(v *autograd.Variable) *autograd.Variable { return v.To(tensor.Int64).BitwiseOrScalar(1) }),
	"bitwise_xor": two(func(a, b *autograd.Variable) *autograd.Variable {
		return a.To(tensor.Int64).BitwiseXor(b.To(tensor.Int64))
	}),
	"bitwise_xor_scalar": one(func(v *autograd.Variable) *autograd.Variable { return v.To(tensor.Int64).BitwiseXorScalar(1) }),
	"bitwise_left_shift": two(func(a, b *autograd.Variable) *autograd.Variable {
		return a.To(tensor.Int64).BitwiseLeftShift(b.To(tensor.Int64))
	}),
	"bitwise_left_shift_scalar": one(func(v *autograd.Variable) *autograd.Variable { return v.To(tensor.Int64).BitwiseLeftShiftScalar(1) }),
	"bitwise_right_shift": two(func(a, b *autograd.Variable) *autograd.Variable {
		return a.To(tensor.Int64).BitwiseRightShift(b.To(tensor.Int64))
	}),
	"bitwise_right_shift_scalar": one(func(v *autograd.Variable) *autograd.Variable { return v.To(tensor.Int64).BitwiseRightShiftScalar(1) }),
	"where_scalar":               one(func(v *autograd.Variable) *autograd.Variable { return autograd.WhereScalar(v.GtScalar(0), v, 0.5) }),
	"rwhere_scalar":              one(func(v *autograd.Variable) *autograd.Variable { return autograd.RWhereScalar(v.GtScalar(0), 0.5, v) }),
}

var (
	halves = tensor.Pool{Kernel: []int{2}}
	twice  = tensor.Upsample{Scale: []float64{2}}
)

func first(in vars) *autograd.Variable { return in[0].Neg() }

func one(f func(*autograd.Variable) *autograd.Variable) func(*rig, vars) *autograd.Variable {
	return func(_ *rig, in vars) *autograd.Variable { return f(in[0]) }
}

func two(f func(a, b *autograd.Variable) *autograd.Variable) func(*rig, vars) *autograd.Variable {
	return func(_ *rig, in vars) *autograd.Variable { return f(in[0], in[1]) }
}

func loss(f func(a, b *autograd.Variable, r autograd.Reduction) *autograd.Variable) func(*rig, vars) *autograd.Variable {
	return func(_ *rig, in vars) *autograd.Variable { return f(in[0], in[1], autograd.MeanReduction) }
}

func (r *rig) classes(v *autograd.Variable) *autograd.Variable {
	return v.Graph().Input(r.keep(tensor.FromSlice(r.exec, []int64{0, 3, 1, 2})))
}

func TestRuns_CoverEveryOperation(t *testing.T) {
	for _, op := range autograd.Operations() {
		if recurrentRuns[op] == nil {
			require.Contains(t, runs, op)
		}
	}
}

// letters are the types in testdata/autocast.json.
var letters = map[byte]tensor.DType{
	'f': tensor.Float32, 'h': tensor.Float16, 'b': tensor.BFloat16, 'd': tensor.Float64, 'i': tensor.Int64, '?': tensor.Bool,
}

// autocastRow has the types that PyTorch gives.
type autocastRow struct {
	Op      string
	Region  string
	Results map[string]string // types of the arguments, and of the result
}

func (row autocastRow) dtype() tensor.DType {
	if row.Region == "bfloat16" {
		return tensor.BFloat16
	}
	return tensor.Float16
}

// goldenRows are the rows of all files.
func goldenRows(t *testing.T) (rows []autocastRow) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "autocast*.json"))
	require.NoError(t, err)
	for _, file := range files {
		var part []autocastRow
		readGolden(t, filepath.Base(file), &part)
		rows = append(rows, part...)
	}
	return rows
}

func TestAutocast_GivesTheTypesThatPyTorchGives(t *testing.T) {
	golden := goldenRows(t)
	tested := map[string]bool{}
	for _, row := range golden {
		run, ok := runs[row.Op]
		if !ok {
			continue // TestCast_OfOperationsThatAutogradDoesNotHave
		}
		tested[row.Op] = true
		t.Run(row.Op+" "+row.Region, func(t *testing.T) {
			r := onHost(t)
			for types, want := range row.Results {
				g := r.graph(amp.Autocast(row.dtype()))
				var in vars
				for i := range types {
					in = append(in, g.Input(r.full(0.5, letters[types[i]], 4, 4)))
				}
				got := run(r, in)
				if want == "!" {
					var promote *amp.PromoteError
					var banned *amp.BannedError
					require.True(t, errors.As(g.Err(), &promote) || errors.As(g.Err(), &banned), "%s: %v", types, g.Err())
					g.Release()
					continue
				}
				require.NoError(t, g.Err(), types)
				require.Equal(t, letters[want[0]].String(), got.DType().String(), types)
				g.Release()
			}
		})
	}
	later := map[string]bool{"upsample_nearest2d": true, "upsample_bilinear2d": true} // PyTorch 1.13 does not list them
	for _, op := range autograd.Operations() {
		require.True(t, tested[op] || op == "checkpoint" || later[op] || recurrentRuns[op] != nil || slices.Contains(noFakeKernel, op), op)
	}
}

func TestAutocast_ResamplesInFloat32(t *testing.T) {
	for _, op := range []string{"upsample_nearest2d", "upsample_bilinear2d"} {
		r := onHost(t)
		g := r.graph(amp.Autocast(tensor.Float16))
		got := runs[op](r, vars{g.Input(r.full(0.5, tensor.Float16, 4, 4))})
		require.NoError(t, g.Err())
		require.Equal(t, tensor.Float32, got.DType(), op)
		g.Release()
	}
}

// The operations of PyTorch's other lists that autograd does not have are asked of the caster alone.
func TestCast_OfOperationsThatAutogradDoesNotHave(t *testing.T) {
	var golden []autocastRow
	readGolden(t, "autocast.json", &golden)
	r := onHost(t)
	seen := map[amp.Class]bool{}
	for _, row := range golden {
		if runs[row.Op] != nil {
			continue
		}
		class, known := amp.ClassOf(row.Op)
		require.True(t, known, row.Op)
		seen[class] = true
		for types, want := range row.Results {
			g := r.graph(amp.Autocast(row.dtype()))
			caster := g.SetCaster(nil)
			var in vars
			for i := range types {
				in = append(in, g.Input(r.full(0.5, letters[types[i]], 4, 4)))
			}
			cast, err := caster.Cast(row.Op, in)
			if want == "!" {
				var promote *amp.PromoteError
				require.ErrorAs(t, err, &promote, "%s %s", row.Op, types)
				require.ErrorContains(t, err, "Unexpected floating ScalarType in at::autocast::prioritize")
				continue
			}
			require.NoError(t, err, "%s %s", row.Op, types)
			require.Equal(t, letters[want[0]], tensor.Promote(cast[0].DType(), cast[1].DType()), "%s %s", row.Op, types)
			g.Release()
		}
	}
	require.Equal(t, map[amp.Class]bool{amp.WidestInput: true, amp.Float32: true, amp.LowerPrecision: true}, seen)
}

func TestCast_RefusesBannedOperations(t *testing.T) {
	r := onHost(t)
	g := r.graph(amp.Autocast(tensor.Float16))
	caster := g.SetCaster(nil)
	_, err := caster.Cast("binary_cross_entropy", vars{g.Input(r.full(0.5, tensor.Float16, 2))})
	var banned *amp.BannedError
	require.ErrorAs(t, err, &banned)
	require.ErrorContains(t, err, "binary_cross_entropy is unsafe to autocast")
	require.ErrorContains(t, err, "binary_cross_entropy_with_logits")
}

func TestClass_HasAName(t *testing.T) {
	for c := amp.Untouched; c <= amp.Banned; c++ {
		require.False(t, strings.HasPrefix(c.String(), "Class"), c)
	}
	require.Equal(t, "Class(77)", amp.Class(77).String())
}
