package nn

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// String is PyTorch's description: the modules, one per line.
func (s *SequentialModule) String() string { return Describe("Sequential", s) }

// unnamed is what a Base calls the module that embeds it, if it does not know its type.
const unnamed = "Module"

// String describes the parts, for modules that have no String of their own, under the name of the module's type. Before New or To the Base
// does not know that, and calls it "Module".
func (b *Base) String() string {
	m := b.whole()
	if _, alone := m.(bare); alone {
		return Describe(unnamed, m)
	}
	return Describe("", m)
}

// Describe writes a module of parts as PyTorch does: its name, and its parts with theirs, one per line. An empty name stands for that of
// the type. Modules of parts use it for their String:
//
//	func (n *Net) String() string { return nn.Describe("Net", n) }
func Describe(name string, m Module) string {
	m = orRefused(m, "module")
	if name == "" {
		name = typeName(m)
	}
	if cyclic(m) { // parts that describe themselves would do so without end
		return name + "(a module in it is a part of itself)"
	}
	var b strings.Builder
	describe(&b, name, m, "\n")
	return b.String()
}

// typeName is that of a module's type, without its package.
func typeName(m Module) string {
	t := reflect.TypeOf(m)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}

// cyclic reports whether m, or a module in it, is a part of itself.
func cyclic(m Module) (found bool) {
	walk(m, "", func(_ string, m Module) {
		u, ok := m.(unusable)
		found = found || ok && u.cyclic
	})
	return found
}

// describe writes what Describe returns, with newline, which ends in the indentation, between lines: no description of this package is
// copied once for each module around it.
func describe(b *strings.Builder, name string, m Module, newline string) {
	parts := partsOf(m)
	if g, ok := m.(*groupModule); ok && len(g.own) > 0 {
		describeParameters(b, name, g, newline)
		return
	}
	if len(parts) == 0 {
		b.WriteString(name + "()")
		return
	}
	b.WriteString(name + "(")
	inner := newline + "  "
	for _, p := range parts {
		b.WriteString(inner + "(" + p.Name + "): ")
		describePart(b, p.Module, inner)
	}
	b.WriteString(newline + ")")
}

// describeParameters writes a list or map of parameters as PyTorch does, which indents them twice.
func describeParameters(b *strings.Builder, name string, g *groupModule, newline string) {
	b.WriteString(name + "(")
	for _, s := range g.own {
		p := *s.field
		sizes := make([]string, len(p.Shape()))
		for i, n := range p.Shape() {
			sizes[i] = strconv.Itoa(n)
		}
		kind := "no value"
		if t := p.Tensor(); t != nil {
			kind = "torch." + t.DType().String()
		}
		fmt.Fprintf(b, "%s    (%s): Parameter containing: [%s of size %s]", newline, s.name, kind, strings.Join(sizes, "x"))
	}
	for _, part := range partsOf(g) {
		b.WriteString(newline + "  (" + part.Name + "): ")
		describePart(b, part.Module, newline+"  ")
	}
	b.WriteString(newline + ")")
}

func describePart(b *strings.Builder, m Module, newline string) {
	switch part := m.(type) {
	case *SequentialModule:
		describe(b, "Sequential", part, newline)
	case *groupModule:
		describe(b, part.kind, part, newline)
	case *CheckpointModule:
		describePart(b, part.inner(), newline)
	case fmt.Stringer:
		text := part.String()
		if parts, ok := strings.CutPrefix(text, unnamed+"("); ok && baseOf(m) != nil { // that of its Base
			text = typeName(m) + "(" + parts
		}
		b.WriteString(strings.ReplaceAll(text, "\n", newline))
	default:
		describe(b, typeName(m), m, newline)
	}
}
