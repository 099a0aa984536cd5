package tensor

// Operations of bits in place. As in AddInPlace, the promoted type must not be of a higher category than t's.

// BitwiseNotInPlace replaces every element of t by BitwiseNot of it.
func (t *Tensor) BitwiseNotInPlace() error {
	const name = "BitwiseNotInPlace"
	if err := usable(name, t); err != nil {
		return err
	}
	id, err := bitwiseNot.of(name, t.dtype)
	if err != nil {
		return err
	}
	if err := t.writable(name); err != nil {
		return err
	}
	return t.unaryInPlace(name, id, scalars{})
}

// BitwiseAndInPlace replaces t by BitwiseAnd of it and u, which is broadcast to t's shape.
func (t *Tensor) BitwiseAndInPlace(u *Tensor) error { return bitwiseAnd.in("BitwiseAndInPlace", t, u) }

// BitwiseAndScalarInPlace replaces t, of integers, by BitwiseAndScalar of it.
func (t *Tensor) BitwiseAndScalarInPlace(v int64) error {
	return bitwiseAnd.inWithNumber("BitwiseAndScalarInPlace", t, v)
}

// BitwiseOrInPlace replaces t by BitwiseOr of it and u, which is broadcast to t's shape.
func (t *Tensor) BitwiseOrInPlace(u *Tensor) error { return bitwiseOr.in("BitwiseOrInPlace", t, u) }

// BitwiseOrScalarInPlace replaces t, of integers, by BitwiseOrScalar of it.
func (t *Tensor) BitwiseOrScalarInPlace(v int64) error {
	return bitwiseOr.inWithNumber("BitwiseOrScalarInPlace", t, v)
}

// BitwiseXorInPlace replaces t by BitwiseXor of it and u, which is broadcast to t's shape.
func (t *Tensor) BitwiseXorInPlace(u *Tensor) error { return bitwiseXor.in("BitwiseXorInPlace", t, u) }

// BitwiseXorScalarInPlace replaces t, of integers, by BitwiseXorScalar of it.
func (t *Tensor) BitwiseXorScalarInPlace(v int64) error {
	return bitwiseXor.inWithNumber("BitwiseXorScalarInPlace", t, v)
}

// BitwiseLeftShiftInPlace replaces t by BitwiseLeftShift of it and u, which is broadcast to t's shape.
func (t *Tensor) BitwiseLeftShiftInPlace(u *Tensor) error {
	return leftShift.in("BitwiseLeftShiftInPlace", t, u)
}

// BitwiseLeftShiftScalarInPlace replaces t, of integers, by BitwiseLeftShiftScalar of it.
func (t *Tensor) BitwiseLeftShiftScalarInPlace(v int64) error {
	return leftShift.inWithNumber("BitwiseLeftShiftScalarInPlace", t, v)
}

// BitwiseRightShiftInPlace replaces t by BitwiseRightShift of it and u, which is broadcast to t's shape.
func (t *Tensor) BitwiseRightShiftInPlace(u *Tensor) error {
	return rightShift.in("BitwiseRightShiftInPlace", t, u)
}

// BitwiseRightShiftScalarInPlace replaces t, of integers, by BitwiseRightShiftScalar of it.
func (t *Tensor) BitwiseRightShiftScalarInPlace(v int64) error {
	return rightShift.inWithNumber("BitwiseRightShiftScalarInPlace", t, v)
}
