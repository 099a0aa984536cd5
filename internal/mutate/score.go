package main

import (
	"fmt"
	"io"
)

// outcome is what became of a mutant.
type outcome string

const (
	killed     outcome = "killed"
	survived   outcome = "SURVIVED"
	equivalent outcome = "equivalent"
)

// score counts outcomes.
type score struct {
	counts    map[outcome]int
	broken    int // drawn, but not compiled
	left      int // not begun in time
	survivors []*mutant
}

func (s *score) add(o outcome, m *mutant) {
	if s.counts == nil {
		s.counts = map[outcome]int{}
	}
	s.counts[o]++
	if o == survived {
		s.survivors = append(s.survivors, m)
	}
}

// print writes the survivors once more, together, and the totals.
func (s *score) print(out io.Writer) {
	if len(s.survivors) > 0 {
		fmt.Fprintln(out, "\nsurvivors:")
	}
	for _, m := range s.survivors {
		fmt.Fprintf(out, "%s (%s)\n%s", m.place(), m.kind, m.diff())
	}
	fmt.Fprintf(out, "\n%d killed, %d survived, %d known to be equivalent, %d not compiled, %d not begun in time",
		s.counts[killed], s.counts[survived], s.counts[equivalent], s.broken, s.left)
	if judged := s.counts[killed] + s.counts[survived]; judged > 0 {
		fmt.Fprintf(out, ": %.1f %% killed", 100*float64(s.counts[killed])/float64(judged))
	}
	fmt.Fprintln(out)
}
