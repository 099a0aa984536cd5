package autograd_test

import (
	"maps"
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/gradcheck"
	"github.com/cistern-ml/cistern/tensor"
)

// The gradient cases of operations.

type variable = *autograd.Variable

func unary(op string, f func(variable) variable) gradientCase {
	return gradientCase{op: op, f: func(v vars) variable { return f(v[0]) }, shapes: [][]int{{2, 3}}}
}

func firstOf(a, _ variable) variable { return a }

// noted is c with a note, prepared by prep.
func (c gradientCase) noted(note string, prep func([]float64)) gradientCase {
	c.note, c.prep = note, prep
	return c
}

// weighted sums the squares of the pieces with different weights.
func weighted(v variable, pieces []variable) variable {
	if len(pieces) == 0 { // after an error nobody knows how many there would be
		return v
	}
	sum := pieces[0].Mul(pieces[0]).Sum(nil, false)
	for i, p := range pieces[1:] {
		sum = sum.Add(p.Mul(p).Sum(nil, false).MulScalar(float64(i + 2)))
	}
	return sum
}

// zeros sets some numbers to 0.
func zeros(x []float64) {
	for i := range x {
		if i%4 == 1 {
			x[i] = 0
		}
	}
}

// flags makes inputs of the given shapes and a mask.
func flags(shapes ...[]int) func(r *rig) []*tensor.Tensor {
	return func(r *rig) []*tensor.Tensor {
		var ts []*tensor.Tensor
		for i, s := range shapes {
			ts = append(ts, r.random(uint64(20+i), s...))
		}
		return append(ts, keep(r.t)(tensor.FromSlice(r.exec, []bool{true, false, true})))
	}
}

// over is an operation in place on a copy of the first input.
func over(op, note string, f func(t variable, v vars) variable, shapes ...[]int) gradientCase {
	return gradientCase{op: op, note: note, f: func(v vars) variable { return f(v[0].MulScalar(2), v) }, shapes: shapes}
}

func contraction(text string, shapes ...[]int) gradientCase {
	return gradientCase{op: "einsum", note: text, f: func(v vars) variable { return autograd.Einsum(text, v...) }, shapes: shapes}
}

func padded(note string, mode tensor.PadMode, pad ...int) gradientCase {
	return gradientCase{op: "pad", note: note, f: func(v vars) variable { return v[0].Pad(pad, mode, 0.5) }, shapes: [][]int{{2, 4, 3}}}
}

func two(op string, f func(a, b variable) variable, a, b []int) gradientCase {
	return gradientCase{op: op, f: func(v vars) variable { return f(v[0], v[1]) }, shapes: [][]int{a, b}}
}

func normOf(p float64, dims []int, keep bool) gradcheck.Func {
	return func(v vars) variable { return v[0].Norm(p, dims, keep) }
}

