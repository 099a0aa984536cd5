package lint

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"
)

// selectors calls visit for everything that a file takes from a package of the standard library, such as time.Sleep. It
// does not look into the nodes for which skip returns true; skip may be nil.
func (f *File) selectors(pkg string, skip func(ast.Node) bool, visit func(*ast.SelectorExpr)) {
	name := f.importName(pkg)
	if name == "" {
		return
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		if skip != nil && n != nil && skip(n) {
			return false
		}
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == name {
				visit(s)
			}
		}
		return true
	})
}

// importName is the name under which a file knows a package of the standard library, or "" if it does not import it.
func (f *File) importName(pkg string) string {
	for _, spec := range f.AST.Imports {
		if target, err := strconv.Unquote(spec.Path.Value); err != nil || target != pkg {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return pkg[strings.LastIndexByte(pkg, '/')+1:]
	}
	return ""
}

// checkDotImports finds dot imports: they hide calls from the checks below, and from readers.
func checkDotImports(f *File) (problems []Problem) {
	for _, spec := range f.AST.Imports {
		if spec.Name != nil && spec.Name.Name == "." {
			problems = append(problems, f.problem(spec, "import it under its name", "dot import of %s", spec.Path.Value))
		}
	}
	return problems
}

// checkFinalizers finds runtime.SetFinalizer.
func checkFinalizers(f *File) (problems []Problem) {
	f.selectors("runtime", nil, func(s *ast.SelectorExpr) {
		if s.Sel.Name == "SetFinalizer" {
			problems = append(problems, f.problem(s,
				"use runtime.AddCleanup, which takes no hold of the object, and let it only queue the free (Allocator.FreeLater)",
				"runtime.SetFinalizer"))
		}
	})
	return problems
}

// checkSleeps finds time.Sleep in tests, except in functions that are handed to synctest.Test, where no time passes.
func checkSleeps(f *File) (problems []Problem) {
	if !f.Test {
		return nil
	}
	bubble := f.importName("testing/synctest")
	inBubble := func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		return ok && bubble != "" && isSelector(call.Fun, bubble, "Test")
	}
	f.selectors("time", inBubble, func(s *ast.SelectorExpr) {
		if s.Sel.Name == "Sleep" {
			problems = append(problems, f.problem(s,
				"wait for the event itself: a channel, Stream.Synchronize, Event.Synchronize; or run the test in synctest.Test, whose time is its own",
				"time.Sleep in a test"))
		}
	})
	return problems
}

func isSelector(e ast.Expr, x, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	id, ok := s.X.(*ast.Ident)
	return ok && id.Name == x
}

const printRemedy = "return the text or an error, or take an io.Writer: a library writes nothing to its user's output"

// checkPrints finds printing to standard output, and the built-in print and println, in libraries.
func checkPrints(f *File) (problems []Problem) {
	if isTestFile(f) || !f.library() {
		return nil
	}
	f.selectors("fmt", nil, func(s *ast.SelectorExpr) {
		if strings.HasPrefix(s.Sel.Name, "Print") {
			problems = append(problems, f.problem(s, printRemedy, "fmt.%s in a library", s.Sel.Name))
		}
	})
	ast.Inspect(f.AST, func(n ast.Node) bool {
		if name := builtin(n); name == "print" || name == "println" {
			problems = append(problems, f.problem(n, printRemedy, "built-in %s in a library", name))
		}
		return true
	})
	return problems
}

// builtin returns the name in a call of a plain identifier, else "".
func builtin(n ast.Node) string {
	if call, ok := n.(*ast.CallExpr); ok {
		if id, ok := call.Fun.(*ast.Ident); ok {
			return id.Name
		}
	}
	return ""
}

// atomicTypes are what sync/atomic offers besides its functions.
var atomicTypes = []string{"Bool", "Int32", "Int64", "Pointer", "Uint32", "Uint64", "Uintptr", "Value"}

// checkAtomics finds the functions of sync/atomic: a variable that one place treats as atomic can be read plainly in
// another, and 64-bit ones need an alignment that only the types guarantee on 32-bit machines.
func checkAtomics(f *File) (problems []Problem) {
	f.selectors("sync/atomic", nil, func(s *ast.SelectorExpr) {
		if !slices.Contains(atomicTypes, s.Sel.Name) {
			problems = append(problems, f.problem(s, "make the variable an atomic type, such as atomic.Int64", "atomic.%s", s.Sel.Name))
		}
	})
	return problems
}
