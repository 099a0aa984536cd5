package matrix

import (
	"fmt"
	"slices"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
	"github.com/cistern-ml/cistern/tensor/linalg"
)

// MatrixExp is the exponential, the sum of a^k/k!, of square matrices [..., n, n]. Saves a.
func MatrixExp(a *autograd.Variable) *autograd.Variable { return matrixExp.Apply(none{}, a) }

// The gradient is the upper right block of the exponential of [[aT, grad], [0, aT]].
var matrixExp = autograd.Function[none]{
	Name: "linalg_matrix_exp",
	Forward: func(c *context, _ none, in []*tensor.Tensor) (*tensor.Tensor, error) {
		c.Save(in[0])
		return linalg.MatrixExp(in[0])
	},
	Backward: func(c *context, _ none, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
		var w work
		at := w.flipped(c.Saved(0))
		n := at.Dim(-1)
		above, below := w.beside(at, grad), w.beside(w.orZeros(nil, grad), at)
		all := w.of(linalg.MatrixExp(w.flipped(w.beside(w.flipped(above), w.flipped(below)))))
		return w.ends(w.of(w.of(all.Narrow(-2, 0, n)).Narrow(-1, n, n)))
	},
}

// MatrixNorm is a norm of matrices [..., m, n], as [...]; the orders are those of linalg.MatrixNorm.
func MatrixNorm(a *autograd.Variable, order string) *autograd.Variable {
	const op = "linalg_matrix_norm"
	norm := norms[order]
	if norm == nil {
		return refuse(op, &tensor.ValueError{Op: op, Detail: fmt.Sprintf("order %.20q; want fro, nuc, 2, -2, 1, -1, inf or -inf", order)}, a)
	}
	if err := floats(op, a, false); err != nil {
		return refuse(op, err, a)
	}
	if usable(a) && a.Dim(-1)*a.Dim(-2) == 0 && order != "fro" && order != "nuc" {
		return refuse(op, &tensor.ShapeError{Op: op, Shapes: []tensor.Shape{a.Shape().Clone()}, Detail: "a matrix without elements has no such norm"}, a)
	}
	return scoped(a, func() *autograd.Variable { return norm(a) })
}

var (
	last  = []int{-1}
	norms = map[string]func(a *autograd.Variable) *autograd.Variable{
		"fro":  func(a *autograd.Variable) *autograd.Variable { return a.Norm(2, []int{-2, -1}, false) },
		"nuc":  func(a *autograd.Variable) *autograd.Variable { return SVDVals(a).Sum(last, false) },
		"2":    func(a *autograd.Variable) *autograd.Variable { return SVDVals(a).Max(last, false) },
		"-2":   func(a *autograd.Variable) *autograd.Variable { return SVDVals(a).Min(last, false) },
		"1":    func(a *autograd.Variable) *autograd.Variable { return a.Norm(1, []int{-2}, false).Max(last, false) },
		"-1":   func(a *autograd.Variable) *autograd.Variable { return a.Norm(1, []int{-2}, false).Min(last, false) },
		"inf":  func(a *autograd.Variable) *autograd.Variable { return a.Norm(1, last, false).Max(last, false) },
		"-inf": func(a *autograd.Variable) *autograd.Variable { return a.Norm(1, last, false).Min(last, false) },
	}
)

// MatrixPower is the product of n times a, for square matrices [..., m, m]; a negative n is of the inverse, and 0 gives the identity.
func MatrixPower(a *autograd.Variable, n int) *autograd.Variable {
	const op = "linalg_matrix_power"
	if err := floats(op, a, true); err != nil {
		return refuse(op, err, a)
	}
	return scoped(a, func() *autograd.Variable {
		if n == 0 {
			g := a.Graph()
			return a.MaskedFill(g.Ones(tensor.Bool, 1), 0).Add(g.Eye(a.DType(), a.Dim(-1))) // whose gradient is 0
		}
		square := a
		if n < 0 {
			square = Inv(a)
		}
		return powered(square, uint(max(n, -n)))
	})
}

// powered squares and multiplies.
func powered(square *autograd.Variable, n uint) (product *autograd.Variable) {
	for ; ; square = square.MatMul(square) {
		if n&1 == 1 && product == nil {
			product = square
		} else if n&1 == 1 {
			product = product.MatMul(square)
		}
		if n >>= 1; n == 0 {
			return product
		}
	}
}