var operationCases = []gradientCase{
	unary("hardtanh", variable.ReLU6).noted("relu6", apart),
	unary("rsub_scalar", func(v variable) variable { return v.RSubScalar(2) }),
	unary("rdiv_scalar", func(v variable) variable { return v.RDivScalar(2) }).noted("", positive),
	unary("rpow_scalar", func(v variable) variable { return v.RPowScalar(2) }),
	unary("rpow_scalar", func(v variable) variable { return v.RPowScalar(0) }).noted("zero", positive),
	unary("fmod_scalar", func(v variable) variable { return v.FmodScalar(1.5) }),
	unary("remainder_scalar", func(v variable) variable { return v.RemainderScalar(1.5) }),
	{op: "lerp", f: func(v vars) variable { return v[0].Lerp(v[1], v[2]) }, shapes: [][]int{{2, 3}, {3}, {2, 1}}},
	two("lerp_scalar", func(a, b variable) variable { return a.LerpScalar(b, 0.3) }, []int{2, 3}, []int{3}),
	{op: "addcmul", f: func(v vars) variable { return v[0].AddCMul(v[1], v[2], -0.5) }, shapes: [][]int{{2, 3}, {3}, {2, 1}}},
	{op: "addcdiv", f: func(v vars) variable { return v[0].AddCDiv(v[1], v[2], -0.5) }, shapes: [][]int{{2, 3}, {3}, {2, 1}}, prep: positive},
	{op: "masked_fill", f: func(v vars) variable { return v[0].MaskedFill(v[1], 2) }, inputs: flags([]int{2, 3})},

	{op: "norm", note: "2", f: normOf(2, nil, false), shapes: [][]int{{2, 3}}}, {op: "norm", note: "2 dims", f: normOf(2, []int{0, -1}, false), shapes: [][]int{{2, 3, 4}}},
	{op: "norm", note: "1", f: normOf(1, []int{1}, true), shapes: [][]int{{2, 3}}, prep: apart}, {op: "norm", note: "3", f: normOf(3, []int{0}, false), shapes: [][]int{{2, 3}}},
	{op: "norm", note: "0.5", f: normOf(0.5, []int{0}, false), shapes: [][]int{{2, 3}}, prep: apart}, {op: "norm", note: "0", f: normOf(0, nil, false), shapes: [][]int{{3}}},
	{op: "norm", note: "inf", f: normOf(math.Inf(1), []int{1}, false), shapes: [][]int{{2, 3}}},
	{op: "norm", note: "-inf", f: normOf(math.Inf(-1), nil, false), shapes: [][]int{{2, 3}}, prep: apart},
	{op: "logsumexp", f: func(v vars) variable { return v[0].LogSumExp(nil, false) }, shapes: [][]int{{2, 3}}},
	{op: "logsumexp", note: "dims", f: func(v vars) variable { return v[0].LogSumExp([]int{-1, 0}, true) }, shapes: [][]int{{2, 3, 2}}},
	{op: "prod", f: func(v vars) variable { return v[0].Prod(nil, false) }, shapes: [][]int{{2, 3}}},
	{op: "prod", note: "dims", f: func(v vars) variable { return v[0].Prod([]int{1}, true) }, shapes: [][]int{{2, 3, 2}}},
	{op: "prod", note: "zeros", f: func(v vars) variable { return v[0].Prod([]int{-1}, false) }, shapes: [][]int{{5, 3}}, prep: zeros},
	{op: "cumsum", f: func(v vars) variable { return v[0].CumSum(0) }, shapes: [][]int{{4, 3}}},
	{op: "cumprod", f: func(v vars) variable { return v[0].CumProd(-1) }, shapes: [][]int{{2, 5}}},
	{op: "cumprod", note: "zeros", f: func(v vars) variable { return v[0].CumProd(0) }, shapes: [][]int{{5, 3}}, prep: zeros},
	{op: "max", f: func(v vars) variable { return firstOf(v[0].MaxDim(1, false)) }, shapes: [][]int{{2, 3, 2}}},
	{op: "min", f: func(v vars) variable { return firstOf(v[0].MinDim(-3, true)) }, shapes: [][]int{{2, 3, 2}}},
	{op: "max", note: "scalar", f: func(v vars) variable { return firstOf(v[0].MaxDim(0, false)) }, shapes: [][]int{{}}},
	{op: "sort", f: func(v vars) variable { return firstOf(v[0].Sort(0, true)) }, shapes: [][]int{{5, 2}}},
	{op: "topk", f: func(v vars) variable { return firstOf(v[0].TopK(2, -1, false)) }, shapes: [][]int{{2, 5}}},

	{op: "rotary_embedding", f: turned(tensor.RotaryHalves), inputs: func(r *rig) []*tensor.Tensor {
		return []*tensor.Tensor{r.random(1, 2, 3, 4), r.ints([]int64{0, 1, 2, 3, 4, 5}, 3, 2)}
	}},
	{op: "rotary_embedding", note: "interleaved, a part", f: turned(tensor.RotaryInterleaved), inputs: func(r *rig) []*tensor.Tensor {
		return []*tensor.Tensor{r.random(1, 2, 3, 5), r.ints([]int64{1, 2, 3, 4}, 2, 1, 2)}
	}},
	{op: "flip", f: func(v vars) variable { return v[0].Flip(0, -1) }, shapes: [][]int{{2, 3, 2}}},
	{op: "roll", f: func(v vars) variable { return v[0].Roll([]int{1, -2}, []int{0, 1}) }, shapes: [][]int{{2, 3}}},
	{op: "roll", note: "flat", f: func(v vars) variable { return v[0].Roll([]int{4}, nil) }, shapes: [][]int{{2, 3}}},
	{op: "tril", f: func(v vars) variable { return v[0].Tril(1) }, shapes: [][]int{{2, 3, 4}}}, {op: "triu", f: func(v vars) variable { return v[0].Triu(-1) }, shapes: [][]int{{4, 3}}},
	{op: "diagonal", f: func(v vars) variable { return v[0].Diagonal(-1, 0, 2) }, shapes: [][]int{{3, 2, 4}}},
	{op: "diagonal", note: "diag", f: func(v vars) variable { return v[0].Diag(1) }, shapes: [][]int{{3, 4}}},
	{op: "diag_embed", f: func(v vars) variable { return v[0].DiagEmbed(1) }, shapes: [][]int{{2, 3}}}, {op: "diag_embed", note: "diag", f: func(v vars) variable { return v[0].Diag(-1) }, shapes: [][]int{{3}}},
	padded("constant", tensor.PadConstant, 1, 2, 0, 1), padded("cut", tensor.PadConstant, -1, 2, 1, -2), padded("reflect", tensor.PadReflect, 2, 1, 3, 2),
	padded("reflect and cut", tensor.PadReflect, -1, 2, 2, -3), padded("replicate and cut", tensor.PadReplicate, -2, 1, -1, -1),
	padded("replicate", tensor.PadReplicate, 2, 1, 0, 3), padded("circular", tensor.PadCircular, 3, 1, 2, 4),
	{op: "repeat", f: func(v vars) variable { return v[0].Repeat(2, 3, 1, 2) }, shapes: [][]int{{2, 3, 2}}},
	{op: "repeat", note: "tile", f: func(v vars) variable { return v[0].Tile(3) }, shapes: [][]int{{2, 3}}},
	{op: "repeat_interleave", f: func(v vars) variable { return v[0].RepeatInterleave(3, -2) }, shapes: [][]int{{2, 3, 2}}},
	{op: "transpose", note: "mt", f: func(v vars) variable { return arranged(v[0].MT()) }, shapes: [][]int{{2, 3, 4}}},
	{op: "movedim", f: func(v vars) variable { return v[0].MoveDim(0, -1) }, shapes: [][]int{{2, 3, 4}}},
	{op: "narrow", note: "split", f: func(v vars) variable { return weighted(v[0], v[0].Split(2, 1)) }, shapes: [][]int{{2, 5}}},
	{op: "narrow", note: "sizes", f: func(v vars) variable { p := v[0].SplitSizes([]int{1, 3, 0}, 0); return p[1].Mul(p[0]) }, shapes: [][]int{{4, 2}}},
	{op: "narrow", note: "chunk", f: func(v vars) variable { p := v[0].Chunk(2, -1); return p[0].Mul(p[len(p)-1]) }, shapes: [][]int{{2, 6}}},
	{op: "select", note: "unbind", f: func(v vars) variable { return weighted(v[0], v[0].Unbind(1)) }, shapes: [][]int{{2, 3}}},

	two("dot", variable.Dot, []int{3}, []int{3}), two("mv", variable.MV, []int{2, 3}, []int{3}), two("mm", variable.MM, []int{2, 3}, []int{3, 4}),
	two("bmm", variable.BMM, []int{2, 2, 3}, []int{2, 3, 2}), two("outer", variable.Outer, []int{3}, []int{2}),
	{op: "addmm", f: func(v vars) variable { return autograd.AddMM(v[0], v[1], v[2], 0.5, 2) }, shapes: [][]int{{4}, {2, 3}, {3, 4}}},
	{op: "baddbmm", f: func(v vars) variable { return autograd.BAddBMM(v[0], v[1], v[2], 1, -2) }, shapes: [][]int{{2, 1}, {3, 2, 3}, {3, 3, 4}}},
	contraction("ij,jk->ik", []int{2, 3}, []int{3, 4}), contraction("bij,bkj->bik", []int{2, 3, 2}, []int{2, 4, 2}), contraction("ij->", []int{2, 3}),
	contraction("ii->i", []int{3, 3}), contraction("ii", []int{3, 3}), contraction("i,j->ji", []int{2}, []int{3}), contraction("ij,ij->i", []int{2, 3}, []int{2, 3}),
	contraction("ab,bc,cd->da", []int{2, 3}, []int{3, 2}, []int{2, 4}), contraction("...ij,...jk", []int{2, 1, 2, 3}, []int{3, 3, 2}),
	contraction("i...,...i->...", []int{3, 2, 2}, []int{1, 2, 3}), contraction("iji,j->i", []int{2, 3, 2}, []int{3}), contraction("ab,c->a", []int{2, 3}, []int{4}),
	two("tensordot", func(a, b variable) variable { return a.TensorDot(b, []int{1, -1}, []int{1, 0}) }, []int{2, 3, 4}, []int{4, 3, 2}),

	over("add_", "", func(t variable, v vars) variable { return t.AddInPlace(v[1], 0.5) }, []int{2, 3}, []int{3}),
	over("sub_", "", func(t variable, v vars) variable { return t.SubInPlace(v[1]) }, []int{2, 3}, []int{2, 1}),
	over("mul_", "", func(t variable, v vars) variable { return t.MulInPlace(v[1]) }, []int{2, 3}, []int{3}),
	over("div_", "", func(t variable, v vars) variable { return t.DivInPlace(v[1].Exp()) }, []int{2, 3}, []int{3}),
	over("lerp_", "", func(t variable, v vars) variable { return t.LerpInPlace(v[1], v[2]) }, []int{2, 3}, []int{3}, []int{2, 1}),
	over("lerp_scalar_", "", func(t variable, v vars) variable { return t.LerpScalarInPlace(v[1], 0.3) }, []int{2, 3}, []int{3}),
	over("add_scalar_", "", func(t variable, v vars) variable { return t.AddScalarInPlace(2) }, []int{3}),
	over("mul_scalar_", "twice", func(t variable, v vars) variable { return t.MulScalarInPlace(2).MulScalarInPlace(3).Add(v[0]) }, []int{3}),
	over("exp_", "used before and after", func(t variable, v vars) variable {
		before := t.MulScalar(3)
		t.ExpInPlace()
		return before.Add(t)
	}, []int{3}),
	over("clamp_", "", func(t variable, v vars) variable { return t.ClampInPlace(-0.5, 1) }, []int{8}),
	{op: "masked_fill_", f: func(v vars) variable { return v[0].MulScalar(2).MaskedFillInPlace(v[1], 3) }, inputs: flags([]int{2, 3})},
}

