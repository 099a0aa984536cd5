package journal

import (
	"runtime"
	"strings"

	"github.com/cistern-ml/cistern/internal/fpstack"
)

// Symbols writes stacks out, each once, in frames F.
type Symbols[F any] struct {
	stacks *fpstack.Table // nil if history was never recorded
	frame  func(runtime.Frame) F
	known  map[fpstack.ID][]F
}

// NewSymbols is for the stacks of a table, nil for none.
func NewSymbols[F any](stacks *fpstack.Table, frame func(runtime.Frame) F) *Symbols[F] {
	return &Symbols[F]{stacks: stacks, frame: frame, known: map[fpstack.ID][]F{}}
}

// Frames returns a stack, innermost first, nil if it is not known.
func (s *Symbols[F]) Frames(id fpstack.ID) []F {
	if id == 0 || s.stacks == nil {
		return nil
	}
	if list, ok := s.known[id]; ok {
		return list
	}
	var list []F
	for _, f := range s.stacks.Frames(id) {
		if len(list) > 0 || !ofAllocator(f.Function) {
			list = append(list, s.frame(f))
		}
	}
	s.known[id] = list
	return list
}

// Dropped is how many stacks there was no room for.
func (s *Symbols[F]) Dropped() int64 {
	if s.stacks == nil {
		return 0
	}
	return s.stacks.Dropped()
}

// ofAllocator reports whether a function is a method of the allocators. They are left out at the inner end of stacks, as it is
// always they that take them.
func ofAllocator(function string) bool {
	in, ok := strings.CutPrefix(function, "github.com/cistern-ml/cistern/memory")
	return ok && (strings.HasPrefix(in, ".(*") || strings.HasPrefix(in, "/pinned.(*") || strings.HasPrefix(in, "/internal/journal.(*"))
}
