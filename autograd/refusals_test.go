package autograd_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// oddShapes are put in the place of the shape of each input in turn. Hardly an operation of several inputs takes them all.
var oddShapes = []tensor.Shape{{}, {0}, {1}, {7}, {2, 0}, {7, 5}, {5, 7, 2}, {2, 3, 2, 3, 2}}

// use runs a case on inputs of the given types and shapes, forward and, if that goes well, backward.
func (c gradientCase) use(r *rig, in []autograd.Operand) error {
	g := r.graph(autograd.WithGenerator(tensor.NewGenerator(1)))
	defer g.Release()
	v := make(vars, len(in))
	for i, o := range in {
		x, err := tensor.Zeros(r.exec, o.DType, o.Shape...)
		require.NoError(r.t, err)
		defer x.Release()
		if v[i] = g.Input(x); o.DType.IsFloat() {
			v[i] = g.Input(x, autograd.RequiresGrad())
		}
	}
	out := c.f(v)
	if g.Err() != nil || !out.DType().IsFloat() {
		return g.Err()
	}
	if err := out.Sum(nil, false).Backward(); !errors.Is(err, autograd.ErrNoGrad) {
		return err
	}
	return nil
}

// specs are the types and shapes of a case's inputs.
func (c gradientCase) specs(t *testing.T) []autograd.Operand {
	r := onHost(t)
	var list []autograd.Operand
	for _, x := range c.make(r) {
		list = append(list, autograd.Operand{DType: x.DType(), Shape: x.Shape().Clone()})
	}
	return list
}

// plainCases use the operations without gradients, which are no gradientCases.
var plainCases = []gradientCase{
	two("eq", variable.Eq, []int{2, 3}, []int{3}), two("ne", variable.Ne, []int{2, 3}, []int{3}), two("lt", variable.Lt, []int{2, 3}, []int{3}),
	two("le", variable.Le, []int{2, 3}, []int{3}), two("gt", variable.Gt, []int{2, 3}, []int{3}), two("ge", variable.Ge, []int{2, 3}, []int{3}),
	two("logical_and", variable.And, []int{2, 3}, []int{3}), two("logical_or", variable.Or, []int{2, 3}, []int{3}),
	two("logical_xor", variable.Xor, []int{2, 3}, []int{3}),
	twoOfBits("bitwise_and", variable.BitwiseAnd),
	twoOfBits("bitwise_or", variable.BitwiseOr),
	twoOfBits("bitwise_xor", variable.BitwiseXor),
	twoOfBits("bitwise_left_shift", variable.BitwiseLeftShift),
	twoOfBits("bitwise_right_shift", variable.BitwiseRightShift),
}

// twoOfBits is two for integers.
func twoOfBits(op string, f func(a, b variable) variable) gradientCase {
	return gradientCase{op: op, f: func(v vars) variable { return f(v[0], v[1]) }, inputs: func(r *rig) []*tensor.Tensor {
		return []*tensor.Tensor{r.ints([]int64{1, 2, 3, 4, 5, 6}, 2, 3), r.ints([]int64{1, 2, 3})}
	}}
}

// ofOneVariable are the others: none has two inputs that might not go together.
var ofOneVariable = []string{
	"bitwise_not", "bitwise_and_scalar", "bitwise_or_scalar", "bitwise_xor_scalar", "bitwise_left_shift_scalar", "bitwise_right_shift_scalar",
	"all", "any", "argmax", "argmin", "argsort", "count_nonzero", "eq_scalar", "ge_scalar", "gt_scalar", "isfinite", "isinf", "isnan", "le_scalar",
	"logical_not", "lt_scalar", "ne_scalar", "one_hot",
}

// made are names in errors of methods that are made of other operations.
var made = []string{"chunk", "diag", "mt", "split", "unbind"}

func TestOperations_RefuseShapesThatDoNotFit_WithNameAndShapes_AndKeepNothing(t *testing.T) {
	names := append(autograd.Operations(), made...)
	several, refused := map[string]bool{}, map[string]bool{}
	r := onSim(t)
	for _, c := range slices.Concat(gradientCases, plainCases) {
		specs := c.specs(t)
		several[c.op] = several[c.op] || len(specs) > 1
		require.NoError(t, c.use(r, specs), "%s %s", c.op, c.note)
		for i := range specs {
			for _, shape := range oddShapes {
				in := slices.Clone(specs)
				in[i].Shape = shape
				what := fmt.Sprintf("%s %s of %v", c.op, c.note, in)
				err := c.use(r, in)
				require.Zero(t, r.allocated(), what)
				if err == nil {
					continue
				}
				var op *autograd.OpError
				require.ErrorAs(t, err, &op, what)
				require.Contains(t, names, op.Op, what)
				require.NotEmpty(t, op.Operands, what)
				require.True(t, op.Site.Known(), what)
				require.False(t, op.Backward, "forward takes what backward does not: %s: %v", what, err)
				if op.Op == c.op && slices.ContainsFunc(op.Operands, func(o autograd.Operand) bool { return o.Shape.Equal(shape) }) {
					refused[c.op] = true
				}
			}
		}
	}
	for name, some := range several {
		require.True(t, refused[name] || !some, "%s takes whatever shapes its inputs have", name)
	}
	for _, name := range autograd.Operations() {
		_, walked := several[name]
		require.NotEqual(t, walked, slices.Contains(ofOneVariable, name), "%s", name)
	}
}

func TestBinaryCrossEntropies_DoNotBroadcast(t *testing.T) {
	for name, loss := range map[string]func(p, target *autograd.Variable) *autograd.Variable{
		"probabilities": func(p, target *autograd.Variable) *autograd.Variable {
			return p.BCELoss(target, autograd.MeanReduction)
		},
		"logits": func(p, target *autograd.Variable) *autograd.Variable {
			return p.BCEWithLogitsLoss(target, autograd.SumReduction)
		},
		"weighted": func(p, target *autograd.Variable) *autograd.Variable {
			return p.BCEWithLogitsLoss(target, autograd.MeanReduction, autograd.PosWeight(p.Detach()))
		},
	} {
		r := onHost(t)
		g := r.graph()
		p := g.Input(r.tensor([]float64{0.1, 0.2, 0.3}, 3, 1), autograd.RequiresGrad())
		loss(p, g.Input(r.tensor([]float64{0, 1, 1}, 3)))
		var shape *tensor.ShapeError
		require.ErrorAs(t, g.Err(), &shape, name)
		require.Equal(t, []tensor.Shape{{3, 1}, {3}}, shape.Shapes, name)
		g.Release()
	}
}
