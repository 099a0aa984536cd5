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
	parts := partsOf(m)
	if len(parts) == 0 {
		return name + "()"
	}
	var b strings.Builder
	b.WriteString(name)
	b.WriteString("(\n")
	for _, p := range parts {
		text := fmt.Sprintf("%T", p.Module)
		if s, ok := p.Module.(fmt.Stringer); ok {
			text = s.String()
		}
		fmt.Fprintf(&b, "  (%s): %s\n", p.Name, strings.ReplaceAll(text, "\n", "\n  "))
	}
	b.WriteByte(')')
	return b.String()
}
