package session

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// Progress is where a program draws a progress bar that it means for w, and end, which ends the line when the bar is over. A bar draws
// itself over and over after a carriage return. A file, or a pipe, to which w was redirected would get all of that: it gets the last state
// alone, as a line.
func Progress(w io.Writer) (bar io.Writer, end func()) {
	if f, ok := w.(*os.File); ok && !terminal(f) {
		last := new(lastState)
		return last, func() { last.print(w) }
	}
	return w, func() { fmt.Fprintln(w) }
}

// terminal reports whether f is a device of characters, as terminals are, and /dev/null, which takes anything.
func terminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// lastState keeps what was drawn last.
type lastState struct{ line, next string }

func (s *lastState) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
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

func (s *lastState) print(w io.Writer) {
	if line := strings.TrimSpace(s.line); line != "" {
		fmt.Fprintln(w, line)
	}
}
