package autograd

import (
	"fmt"
	"slices"

	"github.com/cistern-ml/cistern/tensor"
)

var (
	trace = composite{name: "trace"}
	kron  = composite{name: "kron"}
	cross = composite{name: "cross"}
)

// Trace is the sum of the diagonal of a matrix.
func (v *Variable) Trace() *Variable {
	return trace.run([]*Variable{v}, func() error {
		if v.NDim() != 2 {
			return trace.shapes("a matrix has two dimensions", v)
		}
		return nil
	}, func(in []*Variable) *Variable { return in[0].Diagonal(0, 0, 1).Sum(nil, false) })
}

// Kron is the Kronecker product: each element of v times all of u, in its place. The one with fewer dimensions gets some of 1 element before its own.
func (v *Variable) Kron(u *Variable) *Variable {
	n := 0
	return kron.run([]*Variable{v, u}, func() error {
		if n = max(v.NDim(), u.NDim()); 2*n > tensor.MaxDims {
			return kron.shapes(fmt.Sprintf("there are at most %d dimensions", tensor.MaxDims/2), v, u)
		}
		return nil
	}, func(in []*Variable) *Variable {
		sizes := make([]int, n)
		var sides [2][]int
		for i, x := range in {
			shape := slices.Concat(slices.Repeat([]int{1}, n-x.NDim()), x.Shape())
			for d := range n {
				pair := [2]int{1, 1}
				pair[i] = shape[d]
				sides[i] = append(sides[i], pair[:]...)
				sizes[d] = max(sizes[d], 1-i) * shape[d]
			}
		}
		return in[0].Reshape(sides[0]...).Mul(in[1].Reshape(sides[1]...)).Reshape(sizes...)
	})
}

// Cross is the cross product of the vectors of three elements along dim; the two broadcast, and dim is one of the result's (linalg.cross, whose default
// is the last).
func (v *Variable) Cross(u *Variable, dim int) *Variable {
	var shape tensor.Shape
	return cross.run([]*Variable{v, u}, func() error {
		if err := cross.broadcast(v, u); err != nil {
			return err
		}
		shape, _ = tensor.BroadcastShapes(v.Shape(), u.Shape())
		if n := len(shape); n == 0 || dim < -n || dim >= n || shape[(dim+n)%n] != 3 {
			return cross.shapes(fmt.Sprintf("dimension %d has not 3 elements", dim), v, u)
		}
		return nil
	}, func(in []*Variable) *Variable {
		a, b := in[0].Expand(shape...), in[1].Expand(shape...)
		turned := func(x *Variable, by int) *Variable { return x.Roll([]int{-by}, []int{dim}) }
		return turned(a, 1).Mul(turned(b, 2)).Sub(turned(a, 2).Mul(turned(b, 1)))
	})
}
