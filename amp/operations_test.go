package amp_test

import (
	"maps"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

func init() { maps.Copy(runs, operationRuns) }

// noFakeKernel are the operations that testdata/autocast.py could not run: PyTorch 1.13 has no kernels of them without data.
var noFakeKernel = []string{"baddbmm", "bmm", "count_nonzero", "dot", "mv", "outer", "repeat_interleave", "rotary_embedding", "where_scalar", "rwhere_scalar",
	"bitwise_or_scalar", "bitwise_xor_scalar"}

// operationRuns are the runs of operations.
var operationRuns = map[string]func(r *rig, in vars) *autograd.Variable{
	"argsort":           one(func(v *autograd.Variable) *autograd.Variable { return v.ArgSort(-1, false) }),
	"count_nonzero":     one(func(v *autograd.Variable) *autograd.Variable { return v.CountNonzero() }),
	"cumprod":           one(func(v *autograd.Variable) *autograd.Variable { return v.CumProd(0) }),
	"cumsum":            one(func(v *autograd.Variable) *autograd.Variable { return v.CumSum(0) }),
	"diag_embed":        one(func(v *autograd.Variable) *autograd.Variable { return v.DiagEmbed(0) }),
	"diagonal":          one(func(v *autograd.Variable) *autograd.Variable { return v.Diagonal(0, 0, 1) }),
	"flip":              one(func(v *autograd.Variable) *autograd.Variable { return v.Flip(0) }),
	"fmod_scalar":       one(func(v *autograd.Variable) *autograd.Variable { return v.FmodScalar(1.5) }),
	"lerp":              one(func(v *autograd.Variable) *autograd.Variable { return v.Lerp(v, v) }),
	"lerp_scalar":       one(func(v *autograd.Variable) *autograd.Variable { return v.LerpScalar(v, 0.25) }),
	"logsumexp":         one(func(v *autograd.Variable) *autograd.Variable { return v.LogSumExp([]int{-1}, false) }),
	"max":               one(func(v *autograd.Variable) *autograd.Variable { a, _ := v.MaxDim(0, false); return a }),
	"min":               one(func(v *autograd.Variable) *autograd.Variable { a, _ := v.MinDim(0, false); return a }),
	"movedim":           one(func(v *autograd.Variable) *autograd.Variable { return v.MoveDim(0, 1) }),
	"norm":              one(func(v *autograd.Variable) *autograd.Variable { return v.Norm(2, nil, false) }),
	"pad":               one(func(v *autograd.Variable) *autograd.Variable { return v.Pad([]int{1, 1}, tensor.PadConstant, 0) }),
	"prod":              one(func(v *autograd.Variable) *autograd.Variable { return v.Prod(nil, false) }),
	"rdiv_scalar":       one(func(v *autograd.Variable) *autograd.Variable { return v.RDivScalar(1.5) }),
	"remainder_scalar":  one(func(v *autograd.Variable) *autograd.Variable { return v.RemainderScalar(1.5) }),
	"repeat":            one(func(v *autograd.Variable) *autograd.Variable { return v.Repeat(2, 2) }),
	"repeat_interleave": one(func(v *autograd.Variable) *autograd.Variable { return v.RepeatInterleave(2, 0) }),
	"roll":              one(func(v *autograd.Variable) *autograd.Variable { return v.Roll([]int{1}, []int{0}) }),
	"rotary_embedding": one(func(v *autograd.Variable) *autograd.Variable {
		return v.RotaryEmbedding(v.Narrow(1, 0, 2), v.Narrow(1, 2, 2), tensor.RotaryHalves)
	}),
	"rpow_scalar":  one(func(v *autograd.Variable) *autograd.Variable { return v.RPowScalar(2) }),
	"rsub_scalar":  one(func(v *autograd.Variable) *autograd.Variable { return v.RSubScalar(1.5) }),
	"sort":         one(func(v *autograd.Variable) *autograd.Variable { a, _ := v.Sort(-1, false); return a }),
	"topk":         one(func(v *autograd.Variable) *autograd.Variable { a, _ := v.TopK(2, -1, true); return a }),
	"tril":         one(func(v *autograd.Variable) *autograd.Variable { return v.Tril(0) }),
	"triu":         one(func(v *autograd.Variable) *autograd.Variable { return v.Triu(0) }),
	"add_scalar_":  one(func(v *autograd.Variable) *autograd.Variable { return v.AddScalarInPlace(1.5) }),
	"clamp_":       one(func(v *autograd.Variable) *autograd.Variable { return v.ClampInPlace(-1, 1) }),
	"lerp_":        one(func(v *autograd.Variable) *autograd.Variable { return v.LerpInPlace(v, v) }),
	"lerp_scalar_": one(func(v *autograd.Variable) *autograd.Variable { return v.LerpScalarInPlace(v, 0.25) }),
	"mul_scalar_":  one(func(v *autograd.Variable) *autograd.Variable { return v.MulScalarInPlace(1.5) }),
	"masked_fill":  masked(func(v, m *autograd.Variable) *autograd.Variable { return v.MaskedFill(m, 1.5) }),
	"masked_fill_": masked(func(v, m *autograd.Variable) *autograd.Variable { return v.MaskedFillInPlace(m, 1.5) }),
	"addcdiv":      two(func(a, b *autograd.Variable) *autograd.Variable { return a.AddCDiv(b, b, 1) }),
	"addcmul":      two(func(a, b *autograd.Variable) *autograd.Variable { return a.AddCMul(b, b, 1) }),
	"addmm":        func(_ *rig, in vars) *autograd.Variable { return autograd.AddMM(in[len(in)-1], in[0], in[1], 1, 1) },
	"baddbmm": func(_ *rig, in vars) *autograd.Variable {
		return autograd.BAddBMM(in[len(in)-1].Unsqueeze(0), in[0].Unsqueeze(0), in[1].Unsqueeze(0), 1, 1)
	},
	"bmm":       two(func(a, b *autograd.Variable) *autograd.Variable { return a.Unsqueeze(0).BMM(b.Unsqueeze(0)) }),
	"dot":       two(func(a, b *autograd.Variable) *autograd.Variable { return a.Select(0, 0).Dot(b.Select(0, 0)) }),
	"einsum":    two(func(a, b *autograd.Variable) *autograd.Variable { return autograd.Einsum("ij,jk->ik", a, b) }),
	"mm":        two((*autograd.Variable).MM),
	"mv":        two(func(a, b *autograd.Variable) *autograd.Variable { return a.MV(b.Select(0, 0)) }),
	"outer":     two(func(a, b *autograd.Variable) *autograd.Variable { return a.Select(0, 0).Outer(b.Select(0, 0)) }),
	"tensordot": two(func(a, b *autograd.Variable) *autograd.Variable { return a.TensorDot(b, []int{1}, []int{0}) }),
	"all":       one(func(v *autograd.Variable) *autograd.Variable { return v.All(nil, false) }),
	"any":       one(func(v *autograd.Variable) *autograd.Variable { return v.Any(nil, false) }),
	"eq_scalar": one(func(v *autograd.Variable) *autograd.Variable { return v.EqScalar(1.5) }),
	"ge_scalar": one(func(v *autograd.Variable) *autograd.Variable { return v.GeScalar(1.5) }),
	"gt_scalar": one(func(v *autograd.Variable) *autograd.Variable { return v.GtScalar(1.5) }),
	"le_scalar": one(func(v *autograd.Variable) *autograd.Variable { return v.LeScalar(1.5) }),
	"lt_scalar": one(func(v *autograd.Variable) *autograd.Variable { return v.LtScalar(1.5) }),
	"ne_scalar": one(func(v *autograd.Variable) *autograd.Variable { return v.NeScalar(1.5) }),
	"add_":      two(func(a, b *autograd.Variable) *autograd.Variable { return a.AddInPlace(b, 1) }),
	"div_":      two((*autograd.Variable).DivInPlace),
	"mul_":      two((*autograd.Variable).MulInPlace),
	"sub_":      two((*autograd.Variable).SubInPlace),
}

func masked(f func(v, mask *autograd.Variable) *autograd.Variable) func(*rig, vars) *autograd.Variable {
	return func(r *rig, in vars) *autograd.Variable {
		return f(in[0], in[0].Graph().Input(r.keep(tensor.FromSlice(r.exec, []bool{true, false, false, true}))))
	}
}
