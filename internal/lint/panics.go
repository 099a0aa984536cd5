package lint

import (
	"go/ast"
	"strings"
)

// checkPanics finds panics outside tests that do not say which invariant of our own they defend. The comment
// "// invariant: why this cannot happen" is on the line of the panic or ends on the line before it.
func checkPanics(f *File) (problems []Problem) {
	if f.Test { // tests, and packages of test helpers
		return nil
	}
	explained := f.invariantLines()
	ast.Inspect(f.AST, func(n ast.Node) bool {
		if builtin(n) != "panic" {
			return true
		}
		if line := f.line(n.Pos()); !explained[line] && !explained[line-1] {
			problems = append(problems, f.problem(n,
				"return an error if a user can cause it; if only a bug of ours can, write // invariant: and why above it",
				"panic without an invariant"))
		}
		return true
	})
	return problems
}

// invariantLines are the last lines of the comments that state an invariant.
func (f *File) invariantLines() map[int]bool {
	lines := map[int]bool{}
	for _, group := range f.AST.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(strings.TrimSpace(strings.TrimPrefix(c.Text, "//")), "invariant:") {
				lines[f.line(group.End())] = true
			}
		}
	}
	return lines
}
