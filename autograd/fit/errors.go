package fit

import (
	"fmt"
	"strings"
)

// ArgumentError is an argument that cannot be used.
type ArgumentError struct {
	Detail string // the argument, its value, and what is allowed
}

// Error is one line, as in "fit: MaxBatch is 0, must be at least 1".
func (e *ArgumentError) Error() string { return "fit: " + e.Detail }

func argumentErr(format string, args ...any) error {
	return &ArgumentError{Detail: fmt.Sprintf(format, args...)}
}

// TrialError is an error of the program that has nothing to do with the size of the device's memory, or says that a batch fitted once and then
// did not, as of a program that does not do the same each time. It ends the search.
type TrialError struct {
	Settings
	Batch int
	Err   error // the program's
}

// Error names the trial, as in "fit: batch 4, float16, checkpointed: ...".
func (e *TrialError) Error() string {
	return fmt.Sprintf("fit: batch %d, %s: %s", e.Batch, e.Settings, strings.TrimPrefix(fmt.Sprint(e.Err), "fit: "))
}

// Unwrap returns the program's error.
func (e *TrialError) Unwrap() error { return e.Err }
