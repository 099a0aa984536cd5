package autograd_test

import (
	"testing"

	"github.com/cistern-ml/cistern/autograd"
)

// basicFunctions compute what testdata/basic.py does.
var basicFunctions = map[string]func(v vars) *autograd.Variable{}

// basic adds functions whose results are multiplied by 0, 1, 2, ..., and those of cases of edge values, which are not.
func basic(name string, f func(v vars) *autograd.Variable) {
	basicFunctions[name] = func(v vars) *autograd.Variable { return arranged(f(v)) }
	basicFunctions[name+" edge"] = f
}

func init() {
	one := func(name string, f func(v *autograd.Variable) *autograd.Variable) {
		basic(name, func(v vars) *autograd.Variable { return f(v[0]) })
	}
	two := func(name string, f func(a, b *autograd.Variable) *autograd.Variable) {
		basic(name, func(v vars) *autograd.Variable { return f(v[0], v[1]) })
	}
	type V = *autograd.Variable
	one("exp", V.Exp)
	one("sin", V.Sin)
	one("cos", V.Cos)
	one("tanh", V.Tanh)
	one("neg", V.Neg)
	one("add_scalar", func(v V) V { return v.AddScalar(1.5) })
	one("sub_scalar", func(v V) V { return v.SubScalar(1.5) })
	one("mul_scalar", func(v V) V { return v.MulScalar(1.5) })
	one("mean", func(v V) V { return v.Mean([]int{1}, false) })
	one("mean all", func(v V) V { return v.Mean(nil, false) })
	one("sum", func(v V) V { return v.Sum([]int{0}, false) })
	basic("log_softmax", func(v vars) V { return v[0].LogSoftmax(-1) })
	two("add", V.Add)
	two("sub", V.Sub)
	two("mul", V.Mul)
	two("matmul", V.MatMul)
	two("mm", V.MM)
	two("bmm", V.BMM)
	two("mv", V.MV)
	two("dot", V.Dot)
	two("outer", V.Outer)
	two("linear", func(a, b V) V { return a.Linear(b, nil) })
	two("tensordot", func(a, b V) V { return a.TensorDot(b, []int{-1}, []int{0}) })
	basic("baddbmm", func(v vars) V { return autograd.BAddBMM(v[0], v[1], v[2], 1, 1) })
	one("permute", func(v V) V { return v.Permute(2, 0, 1) })
	one("transpose", func(v V) V { return v.Transpose(0, 1) })
	one("t", V.T)
	one("reshape", func(v V) V { return v.T().Reshape(6) })
	one("view", func(v V) V { return v.View(3, 2) })
	one("flatten", func(v V) V { return v.Flatten(1, 2) })
	one("squeeze", func(v V) V { return v.Squeeze() })
	one("unsqueeze", func(v V) V { return v.Unsqueeze(1) })
	one("expand", func(v V) V { return v.Expand(4, 2, 3) })
	one("slice", func(v V) V { return v.Slice(1, 0, 3, 2) })
	one("narrow", func(v V) V { return v.Narrow(1, 1, 2) })
	one("select", func(v V) V { return v.Select(1, 2) })
	one("flip", func(v V) V { return v.Flip(0, 1) })
	one("movedim", func(v V) V { return v.MoveDim(0, 2) })
	one("tril", func(v V) V { return v.Tril(0) })
	one("triu", func(v V) V { return v.Triu(1) })
	one("diagonal", func(v V) V { return v.Diagonal(0, 0, 1) })
	one("diag_embed", func(v V) V { return v.DiagEmbed(0) })
	two("cat", func(a, b V) V { return autograd.Cat(vars{a, b}, 1) })
	two("stack", func(a, b V) V { return autograd.Stack(vars{a, b}, 1) })
	two("index_select", func(v, i V) V { return v.IndexSelect(1, i) })
}

func TestBasics_AreThoseOfPyTorch(t *testing.T) { checkBasics(t, onHost) }

func checkBasics(t *testing.T, rigOf func(*testing.T) *rig) {
	checkFile(t, "basic.json", rigOf, basicFunctions, func(out *autograd.Variable) *autograd.Variable { return out })
}
