package tensor

import "github.com/cistern-ml/cistern/internal/plural"

// TensorDot sums the products of t and u over pairs of dimensions: those of t in dims, and those of u in others. The result has the other
// dimensions of t, then those of u. Both have one floating-point type.
func (t *Tensor) TensorDot(u *Tensor, dims, others []int) (*Tensor, error) {
	const name = "TensorDot"
	if err := sameFloat(name, t, u); err != nil {
		return nil, err
	}
	text, err := gradients{}.TensorDotEquation(t.Shape(), u.Shape(), dims, others)
	if err != nil {
		return nil, err
	}
	return einsum(name, text, []*Tensor{t, u})
}

// TensorDotEquation is the equation for Einsum that does what TensorDot does with operands of these shapes.
func (gradients) TensorDotEquation(t, u Shape, dims, others []int) (string, error) {
	const name = "TensorDot"
	shapes := []Shape{t, u}
	if len(dims) != len(others) {
		return "", shapeErr(name, shapes, "%s of one and %d of the other", plural.Of(len(dims), "dimension"), len(others))
	}
	var layouts [2]layout
	for s, shape := range shapes {
		var err error
		if layouts[s], err = newLayout(name, shape); err != nil {
			return "", err
		}
	}
	letters := [2][]byte{make([]byte, len(t)), make([]byte, len(u))}
	for k := range dims {
		c := byte('A' + k)
		for s, d := range []int{dims[k], others[k]} {
			i, err := layouts[s].axis(name, d)
			if err != nil {
				return "", err
			}
			if len(shapes[s]) == 0 || letters[s][i] != 0 {
				return "", shapeErr(name, shapes, "dimension %d is named twice, or of a scalar", d)
			}
			letters[s][i] = c
		}
	}
	next, out := byte('a'), []byte{}
	for s := range letters {
		for i, c := range letters[s] {
			if c == 0 {
				letters[s][i] = next
				out = append(out, next)
				next++
			}
		}
	}
	return string(letters[0]) + "," + string(letters[1]) + "->" + string(out), nil
}
