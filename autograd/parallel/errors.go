package parallel

import (
	"fmt"
	"strings"

	"github.com/cistern-ml/cistern/internal/excerpt"
)

// Error says what went wrong on a rank. Where other ranks cannot go on without this one, the group was ended (comm.Comm.Abort) with this error as the cause.
type Error struct {
	Op        string // what was under way: "Data", "Run", "Backward", "all-reduce of bucket 3"
	Rank      int    // the one that reports it, -1 if it has none: who is to blame for what ended the group is in Err (comm.Error.Peer)
	Parameter string // which parameter it was about, empty for none
	Detail    string // what is wrong, if Err does not say it
	Err       error
}

// Error is one line, as in `parallel: rank 1: Data: parameter "fc.weight": it has no value`.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("parallel: ")
	if e.Rank >= 0 {
		fmt.Fprintf(&b, "rank %d: ", e.Rank)
	}
	b.WriteString(e.Op)
	if e.Parameter != "" {
		b.WriteString(": parameter " + excerpt.Quote(e.Parameter))
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap is what it was caused by.
func (e *Error) Unwrap() error { return e.Err }

// MismatchError says that the model of a rank is not that of rank 0. All ranks return the same one.
type MismatchError struct {
	Rank      int    // the first one that differs
	Parameter string // the first parameter or buffer that differs, by rank 0's name; empty if the rank has more than rank 0
	Have      string // what Rank has in its place, with the name if that is another; empty if it has nothing there
	Want      string // what rank 0 has; empty if it has nothing there
	Options   bool   // it is the options that differ, and Parameter is empty: Have and Want are those that do
}

// Error names the rank and the parameter, and says what both have.
func (e *MismatchError) Error() string {
	have, want := e.Have, e.Want
	if have == "" {
		have = "nothing"
	}
	if want == "" {
		want = "nothing"
	}
	if e.Options {
		return fmt.Sprintf("parallel: the options of rank %d differ from rank 0's: rank 0 has %s, and rank %d has %s", e.Rank, want, e.Rank, have)
	}
	place := ""
	if e.Parameter != "" {
		place = ", first in " + excerpt.Quote(e.Parameter)
	}
	return fmt.Sprintf("parallel: the model of rank %d differs from rank 0's%s: rank 0 has %s, and rank %d has %s", e.Rank, place, want, e.Rank, have)
}

// UnusedError says that a backward pass left parameters without a gradient, on which the other ranks would wait for ever.
type UnusedError struct {
	Rank       int
	Parameters []string // their names in the model
}

// Error names them, and the remedy.
func (e *UnusedError) Error() string {
	return fmt.Sprintf("parallel: rank %d: the loss does not depend on %s: use all parameters in each forward pass, freeze those that are not trained before Data (SetRequiresGrad), or ask for FindUnused",
		e.Rank, excerpt.List(e.Parameters))
}
