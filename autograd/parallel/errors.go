package parallel

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/device/comm"
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
		b.WriteString(": " + strings.TrimPrefix(lineOf(e.Err), e.Op+": "))
	}
	return b.String()
}

// pass is what a graph calls the operation whose error is one of this package, which says the rest.
const pass = "forward pass"

// lineOf is an error in one line. What several streams have of one collective, and what is joined to itself, is said once.
func lineOf(err error) string {
	var lines []string
	var known []*comm.Error
	for _, e := range apart(err) {
		var of *comm.Error
		if errors.As(e, &of) {
			if slices.Contains(known, of) {
				continue
			}
			known = append(known, of)
		}
		if line := strings.ReplaceAll(e.Error(), "\n", "; "); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

// apart are the errors that errors.Join has joined.
func apart(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || !strings.Contains(err.Error(), "\n") { // an error with several causes may have a line of its own
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, apart(e)...)
	}
	return all
}

// Unwrap is what it was caused by.
func (e *Error) Unwrap() error { return e.Err }

// MismatchError says that the model of a rank is not that of rank 0, or that it calls a method with another argument. All ranks return the same one.
type MismatchError struct {
	Rank      int    // the first one that differs
	Parameter string // the first parameter or buffer that differs, by rank 0's name; empty if the rank has more than rank 0
	Have      string // what Rank has in its place, with the name if that is another; empty if it has nothing there
	Want      string // what rank 0 has; empty if it has nothing there
	Options   bool   // it is the options that differ, and Parameter is empty: Have and Want are those that do
	Call      string // it is the argument of this method that differs, as in "ClipGradNorm", and Parameter is empty
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
	if e.Call != "" {
		return fmt.Sprintf("parallel: rank %d calls %s with another argument than rank 0: rank 0 gives %s, and rank %d gives %s", e.Rank, e.Call, want, e.Rank, have)
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
