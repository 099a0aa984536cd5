package stepgraph

import (
	"fmt"

	"github.com/cistern-ml/cistern/internal/oneline"
)

// Stats says how the runs of a step were taken.
type Stats struct {
	Eager    int // runs without a graph
	Captures int // graphs that were captured
	Replays  int // runs of a graph
	Graphs   int // graphs that there are now
}

// Stats says how the runs so far were taken.
func (s *Step) Stats() Stats {
	if s == nil {
		return Stats{}
	}
	now := s.stats
	for _, sh := range s.shapes {
		if sh.graph != nil {
			now.Graphs++
		}
	}
	return now
}

// String is the step in one line, as in "step: 3 eager runs, 47 replays, 1 graph".
func (s *Step) String() string {
	if s == nil {
		return "step (nil)"
	}
	n := s.Stats()
	return fmt.Sprintf("step: %s, %s, %s", oneline.Count(n.Eager, "eager run"), oneline.Count(n.Replays, "replay"), oneline.Count(n.Graphs, "graph"))
}
