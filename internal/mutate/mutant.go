package main

import (
	"fmt"
	"strings"
)

// mutant is a change of one line of one file.
type mutant struct {
	source *source
	kind   string
	line   int // from 1
	start  int // offsets of what is replaced
	end    int
	text   string // by what
}

// content returns the whole file with the change.
func (m *mutant) content() []byte {
	return []byte(m.source.text[:m.start] + m.text + m.source.text[m.end:])
}

// before and after are the line without and with the change, without the space around them.
func (m *mutant) before() string {
	from, to := m.bounds()
	return strings.TrimSpace(m.source.text[from:to])
}

func (m *mutant) after() string {
	from, to := m.bounds()
	return strings.TrimSpace(m.source.text[from:m.start] + m.text + m.source.text[m.end:to])
}

// bounds returns the offsets of the line.
func (m *mutant) bounds() (from, to int) {
	from = strings.LastIndexByte(m.source.text[:m.start], '\n') + 1
	if to = strings.IndexByte(m.source.text[m.end:], '\n'); to < 0 {
		return from, len(m.source.text)
	}
	return from, m.end + to
}

func (m *mutant) place() string {
	return fmt.Sprintf("%s:%d", m.source.path, m.line)
}

func (m *mutant) diff() string {
	return fmt.Sprintf("    - %s\n    + %s\n", m.before(), m.after())
}

// String returns place, kind and change.
func (m *mutant) String() string {
	return fmt.Sprintf("%s (%s)\n%s", m.place(), m.kind, strings.TrimSuffix(m.diff(), "\n"))
}
