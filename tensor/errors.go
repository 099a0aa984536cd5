package tensor

import (
	stderrors "errors"
	"fmt"
	"strings"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
)

// ErrReleased is what every *ReleasedError matches with errors.Is.
var ErrReleased = stderrors.New("use after Release")

// ErrIndex is what an index matches, with errors.Is, that is not in the dimension that it is for.
var ErrIndex = op.ErrIndex

// ShapeError says that an operation cannot take the shapes, or the dimension, that it was given.
type ShapeError struct {
	Op     string  // the operation, as in "MatMul"
	Shapes []Shape // of the operands, in the order of the operation's arguments
	Detail string  // what does not fit, with the values
}

// Error returns one line, as in "tensor: MatMul: [2, 3] and [4, 5]: inner dimensions differ (3 and 4)".
func (e *ShapeError) Error() string {
	names := make([]string, len(e.Shapes))
	for i, s := range e.Shapes {
		names[i] = s.String()
	}
	return describe(e.Op, names, e.Detail)
}

// DTypeError says that an operation does not take the element types that it was given.
type DTypeError struct {
	Op     string
	DTypes []DType // of the operands, in the order of the operation's arguments
	Detail string
}

// Error returns one line, as in "tensor: Mean: int64: needs a floating-point type".
func (e *DTypeError) Error() string {
	names := make([]string, len(e.DTypes))
	for i, d := range e.DTypes {
		names[i] = d.String()
	}
	return describe(e.Op, names, e.Detail)
}

// DeviceError says that the operands of an operation are on devices that do not go together.
type DeviceError struct {
	Op      string
	Devices []device.ID
	Detail  string
}

// Error returns one line, as in "tensor: Add: host and cuda:0: operands are on different devices".
func (e *DeviceError) Error() string {
	names := make([]string, len(e.Devices))
	for i, d := range e.Devices {
		names[i] = d.String()
	}
	return describe(e.Op, names, e.Detail)
}

// ValueError says that an argument which is neither a tensor nor a shape has a value that the operation does not take.
type ValueError struct {
	Op     string
	Detail string // the argument, its value, and what is allowed
}

// Error returns one line, as in "tensor: Arange: step is 0".
func (e *ValueError) Error() string { return describe(e.Op, nil, e.Detail) }

// ReleasedError says that an operation was given a handle on which Release had been called, or nil.
type ReleasedError struct {
	Op  string
	Nil bool // there never was a tensor
}

// Error returns one line, as in "tensor: Add: use after Release".
func (e *ReleasedError) Error() string {
	if e.Nil {
		return describe(e.Op, nil, "the tensor is nil")
	}
	return describe(e.Op, nil, ErrReleased.Error())
}

// Unwrap returns ErrReleased.
func (e *ReleasedError) Unwrap() error { return ErrReleased }

func describe(op string, operands []string, detail string) string {
	parts := []string{"tensor", op}
	if len(operands) > 0 {
		parts = append(parts, strings.Join(operands, " and "))
	}
	if detail != "" {
		parts = append(parts, detail)
	}
	return strings.Join(parts, ": ")
}

// wrap names the operation in an error that came from below: memory, kernels or the device.
func wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return errors.Wrap(err, "tensor: "+op)
}

// shapeErr makes a *ShapeError. It copies the shapes, so that the error holds on to no tensor.
// ordinal is the word for the i-th operand, counted from 0, as a sentence counts.
func ordinal(i int) string {
	words := [...]string{"first", "second", "third"}
	if i < len(words) {
		return words[i]
	}
	return fmt.Sprintf("%dth", i+1)
}

// counted is a number of things, as in "1 dimension" and "2 dimensions".
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func shapeErr(op string, shapes []Shape, format string, args ...any) error {
	kept := make([]Shape, len(shapes))
	for i, s := range shapes {
		kept[i] = s.Clone()
	}
	return &ShapeError{Op: op, Shapes: kept, Detail: fmt.Sprintf(format, args...)}
}

func dtypeErr(op, detail string, dts ...DType) error {
	return &DTypeError{Op: op, DTypes: append([]DType(nil), dts...), Detail: detail}
}

func valueErr(op, format string, args ...any) error {
	return &ValueError{Op: op, Detail: fmt.Sprintf(format, args...)}
}
