package journal

import (
	"runtime"
	"strings"

	"github.com/cistern-ml/cistern/internal/fpstack"
	"github.com/cistern-ml/cistern/internal/oplabel"
	"github.com/cistern-ml/cistern/internal/userframe"
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

// Frames returns a stack, innermost first, nil if it is not known. Of this library's frames it has those that userframe.Cut leaves. If the stack was taken in
// an operation, its first frame stands for that: its name is not that of a function, and its place is where the operation asked for memory.
func (s *Symbols[F]) Frames(id fpstack.ID) []F {
	if id == 0 || s.stacks == nil {
		return nil
	}
	if list, ok := s.known[id]; ok {
		return list
	}
	stack := s.stacks.Frames(id)
	for len(stack) > 0 && ofAllocator(stack[0].Function) {
		stack = stack[1:]
	}
	stack = userframe.Cut(stack)
	var list []F
	if l := s.Label(id); l.Op != "" && len(stack) > 0 {
		list = append(list, s.frame(runtime.Frame{Function: l.String(), File: stack[0].File, Line: stack[0].Line}))
	}
	for _, f := range stack {
		list = append(list, s.frame(f))
	}
	s.known[id] = list
	return list
}

// Label is the operation that a stack was taken in.
func (s *Symbols[F]) Label(id fpstack.ID) oplabel.Label {
	if id == 0 || s.stacks == nil {
		return oplabel.Label{}
	}
	return oplabel.ID(s.stacks.Tag(id)).Label()
}

// Dropped is how many stacks there was no room for.
func (s *Symbols[F]) Dropped() int64 {
	if s.stacks == nil {
		return 0
	}
	return s.stacks.Dropped()
}

// ofAllocator reports whether a function is a method of the allocators, or the one by which all tensors get their memory. They are left out at the
// inner end of stacks, as it is always they that take them.
func ofAllocator(function string) bool {
	if function == "github.com/cistern-ml/cistern/tensor.alloc" {
		return true
	}
	in, ok := strings.CutPrefix(function, "github.com/cistern-ml/cistern/memory")
	return ok && (strings.HasPrefix(in, ".(*") || strings.HasPrefix(in, "/pinned.(*") || strings.HasPrefix(in, "/internal/journal.(*"))
}
