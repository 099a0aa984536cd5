package device

import (
	"errors"
	"fmt"
)

// Sentinels for errors.Is. Every error of a device is an *Error that matches one of them, except that a wait cut short by
// its context is an *Error that matches context.Canceled or context.DeadlineExceeded.
var (
	ErrOutOfMemory  = errors.New("out of memory")
	ErrInvalidValue = errors.New("invalid value")
	ErrClosed       = errors.New("use after Close")
	ErrUnavailable  = errors.New("device unavailable")
	ErrLaunch       = errors.New("operation failed on the device")
)

// Error is a failed call of a device.
type Error struct {
	Device ID
	Call   string // the call that failed, as in "Malloc", "cuMemAlloc_v2"
	Detail string // the values that explain it; may be empty
	Err    error  // a sentinel of this package, or an error that wraps one
}

// Error returns one line: device, call, what happened, and the values.
func (e *Error) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("%s: %s: %v", e.Device, e.Call, e.Err)
	}
	return fmt.Sprintf("%s: %s: %v (%s)", e.Device, e.Call, e.Err, e.Detail)
}

// Unwrap returns the sentinel, for errors.Is.
func (e *Error) Unwrap() error { return e.Err }

// LaunchError is the error of an operation that was enqueued on a stream and failed there. errors.Is finds both ErrLaunch and
// cause, so a caller can ask for either.
func LaunchError(id ID, operation string, cause error) *Error {
	return &Error{Device: id, Call: operation, Err: &launchFailure{cause: cause}}
}

// launchFailure ties ErrLaunch to the error of the operation.
type launchFailure struct{ cause error }

func (f *launchFailure) Error() string   { return ErrLaunch.Error() + ": " + f.cause.Error() }
func (f *launchFailure) Unwrap() []error { return []error{ErrLaunch, f.cause} }

// PanicError is the cause of a LaunchError when a function that was submitted to a stream panicked or ended its goroutine
// (runtime.Goexit, as testing's FailNow does; Value is nil then).
type PanicError struct {
	Value any    // what was passed to panic
	Stack []byte // of the goroutine, as debug.Stack returns it
}

// Error returns one line without the stack.
func (e *PanicError) Error() string {
	if e.Value == nil {
		return "the function ended its goroutine (runtime.Goexit)"
	}
	return fmt.Sprintf("panic: %v", e.Value)
}

// Unwrap returns the panic's value when it was an error, as in a run-time error of Go.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