func init() { gradientCases = append(gradientCases, operationCases...) }

// arranged multiplies v by 0, 1, 2 and so on, in the shape of v.
func arranged(v variable) variable {
	return v.Mul(v.Graph().New(func(e tensor.Exec) (*tensor.Tensor, error) {
		t, err := tensor.Arange(e, 0, float64(v.Len()), 1, tensor.Float64)
		if err != nil {
			return nil, err
		}
		defer t.Release()
		return t.Reshape(v.Shape()...)
	}))
}

func around(mode tensor.PadMode, pad ...int) func(v vars) variable {
	return func(v vars) variable { return arranged(v[0].Pad(pad, mode, 0.5)) }
}

// operationFunctions compute the cases of testdata/operations.py.
var operationFunctions = map[string]func(v vars) variable{
	"log1p": func(v vars) variable { return v[0].Log1p() }, "expm1": func(v vars) variable { return v[0].Expm1() }, "erf": func(v vars) variable { return v[0].Erf() },
	"elu": func(v vars) variable { return v[0].ELU(0.5) }, "logsumexp": func(v vars) variable { return v[0].LogSumExp([]int{1}, false) },
	"cumprod": func(v vars) variable { return v[0].CumProd(1) }, "hardtanh": func(v vars) variable { return v[0].Hardtanh(-0.5, 1) }, "relu6": func(v vars) variable { return v[0].ReLU6() },
	"floor": func(v vars) variable { return v[0].Floor() }, "ceil": func(v vars) variable { return v[0].Ceil() }, "round": func(v vars) variable { return v[0].Round() },
	"trunc": func(v vars) variable { return v[0].Trunc() }, "sign": func(v vars) variable { return v[0].Sign() },
	"rsub_scalar": func(v vars) variable { return v[0].RSubScalar(2) }, "rdiv_scalar": func(v vars) variable { return v[0].RDivScalar(2) },
	"rpow_scalar": func(v vars) variable { return v[0].RPowScalar(2) }, "fmod": func(v vars) variable { return v[0].Fmod(v[1]) },
	"remainder": func(v vars) variable { return v[0].Remainder(v[1]) }, "lerp": func(v vars) variable { return v[0].Lerp(v[1], v[2]) },
	"addcmul": func(v vars) variable { return v[0].AddCMul(v[1], v[2], -0.5) }, "addcdiv": func(v vars) variable { return v[0].AddCDiv(v[1], v[2], -0.5) },
	"masked_fill": func(v vars) variable { return v[0].MaskedFill(v[1].To(tensor.Bool), 7) },
	"norm 2":      normOf(2, []int{1}, false), "norm 1": normOf(1, nil, false), "norm 3": normOf(3, []int{1}, false), "norm 1.5": normOf(1.5, []int{1}, false),
	"norm inf": normOf(math.Inf(1), []int{1}, false), "norm -inf": normOf(math.Inf(-1), []int{1}, false), "norm 0": normOf(0, nil, false),
	"prod": func(v vars) variable { return v[0].Prod([]int{1}, false) }, "prod all": func(v vars) variable { return v[0].Prod(nil, false) },
	"cumsum": func(v vars) variable {
		return v[0].CumSum(0).Mul(v[0].Graph().New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.FromSlice(e, []float64{0, 1, 2}, 3, 1) }))
	},
	"max": func(v vars) variable { return firstOf(v[0].MaxDim(1, false)) }, "min": func(v vars) variable { return firstOf(v[0].MinDim(0, false)) },
	"sort": func(v vars) variable { return arranged(firstOf(v[0].Sort(0, false))) },
	"topk": func(v vars) variable {
		return firstOf(v[0].TopK(2, 1, true)).Mul(v[0].Graph().New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Arange(e, 0, 2, 1, tensor.Float64) }))
	},
	"rotary halves": func(v vars) variable {
		return arranged(v[0].RotaryEmbedding(v[1].Cos(), v[1].Sin(), tensor.RotaryHalves))
	},
	"rotary interleaved": func(v vars) variable {
		return arranged(v[0].RotaryEmbedding(v[1].Cos(), v[1].Sin(), tensor.RotaryInterleaved))
	},
	"roll":         func(v vars) variable { return arranged(v[0].Roll([]int{1, -1}, []int{0, 1})) },
	"pad constant": around(tensor.PadConstant, 1, 2, 0, 1), "pad reflect": around(tensor.PadReflect, 3, 2, 1, 2),
	"pad replicate": around(tensor.PadReplicate, 3, 2, 1, 2), "pad circular": around(tensor.PadCircular, 3, 2, 1, 2),
	"repeat": func(v vars) variable { return arranged(v[0].Repeat(2, 1, 2)) }, "repeat_interleave": func(v vars) variable { return arranged(v[0].RepeatInterleave(3, 0)) },
	"einsum": func(v vars) variable { return autograd.Einsum("bij,bjk,k->bi", v...) }, "einsum trace": func(v vars) variable { return autograd.Einsum("ii,...i->...", v...) },
	"addmm": func(v vars) variable { return autograd.AddMM(v[0], v[1], v[2], 0.5, 2) }, "empty": func(v vars) variable { return v[0].CumSum(0).Flip(0).Tril(0).Sum(nil, false) },
	"add_": func(v vars) variable { return v[0].MulScalar(1).AddInPlace(v[1], 2) }, "mul_": func(v vars) variable { return v[0].MulScalar(1).MulInPlace(v[1]) },
	"lerp_":        func(v vars) variable { return v[0].MulScalar(1).LerpInPlace(v[1], v[2]) },
	"lerp_scalar_": func(v vars) variable { return v[0].MulScalar(1).LerpScalarInPlace(v[1], 0.3) },
	"div_":         func(v vars) variable { return v[0].MulScalar(1).DivInPlace(v[1]) }, "clamp_": func(v vars) variable { return v[0].MulScalar(1).ClampInPlace(-0.5, 1) },
}

func init() { maps.Copy(goldenFunctions, operationFunctions) }

// turned turns rows of floats by angles, which are ints.
func turned(pairs tensor.RotaryPairs) func(v vars) variable {
	return func(v vars) variable {
		angles := v[1].To(v[0].DType())
		return v[0].RotaryEmbedding(angles.Cos(), angles.Sin(), pairs)
	}
}
