package data

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/cistern-ml/cistern/internal/excerpt"
)

// ArgumentError says what is wrong with a data set, or with how it is read.
type ArgumentError struct{ Detail string }

// Error is one line, as in "data: 3 inputs and 2 targets".
func (e *ArgumentError) Error() string { return "data: " + e.Detail }

func argumentErr(format string, args ...any) error {
	return &ArgumentError{fmt.Sprintf(format, args...)}
}

// ExampleError says which example of a Source could not be made, or does not fit the others of its batch, and why.
type ExampleError struct {
	Index int64 // of the example in the data set
	Err   error
}

// Error is the number and the reason, as in "data: example 17: open cat.png: file does not exist".
func (e *ExampleError) Error() string { return fmt.Sprintf("data: example %d: %v", e.Index, e.Err) }

// Unwrap returns the reason.
func (e *ExampleError) Unwrap() error { return e.Err }

// BatchError says which batch could not be made though its examples could, and why: an error of Dataset.Batch, of a collate function,
// or of the device.
type BatchError struct {
	Number int     // of the batch in the loop, from 0
	Index  []int64 // of its examples in the data set
	Err    error
}

// Error is the number and the reason, as in "data: batch 3 (examples 12, 7, ...): out of memory".
func (e *BatchError) Error() string {
	var numbers []string
	for k, i := range e.Index {
		if k == 4 {
			numbers = append(numbers, "...")
			break
		}
		numbers = append(numbers, fmt.Sprint(i))
	}
	return fmt.Sprintf("data: batch %d (examples %s): %v", e.Number, strings.Join(numbers, ", "), e.Err)
}

// Unwrap returns the reason.
func (e *BatchError) Unwrap() error { return e.Err }

// PanicError is a panic in a function of the program, such as Source.Example, that the loader called. It is an error however many
// workers there are, since a panic in a worker could be recovered by nobody else and would end the program.
type PanicError struct {
	Value any    // what was passed to panic
	Stack []byte // of the goroutine, as runtime/debug.Stack writes it
}

// Error is the value; the stack is in the field.
func (e *PanicError) Error() string { return "panic: " + excerpt.Long(fmt.Sprint(e.Value)) }

// Unwrap returns the value if it is an error, such as a runtime.Error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// guarded calls f and makes an error of its panic.
func guarded(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, debug.Stack()}
		}
	}()
	return f()
}
