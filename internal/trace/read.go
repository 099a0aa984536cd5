package trace

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Open reads the trace in a file.
func Open(name string) (*Trace, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Read(name, f)
}

// Read reads a trace, plain or gzipped; name is for errors. A line that is no event, an id that is out of order, was never
// allocated or was freed before, and a trace without events are an *Error.
func Read(name string, r io.Reader) (*Trace, error) {
	text, err := unpack(bufio.NewReader(r))
	if err != nil {
		return nil, &Error{Name: name, What: err.Error(), Err: err}
	}
	p := parser{trace: &Trace{Name: name}}
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		p.line++
		if err := p.parse(lines.Text()); err != nil {
			return nil, err
		}
	}
	if err := lines.Err(); err != nil {
		return nil, p.unreadable(err)
	}
	if len(p.trace.Events) == 0 {
		return nil, &Error{Name: name, What: "there are no events in it"}
	}
	return p.trace, nil
}

// unpack returns the text behind r, which may be gzipped.
func unpack(r *bufio.Reader) (io.Reader, error) {
	if head, _ := r.Peek(2); len(head) < 2 || head[0] != 0x1f || head[1] != 0x8b {
		return r, nil
	}
	return gzip.NewReader(r)
}

type parser struct {
	line  int
	trace *Trace
	freed []bool // by id
}

func (p *parser) fail(format string, args ...any) error {
	return &Error{Name: p.trace.Name, Line: p.line, What: fmt.Sprintf(format, args...)}
}

// unreadable is the error of a line that never came.
func (p *parser) unreadable(err error) error {
	what := err.Error()
	switch {
	case errors.Is(err, bufio.ErrTooLong):
		what = fmt.Sprintf("longer than %d bytes", bufio.MaxScanTokenSize)
	case errors.Is(err, io.ErrUnexpectedEOF):
		what = "the file ends here, in the middle of its compressed data"
	}
	return &Error{Name: p.trace.Name, Line: p.line + 1, What: what, Err: err}
}

// numbers is how many numbers follow the letter of an event, or -1 if there is no such event.
func numbers(kind string) int {
	switch kind {
	case "a":
		return 3
	case "s":
		return 2
	case "f", "c":
		return 1
	case "e":
		return 0
	}
	return -1
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
	if kind == "m" {
		p.add(Event{Kind: Mark, Label: strings.TrimSpace(rest)})
		return nil
	}
	want := numbers(kind)
	if want < 0 {
		return p.fail("unknown event %.40q", kind)
	}
	fields := strings.Fields(rest)
	if len(fields) != want {
		return p.fail("event %s takes %d numbers, found %d in %.40q", kind, want, len(fields), text)
	}
	var v [3]uint64
	for i, f := range fields {
		var err error
		if v[i], err = strconv.ParseUint(f, 10, 63); err != nil {
			return p.fail("%.40q is not a number from 0 to 2^63-1", f)
		}
	}
	return p.event(Kind(kind[0]), v)
}

// event checks the numbers of an event against what came before it.
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
	p.add(e)
	return nil
}

func (p *parser) add(e Event) {
	e.Line = p.line
	p.trace.Events = append(p.trace.Events, e)
}
