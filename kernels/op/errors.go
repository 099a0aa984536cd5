package op

import (
	"errors"
	"fmt"
)

// Sentinels for errors.Is. Every error of this package and of the kernels themselves is an *Error that matches one.
var (
	// ErrCall: the call does not have the views, types, shapes or scalars that the specification of its operation asks for.
	ErrCall = errors.New("malformed call")
	// ErrIndex: an element of an index or class tensor is outside the dimension it points into.
	ErrIndex = errors.New("index out of range")
)

// Error is a call that cannot be carried out.
type Error struct {
	Op     ID
	Detail string // the values that explain it
	Err    error  // ErrCall or ErrIndex
}

// Error returns one line: operation, what is wrong, and the values.
func (e *Error) Error() string { return fmt.Sprintf("%s: %v: %s", e.Op, e.Err, e.Detail) }

// Unwrap returns the sentinel, for errors.Is.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an *Error for the operation id with a formatted Detail.
func Errorf(id ID, sentinel error, format string, args ...any) *Error {
	return &Error{Op: id, Detail: fmt.Sprintf(format, args...), Err: sentinel}
}

// Outside says where a number must be that is not in 0..size-1, or, with the given words, that there is nothing to be in.
func Outside(size int64, nothing string) string {
	if size <= 0 {
		return "is none: " + nothing
	}
	return fmt.Sprintf("is not in 0..%d", size-1)
}
