package autograd_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// sharedUse is what came of a case: its result, or the error, and the gradients of its inputs, nil where there is none.
type sharedUse struct {
	err   error
	dtype tensor.DType
	shape string
	out   []float64
	grads [][]float64
}

// with runs a case with input i in the place of input j: the same variable, or another one of the same values.
func (c gradientCase) with(r *rig, i, j int, shared bool) (u sharedUse) {
	g := r.graph(autograd.WithGenerator(tensor.NewGenerator(7)))
	defer g.Release()
	inputs := c.make(r)
	inputs[j] = inputs[i]
	in := make(vars, len(inputs))
	for k, x := range inputs {
		if k == j && shared {
			continue
		}
		if in[k] = g.Input(x); x.DType().IsFloat() {
			in[k] = g.Input(keep(r.t)(x.Clone()), autograd.RequiresGrad())
		}
	}
	if shared {
		in[j] = in[i]
	}
	out := c.f(in).Keep()
	u.dtype, u.shape = out.DType(), out.Shape().String()
	if u.err = g.Err(); u.err != nil || !out.DType().IsFloat() {
		return u
	}
	// Each element counts in its own way.
	weights := keep(r.t)(tensor.RandN(r.exec, tensor.NewGenerator(3), out.DType(), out.Shape()...))
	if u.err = out.Backward(autograd.WithGradient(weights)); u.err != nil {
		return u
	}
	u.out = valuesOf(r.t, out)
	for _, v := range in {
		var grad []float64
		if v.Grad() != nil {
			grad = values(r.t, v.Grad())
		}
		u.grads = append(u.grads, grad)
	}
	return u
}

// sumOfGrads adds gradients; nil is none.
func sumOfGrads(a, b []float64) []float64 {
	if a == nil || b == nil {
		return slices.Concat(a, b)
	}
	s := slices.Clone(a)
	for i := range s {
		s[i] += b[i]
	}
	return s
}

// alikeCases have inputs of one shape, where those of gradientCases differ.
var alikeCases = []gradientCase{
	{op: "linear_bias", f: func(v vars) *autograd.Variable { return v[0].Linear(v[1], v[2]) }, shapes: [][]int{{3}, {3, 3}, {3}}},
	{op: "linear_bias", note: "matrix", f: func(v vars) *autograd.Variable { return v[0].LinearGELU(v[1], v[2]) }, shapes: [][]int{{3, 3}, {3, 3}, {3}}},
	{op: "matmul", f: matMul, shapes: [][]int{{3, 3}, {3, 3}}},
	{op: "bmm", f: func(v vars) *autograd.Variable { return v[0].BMM(v[1]) }, shapes: [][]int{{2, 3, 3}, {2, 3, 3}}},
	{op: "addmm", f: func(v vars) *autograd.Variable { return autograd.AddMM(v[0], v[1], v[2], 2, 3) }, shapes: [][]int{{3, 3}, {3, 3}, {3, 3}}},
	{op: "baddbmm", f: func(v vars) *autograd.Variable { return autograd.BAddBMM(v[0], v[1], v[2], 2, 3) },
		shapes: [][]int{{2, 3, 3}, {2, 3, 3}, {2, 3, 3}}},
	{op: "conv2d", f: func(v vars) *autograd.Variable { return v[0].Conv2d(v[1], nil, tensor.Conv{Padding: []int{1}}) }, shapes: [][]int{{2, 2, 3, 3}, {2, 2, 3, 3}}},
	{op: "conv_transpose2d", f: func(v vars) *autograd.Variable { return v[0].ConvTranspose2d(v[1], nil, tensor.ConvTranspose{}) },
		shapes: [][]int{{2, 2, 3, 3}, {2, 2, 3, 3}}},
	{op: "layer_norm_weight", f: func(v vars) *autograd.Variable { return v[0].LayerNorm([]int{3}, v[1], v[2], 1e-5) }, shapes: [][]int{{3}, {3}, {3}}},
	{op: "rms_norm_weight", f: func(v vars) *autograd.Variable { return v[0].RMSNorm([]int{3}, v[1], 1e-5) }, shapes: [][]int{{3}, {3}}},
	{op: "scaled_dot_product_attention", note: "with a mask", f: func(v vars) *autograd.Variable {
		return autograd.ScaledDotProductAttention(v[0], v[1], v[2], autograd.AttnMask(v[3].Detach()))
	}, shapes: [][]int{{2, 3, 3}, {2, 3, 3}, {2, 3, 3}, {2, 3, 3}}},
}

// An operation that finds the same variable in two places may take a way of its own, as attention does with itself.
func TestOperations_OfOneVariableTwiceAreThoseOfCopies(t *testing.T) {
	together := map[string]bool{}
	for _, c := range slices.Concat(gradientCases, plainCases, alikeCases) {
		r := onHost(t)
		n := len(c.make(r))
		for i := range n {
			for j := i + 1; j < n; j++ {
				what := fmt.Sprintf("%s %s, input %d as input %d", c.op, c.note, i, j)
				one, two := c.with(r, i, j, true), c.with(r, i, j, false)
				require.Equal(t, two.err == nil, one.err == nil, "%s: %v, of a copy %v", what, one.err, two.err)
				if one.err != nil {
					continue
				}
				together[c.op] = true
				require.Equal(t, two.dtype, one.dtype, what)
				require.Equal(t, two.shape, one.shape, what)
				near(t, what, two.out, one.out, 1e-9)
				for k := range one.grads {
					want := two.grads[k]
					if k == i || k == j {
						want = sumOfGrads(two.grads[i], two.grads[j])
					}
					near(t, what+": gradient", want, one.grads[k], 1e-9)
				}
			}
		}
	}
	require.Greater(t, len(together), 60, "%v", together)
}
