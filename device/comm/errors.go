package comm

import (
	"errors"
	"fmt"
)

// Sentinels for errors.Is. An *Error of wrong arguments matches device.ErrInvalidValue, one after Close device.ErrClosed.
var (
	ErrAborted     = errors.New("the group was aborted")
	ErrTimeout     = errors.New("time limit exceeded")
	ErrMismatch    = errors.New("ranks call different collectives")
	ErrPeer        = errors.New("a rank is gone")
	ErrLibrary     = errors.New("the library failed")
	ErrUnavailable = errors.New("backend unavailable")
)

// Error is a failed call of a Comm, or the reason why there is none.
type Error struct {
	Backend   string // as Comm.Backend
	Operation string // the method that failed, as in "AllReduce", or what opens the group
	Rank      int    // the one that reports it; -1 if it has no number yet
	Peer      int    // the one that is to blame, -1 if that is not known or none is
	Detail    string // the values that explain it; may be empty
	Err       error  // a sentinel of this package or of package device, or an error that wraps one
}

// Error returns one line: who, what, what happened, whose fault, and the values.
func (e *Error) Error() string {
	text := e.Backend + ": "
	if e.Rank >= 0 {
		text += fmt.Sprintf("rank %d: ", e.Rank)
	}
	what, detail := e.Err, e.Detail
	if a, ok := e.Err.(*abortCause); ok && detail == "" { // as on the ranks that have the cause's text alone
		what, detail = ErrAborted, a.cause.Error()
	}
	text += fmt.Sprintf("%s: %v", e.Operation, what)
	if e.Peer >= 0 {
		text += fmt.Sprintf(": rank %d", e.Peer)
	}
	if detail != "" {
		text += " (" + detail + ")"
	}
	return text
}

// Unwrap returns the sentinel, for errors.Is.
func (e *Error) Unwrap() error { return e.Err }

// AbortCause is the Err of an *Error after Abort(cause), on the ranks that have the cause itself: errors.Is finds ErrAborted and cause.
func AbortCause(cause error) error {
	if cause == nil {
		return ErrAborted
	}
	return &abortCause{cause}
}

type abortCause struct{ cause error }

func (a *abortCause) Error() string   { return ErrAborted.Error() + ": " + a.cause.Error() }
func (a *abortCause) Unwrap() []error { return []error{ErrAborted, a.cause} }

// Fault is what ended a group. Each rank makes its own error of it.
type Fault struct {
	Peer   int // to blame, or -1
	Other  int // with ErrMismatch, the rank that Peer disagrees with: for Peer itself, that one is the other
	Detail string
	Err    error // a sentinel
}

// On is the fault as the error of an operation on a rank.
func (f *Fault) On(backend string, rank int, operation string) *Error {
	if f == nil {
		f = &Fault{Peer: -1, Err: ErrAborted}
	}
	peer := f.Peer
	if errors.Is(f.Err, ErrMismatch) && peer == rank {
		peer = f.Other
	}
	return &Error{Backend: backend, Operation: operation, Rank: rank, Peer: peer, Detail: f.Detail, Err: f.Err}
}
