// Package trace reads allocation traces: every request that a program made of its device-memory allocator, in order.
//
// A trace is text, plain or gzipped. Lines starting with # are its header. Then one event a line:
//
//	a <id> <bytes> <stream>   allocate bytes, as requested, on a stream; ids are 0, 1, 2, ... in order
//	f <id>                    free
//	s <id> <stream>           the block is also used on stream
//	c <stream>                everything put on stream so far has finished
//	e                         empty the cache
//	m <label>                 a mark, such as the beginning of a training step; not counted as an event
package trace

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
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

// Event is one line of a trace.
type Event struct {
	Kind   Kind
	ID     int    // Alloc, Free, Record
	Bytes  uint64 // Alloc
	Stream uint64 // Alloc, Record, Complete
	Label  string // Mark
}

// Trace is a whole recording.
type Trace struct {
	Header []string // without the #
	Events []Event
	Allocs int // number of Alloc events, and so of ids
}

// Error is a line that cannot be read.
type Error struct {
	Name string // of the file, may be empty
	Line int    // from 1; 0 if the file as a whole is at fault
	What string
}

// Error names the file, the line and what is wrong with it.
func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("trace %s: %s", e.Name, e.What)
	}
	return fmt.Sprintf("trace %s: line %d: %s", e.Name, e.Line, e.What)
}

// Open reads the trace in a file.
func Open(name string) (*Trace, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Read(name, f)
}

// Read reads a trace, plain or gzipped; name is for errors.
func Read(name string, r io.Reader) (*Trace, error) {
	br := bufio.NewReader(r)
	if head, _ := br.Peek(2); len(head) == 2 && head[0] == 0x1f && head[1] == 0x8b {
		z, err := gzip.NewReader(br)
		if err != nil {
			return nil, &Error{Name: name, What: err.Error()}
		}
		br = bufio.NewReader(z)
	}
	p := parser{name: name, trace: &Trace{}}
	lines := bufio.NewScanner(br)
	for lines.Scan() {
		p.line++
		if err := p.parse(lines.Text()); err != nil {
			return nil, err
		}
	}
	if err := lines.Err(); err != nil {
		return nil, &Error{Name: name, Line: p.line + 1, What: err.Error()}
	}
	return p.trace, nil
}

type parser struct {
	name  string
	line  int
	trace *Trace
	freed []bool // by id
}

func (p *parser) fail(format string, args ...any) error {
	return &Error{Name: p.name, Line: p.line, What: fmt.Sprintf(format, args...)}
}

func (p *parser) parse(text string) error {
	switch {
	case text == "":
		return nil
	case text[0] == '#':
		p.trace.Header = append(p.trace.Header, strings.TrimSpace(text[1:]))
		return nil
	}
	kind, rest, _ := strings.Cut(text, " ")
	if kind == string(Mark) {
		p.trace.Events = append(p.trace.Events, Event{Kind: Mark, Label: rest})
		return nil
	}
	want := map[string]int{"a": 3, "f": 1, "s": 2, "c": 1, "e": 0}
	n, ok := want[kind]
	if !ok {
		return p.fail("unknown event %q", kind)
	}
	fields := strings.Fields(rest)
	if len(fields) != n {
		return p.fail("event %s takes %d numbers, found %d in %q", kind, n, len(fields), text)
	}
	var v [3]uint64
	for i, f := range fields {
		var err error
		if v[i], err = strconv.ParseUint(f, 10, 63); err != nil {
			return p.fail("%q is not a number", f)
		}
	}
	return p.event(Kind(kind[0]), v)
}

func (p *parser) event(k Kind, v [3]uint64) error {
	e := Event{Kind: k}
	switch k {
	case Alloc:
		if v[0] != uint64(len(p.freed)) {
			return p.fail("allocation has id %d, expected %d", v[0], len(p.freed))
		}
		p.freed = append(p.freed, false)
		p.trace.Allocs++
		e.ID, e.Bytes, e.Stream = int(v[0]), v[1], v[2]
	case Free, Record:
		if v[0] >= uint64(len(p.freed)) {
			return p.fail("id %d was never allocated", v[0])
		}
		if p.freed[v[0]] {
			return p.fail("id %d was freed before", v[0])
		}
		p.freed[v[0]] = k == Free
		e.ID, e.Stream = int(v[0]), v[1]
	case Complete:
		e.Stream = v[0]
	}
	p.trace.Events = append(p.trace.Events, e)
	return nil
}