// MultiDot is the product of two or more matrices, in the order that takes the fewest multiplications. The first may be a vector, as a row, and the last,
// as a column.
func MultiDot(vs ...*autograd.Variable) *autograd.Variable {
	const op = "linalg_multi_dot"
	if slices.ContainsFunc(vs, func(v *autograd.Variable) bool { return !usable(v) }) {
		return autograd.Cat(vs, 0) // which says what is wrong
	}
	if err := chains(op, vs); err != nil {
		return refuse(op, err, vs...)
	}
	return scoped(vs[0], func() *autograd.Variable {
		vs, row, column := slices.Clone(vs), vs[0].NDim() == 1, vs[len(vs)-1].NDim() == 1
		if row {
			vs[0] = vs[0].Unsqueeze(0)
		}
		if column {
			vs[len(vs)-1] = vs[len(vs)-1].Unsqueeze(1)
		}
		out := inOrder(vs)
		if column {
			out = out.Squeeze(1)
		}
		if row {
			out = out.Squeeze(0)
		}
		return out
	})
}

// chains refuses what has no product.
func chains(op string, vs []*autograd.Variable) error {
	var shapes []tensor.Shape
	for _, v := range vs {
		shapes = append(shapes, v.Shape().Clone())
	}
	wrong := func(detail string) error { return &tensor.ShapeError{Op: op, Shapes: shapes, Detail: detail} }
	if len(vs) < 2 {
		return wrong("two matrices or more are needed")
	}
	for i, s := range shapes {
		if len(s) != 2 && (len(s) != 1 || i != 0 && i != len(vs)-1) {
			return wrong("all must be matrices; the first and the last may be vectors")
		}
		if i > 0 && shapes[i-1][len(shapes[i-1])-1] != s[0] {
			return wrong("each must have as many rows as the one before it has columns")
		}
	}
	return nil
}

// inOrder is the product of matrices, split where it takes the fewest multiplications.
func inOrder(vs []*autograd.Variable) *autograd.Variable {
	n := len(vs)
	cost, split := make([][]float64, n), make([][]int, n)
	for i := range n {
		cost[i], split[i] = make([]float64, n), make([]int, n)
	}
	for span := 1; span < n; span++ {
		for i := range n - span {
			k := i + span
			for at := i; at < k; at++ {
				c := cost[i][at] + cost[at+1][k] + float64(vs[i].Dim(0))*float64(vs[at].Dim(1))*float64(vs[k].Dim(1))
				if at == i || c < cost[i][k] {
					cost[i][k], split[i][k] = c, at
				}
			}
		}
	}
	var product func(i, k int) *autograd.Variable
	product = func(i, k int) *autograd.Variable {
		if i == k {
			return vs[i]
		}
		return product(i, split[i][k]).MM(product(split[i][k]+1, k))
	}
	return product(0, n-1)
}

// usable is false for what the first operation refuses.
func usable(v *autograd.Variable) bool { return v != nil && v.Graph() != nil && v.Alive() }

// floats refuses what is no matrix of float32 or float64, or not square.
func floats(op string, a *autograd.Variable, square bool) error {
	shape := []tensor.Shape{a.Shape().Clone()}
	switch dt := a.DType(); {
	case !usable(a):
	case dt != tensor.Float32 && dt != tensor.Float64:
		return &tensor.DTypeError{Op: op, DTypes: []tensor.DType{dt}, Detail: "matrices must be float32 or float64: convert with To"}
	case a.NDim() < 2:
		return &tensor.ShapeError{Op: op, Shapes: shape, Detail: "a matrix has two dimensions"}
	case square && a.Dim(-1) != a.Dim(-2):
		return &tensor.ShapeError{Op: op, Shapes: shape, Detail: "the matrix must be square"}
	}
	return nil
}

func refuse(op string, err error, in ...*autograd.Variable) *autograd.Variable {
	for _, v := range in {
		if g := v.Graph(); g != nil {
			return g.Refuse(op, err, in...)
		}
	}
	return nil
}

// scoped is f, whose temporaries go with it.
func scoped(a *autograd.Variable, f func() *autograd.Variable) *autograd.Variable {
	if !usable(a) {
		return a.Detach() // which says what is wrong
	}
	return a.Graph().Scope(f)
}
