package nn

import (
	"fmt"
	"strings"
)

// String is PyTorch's description: the modules, one per line.
func (s *SequentialModule) String() string { return Describe("Sequential", s) }

// Describe writes a module of parts as PyTorch does: its name, and its parts with theirs, one per line. Modules of parts use
// it for their String.
func Describe(name string, m Module) string {
	var b strings.Builder
	describe(&b, name, m, "\n")
	return b.String()
}

// describe writes what Describe returns, with newline, which ends in the indentation, between lines: nothing is copied once for each
// module around it.
func describe(b *strings.Builder, name string, m Module, newline string) {
	parts := partsOf(m)
	if len(parts) == 0 {
		b.WriteString(name + "()")
		return
	}
	b.WriteString(name + "(")
	inner := newline + "  "
	for _, p := range parts {
		b.WriteString(inner + "(" + p.Name + "): ")
		switch part := p.Module.(type) {
		case *SequentialModule:
			describe(b, "Sequential", part, inner)
		case *moduleList:
			describe(b, "ModuleList", part, inner)
		case fmt.Stringer:
			b.WriteString(strings.ReplaceAll(part.String(), "\n", inner))
		default:
			fmt.Fprintf(b, "%T", part)
		}
	}
	b.WriteString(newline + ")")
}
