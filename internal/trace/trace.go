// Package trace reads and writes allocation traces: every request that a program made of its device-memory allocator, in
// order.
//
// A trace is text, plain or gzipped. Lines starting with # are its header. Then one event a line:
//
//	a <id> <bytes> <stream>   allocate bytes, as requested, on a stream; ids are 0, 1, 2, ... in order
//	f <id>                    free
//	s <id> <stream>           the block is also used on stream
//	c <stream>                everything enqueued on stream so far has finished
//	e                         empty the cache
//	m <label>                 a mark, such as the beginning of a training step; not counted as an event
//
// Empty lines mean nothing. An allocation may have failed in the program that replays the trace: its later f and s lines are
// then without effect there.
package trace

import (
	"bufio"
	"fmt"
	"io"
)

// Kind is the kind of an event: the letter that its line begins with.
type Kind byte

// The kinds of events.
const (
	Alloc    Kind = 'a'
	Free     Kind = 'f'
	Record   Kind = 's'
	Complete Kind = 'c'
	Empty    Kind = 'e'
	Mark     Kind = 'm'
)

// String returns the letter.
func (k Kind) String() string { return string(rune(k)) }

// Event is one line of a trace.
type Event struct {
	Kind   Kind
	Line   int    // in the file, from 1; 0 for an event that was not read
	ID     int    // Alloc, Free, Record
	Bytes  uint64 // Alloc
	Stream uint64 // Alloc, Record, Complete
	Label  string // Mark
}

// String returns the event's line without the newline.
func (e Event) String() string {
	switch e.Kind {
	case Alloc:
		return fmt.Sprintf("a %d %d %d", e.ID, e.Bytes, e.Stream)
	case Free:
		return fmt.Sprintf("f %d", e.ID)
	case Record:
		return fmt.Sprintf("s %d %d", e.ID, e.Stream)
	case Complete:
		return fmt.Sprintf("c %d", e.Stream)
	case Mark:
		return "m " + e.Label
	}
	return e.Kind.String()
}

// Trace is a whole recording.
type Trace struct {
	Name   string   // of the file it was read from, as given to Open or Read
	Header []string // without the #
	Events []Event
	Allocs int // number of Alloc events, and so of ids
}

// Write writes the trace as text that Read reads.
func (t *Trace) Write(w io.Writer) error {
	b := bufio.NewWriter(w)
	for _, h := range t.Header {
		fmt.Fprintln(b, "#", h)
	}
	for _, e := range t.Events {
		fmt.Fprintln(b, e)
	}
	return b.Flush() // a bufio.Writer keeps the first error of any write
}

// Error is a line that cannot be read.
type Error struct {
	Name string // of the file, may be empty
	Line int    // from 1; 0 if the file as a whole is at fault
	What string
	Err  error // what reading or unpacking the file failed with; nil if the text is wrong
}

// Error names the file, the line and what is wrong with it.
func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("trace %s: %s", e.Name, e.What)
	}
	return fmt.Sprintf("trace %s: line %d: %s", e.Name, e.Line, e.What)
}

// Unwrap returns the cause, if there is one.
func (e *Error) Unwrap() error { return e.Err }
