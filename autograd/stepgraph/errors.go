package stepgraph

import "strings"

// Error says why a step could not be made, captured or run. Of one that cannot be captured it holds a *tensor.CaptureError with the line of the program,
// or the error of the allocator or the driver.
type Error struct {
	Call   string // the method
	Detail string
	Err    error // the cause, if it came from below
}

// Error returns one line, as in "stepgraph: Run: the step cannot be captured: ...".
func (e *Error) Error() string {
	parts := []string{"stepgraph", e.Call}
	if e.Detail != "" {
		parts = append(parts, e.Detail)
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	return strings.Join(parts, ": ")
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
