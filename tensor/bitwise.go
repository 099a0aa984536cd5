package tensor

import "github.com/cistern-ml/cistern/kernels/op"

// Operations of the bits of integers, of which those without places to shift by are the logical ones of bools. Results of two tensors, which broadcast,
// have the promoted type; floating-point types are refused.

// BitwiseNot is the bits that t has not. Of bool it is Not.
func (t *Tensor) BitwiseNot() (*Tensor, error) {
	const name = "BitwiseNot"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	id, err := bitwiseNot.of(name, t.dtype)
	if err != nil {
		return nil, err
	}
	return unary(name, id, t, t.dtype, t.dtype, scalars{})
}

// BitwiseAnd is the bits that both t and u have. Of two bools it is And.
func (t *Tensor) BitwiseAnd(u *Tensor) (*Tensor, error) { return bitwiseAnd.run("BitwiseAnd", t, u) }

// BitwiseOr is the bits that t or u has. Of two bools it is Or.
func (t *Tensor) BitwiseOr(u *Tensor) (*Tensor, error) { return bitwiseOr.run("BitwiseOr", t, u) }

// BitwiseXor is the bits that exactly one of t and u has. Of two bools it is Xor.
func (t *Tensor) BitwiseXor(u *Tensor) (*Tensor, error) { return bitwiseXor.run("BitwiseXor", t, u) }

// BitwiseLeftShift is the bits of t, u places to the left; 0 of a negative number of places, and of as many as the type has bits. Not defined for two
// bools.
func (t *Tensor) BitwiseLeftShift(u *Tensor) (*Tensor, error) {
	return leftShift.run("BitwiseLeftShift", t, u)
}

// BitwiseRightShift is the bits of t, u places to the right: t divided by a power of 2 and rounded down. Of places as for BitwiseLeftShift nothing is left
// but the sign, which is 0 or -1.
func (t *Tensor) BitwiseRightShift(u *Tensor) (*Tensor, error) {
	return rightShift.run("BitwiseRightShift", t, u)
}

// BitwiseAndScalar is BitwiseAnd with a number, here and below one that is made of t's type, which wraps, as in PyTorch. Bools become int64.
func (t *Tensor) BitwiseAndScalar(v int64) (*Tensor, error) {
	return bitwiseAnd.withNumber("BitwiseAndScalar", t, v)
}

// BitwiseOrScalar is BitwiseOr with a number; see BitwiseAndScalar.
func (t *Tensor) BitwiseOrScalar(v int64) (*Tensor, error) {
	return bitwiseOr.withNumber("BitwiseOrScalar", t, v)
}

// BitwiseXorScalar is BitwiseXor with a number; see BitwiseAndScalar.
func (t *Tensor) BitwiseXorScalar(v int64) (*Tensor, error) {
	return bitwiseXor.withNumber("BitwiseXorScalar", t, v)
}

// BitwiseLeftShiftScalar is BitwiseLeftShift by a number of places; see BitwiseAndScalar.
func (t *Tensor) BitwiseLeftShiftScalar(places int64) (*Tensor, error) {
	return leftShift.withNumber("BitwiseLeftShiftScalar", t, places)
}

// BitwiseRightShiftScalar is BitwiseRightShift by a number of places; see BitwiseAndScalar.
func (t *Tensor) BitwiseRightShiftScalar(places int64) (*Tensor, error) {
	return rightShift.withNumber("BitwiseRightShiftScalar", t, places)
}

// bitwise is an operation of integers, and that of bools in its place if there is one.
type bitwise struct {
	id, ofBools op.ID
	hasBools    bool
}

var (
	bitwiseNot = bitwise{op.BitwiseNot, op.Not, true}
	bitwiseAnd = bitwise{op.BitwiseAnd, op.And, true}
	bitwiseOr  = bitwise{op.BitwiseOr, op.Or, true}
	bitwiseXor = bitwise{op.BitwiseXor, op.Xor, true}
	leftShift  = bitwise{id: op.BitwiseLeftShift}
	rightShift = bitwise{id: op.BitwiseRightShift}
)

// of is the operation of a type, dt; it refuses types that have none, in the words of the operands' types.
func (b bitwise) of(name string, dt DType, operands ...DType) (op.ID, error) {
	if len(operands) == 0 {
		operands = []DType{dt}
	}
	switch {
	case dt.IsInteger():
		return b.id, nil
	case !b.hasBools:
		return 0, dtypeErr(name, "needs an integer type", operands...)
	case dt != Bool:
		return 0, dtypeErr(name, "needs an integer type or bool", operands...)
	}
	return b.ofBools, nil
}

func (b bitwise) run(name string, t, u *Tensor) (*Tensor, error) {
	if err := together(name, t, u); err != nil {
		return nil, err
	}
	dt := ResultType(t, u)
	id, err := b.of(name, dt, t.dtype, u.dtype)
	if err != nil {
		return nil, err
	}
	return binary(name, id, t, u, dt, dt, scalars{})
}

func (b bitwise) withNumber(name string, t *Tensor, v int64) (*Tensor, error) {
	number, dt, err := b.number(name, t, v)
	if err != nil {
		return nil, err
	}
	defer number.Release()
	return binary(name, b.id, t, number, dt, dt, scalars{})
}

// number is v as a tensor of the type that the operation of t and a number has, dt.
func (b bitwise) number(name string, t *Tensor, v int64) (number *Tensor, dt DType, err error) {
	if err := usable(name, t); err != nil {
		return nil, dt, err
	}
	dt = withNumbers(t.dtype)
	if _, err := b.of(name, dt, t.dtype); err != nil {
		return nil, dt, err
	}
	number, err = alloc(name, t.exec.Owned(), dt, &layout{})
	if err != nil {
		return nil, dt, err
	}
	c := begin(op.Fill, number.exec)
	c.call.I[0] = v
	c.out(number, &number.layout)
	if err := c.run(name); err != nil {
		number.Release()
		return nil, dt, err
	}
	return number, dt, nil
}

// in runs the operation of t and u into t.
func (b bitwise) in(name string, t, u *Tensor) error {
	if err := together(name, t, u); err != nil {
		return err
	}
	id, err := b.of(name, ResultType(t, u), t.dtype, u.dtype)
	if err != nil {
		return err
	}
	return t.binaryInto(name, id, u)
}

// inWithNumber runs the operation of t and a number into t, which holds no result for bool.
func (b bitwise) inWithNumber(name string, t *Tensor, v int64) error {
	if t != nil && t.dtype == Bool {
		return dtypeErr(name, noFit, Bool)
	}
	number, _, err := b.number(name, t, v)
	if err != nil {
		return err
	}
	defer number.Release()
	return t.binaryInto(name, b.id, number)
}
