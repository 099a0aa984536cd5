package autograd

import (
	"fmt"
	"slices"

	"github.com/cistern-ml/cistern/tensor"
)

var (
	addMV    = composite{name: "addmv"}
	addR     = composite{name: "addr"}
	inner    = composite{name: "inner"}
	vecDot   = composite{name: "linalg_vecdot"}
	bilinear = composite{name: "bilinear", wide: true, as: "bilinear"}
)

// plusScaled is beta*c + alpha*product; c is not read if beta is 0.
func plusScaled(c, product *Variable, beta, alpha float64) *Variable {
	if alpha != 1 {
		product = product.MulScalar(alpha)
	}
	switch beta {
	case 0:
		return product
	case 1:
		return product.Add(c)
	}
	return product.Add(c.MulScalar(beta))
}

// added refuses what does not broadcast to a product's shape.
func (c composite) added(v *Variable, shape tensor.Shape, all []*Variable) error {
	wide, err := tensor.BroadcastShapes(v.Shape(), shape)
	if err != nil || !wide.Equal(shape) {
		return c.shapes(fmt.Sprintf("the first does not broadcast to the product, %v", shape), all...)
	}
	return nil
}

// AddMV is beta*c + alpha * a @ x for a matrix a and a vector x, with c broadcast to the product's shape. If beta is 0, c is not read.
func AddMV(c, a, x *Variable, beta, alpha float64) *Variable {
	in := []*Variable{c, a, x}
	return addMV.run(in, func() error {
		if a.NDim() != 2 || x.NDim() != 1 || a.Dim(1) != x.Dim(0) {
			return addMV.shapes("a matrix, and a vector of as many elements as it has columns, are needed", in...)
		}
		return addMV.added(c, a.Shape()[:1], in)
	}, func(in []*Variable) *Variable { return plusScaled(in[0], in[1].MV(in[2]), beta, alpha) })
}

// AddR is beta*c + alpha times the outer product of two vectors, with c broadcast to its shape. If beta is 0, c is not read.
func AddR(c, x, y *Variable, beta, alpha float64) *Variable {
	in := []*Variable{c, x, y}
	return addR.run(in, func() error {
		if x.NDim() != 1 || y.NDim() != 1 {
			return addR.shapes("two vectors are needed", in...)
		}
		return addR.added(c, tensor.Shape{x.Len(), y.Len()}, in)
	}, func(in []*Variable) *Variable { return plusScaled(in[0], in[1].Outer(in[2]), beta, alpha) })
}

// Inner is the sums of products along the last dimension of both; of a variable without dimensions it is the product.
func (v *Variable) Inner(u *Variable) *Variable {
	return inner.run([]*Variable{v, u}, func() error {
		if v.NDim() > 0 && u.NDim() > 0 && v.Dim(-1) != u.Dim(-1) {
			return inner.shapes("the last dimensions differ", v, u)
		}
		return nil
	}, func(in []*Variable) *Variable {
		a, b := in[0], in[1]
		if a.NDim() == 0 || b.NDim() == 0 {
			return a.Mul(b)
		}
		return a.TensorDot(b, []int{a.NDim() - 1}, []int{b.NDim() - 1})
	})
}

// VecDot is the sums of products along dim; the two broadcast, and dim is one of the result's (linalg.vecdot, whose default is the last).
func (v *Variable) VecDot(u *Variable, dim int) *Variable {
	return vecDot.pair(v, u, func(vs ...*Variable) error {
		shape, _ := tensor.BroadcastShapes(v.Shape(), u.Shape())
		if n := max(len(shape), 1); dim < -n || dim >= n {
			return vecDot.shapes(fmt.Sprintf("there is no dimension %d", dim), vs...)
		}
		return nil
	}, func(v, u *Variable) *Variable { return v.Mul(u).Sum([]int{dim}, false) })
}

// Bilinear is x1 * weight * x2 for the last dimensions of two variables, with weights [out, in1, in2], plus bias [out] unless that is nil; the other dimensions are
// the same in both.
func Bilinear(x1, x2, weight, bias *Variable) *Variable {
	in := []*Variable{x1, x2, weight}
	if bias != nil {
		in = append(in, bias)
	}
	c := bilinear
	return c.run(in, func() error {
		n := x1.NDim()
		if n == 0 || x2.NDim() != n || weight.NDim() != 3 || !slices.Equal(x1.Shape()[:n-1], x2.Shape()[:n-1]) ||
			x1.Dim(-1) != weight.Dim(1) || x2.Dim(-1) != weight.Dim(2) || bias != nil && !bias.Shape().Equal(tensor.Shape{weight.Dim(0)}) {
			return c.shapes("inputs are [..., in1] and [..., in2], weights [out, in1, in2] and the bias [out]", in...)
		}
		return nil
	}, func(in []*Variable) *Variable {
		lead := x1.Shape()[:x1.NDim()-1].Clone()
		rows := lead.Len()
		y := Einsum("ni,oij,nj->no", in[0].Reshape(rows, x1.Dim(-1)), in[2], in[1].Reshape(rows, x2.Dim(-1)))
		y = y.Reshape(append(lead, weight.Dim(0))...)
		if len(in) > 3 {
			y = y.Add(in[3])
		}
		return y
	})
}
