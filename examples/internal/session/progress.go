package session

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Says is what a bar says beside itself: a title, and what was computed. On a device that computes nothing it is the title alone: the
// numbers would be those of memory that nobody wrote.
func (s *Session) Says(title, format string, computed ...any) string {
	if !s.Computes() {
		return strings.TrimRight(title, ", ")
	}
	return title + fmt.Sprintf(format, computed...)
}

// Progress is where a program draws a progress bar that it means for w, and end, which ends the line when the bar is over. A bar draws
// itself over and over after a carriage return. A file, or a pipe, to which w was redirected would get all of that: it gets a line every
// ten seconds, and the last state.
func Progress(w io.Writer) (bar io.Writer, end func()) {
	if f, ok := w.(*os.File); ok && !terminal(f) {
		last := &lastState{to: w, now: time.Now, told: time.Now()}
		return last, last.print
	}
	return w, func() { fmt.Fprintln(w) }
}

// terminal reports whether f is a device of characters, as terminals are, and /dev/null, which takes anything.
func terminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// often is how much time passes between two lines.
const often = 10 * time.Second

// lastState keeps what was drawn last, and writes it now and then.
type lastState struct {
	to         io.Writer
	now        func() time.Time
	told       time.Time // when a line was written
	line, next string
}

func (s *lastState) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if (b[0] == '\r' || b[0] == '\n') && s.now().Sub(s.told) >= often { // what was drawn so far is whole
		s.print()
	}
	drawn := strings.FieldsFunc(s.next+string(b), func(r rune) bool { return r == '\r' || r == '\n' })
	s.next = ""
	for i, state := range drawn {
		if strings.TrimSpace(state) != "" { // else it wipes the line
			s.line = state
		}
		if i == len(drawn)-1 && b[len(b)-1] != '\r' && b[len(b)-1] != '\n' {
			s.next = state // it may go on
		}
	}
	return len(b), nil
}

// print writes the state, unless there is none since the last line.
func (s *lastState) print() {
	if line := strings.TrimSpace(s.line); line != "" {
		fmt.Fprintln(s.to, line)
		s.line, s.next, s.told = "", "", s.now()
	}
}
