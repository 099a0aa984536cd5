package lint

import (
	"go/ast"
	"go/token"
)

const docRemedy = "write a comment above it: what it does, its shapes, types and units, and its errors"

// checkDocs finds exported identifiers of libraries that have no comment. Methods count if their type is exported. One
// comment may stand for a group of constants or variables.
func checkDocs(f *File) (problems []Problem) {
	if isTestFile(f) || !f.library() || ast.IsGenerated(f.AST) {
		return nil
	}
	for _, d := range f.AST.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if name := exportedFunc(d); name != "" && d.Doc == nil {
				problems = append(problems, f.problem(d, docRemedy, "%s has no comment", name))
			}
		case *ast.GenDecl:
			for _, name := range undocumented(d) {
				problems = append(problems, f.problem(name, docRemedy, "%s has no comment", name.Name))
			}
		}
	}
	return problems
}

// selfEvident are methods whose name is their contract.
var selfEvident = map[string]bool{"Error": true, "Unwrap": true, "String": true}

// exportedFunc returns the name of a function or method that users can see, else "".
func exportedFunc(d *ast.FuncDecl) string {
	if !d.Name.IsExported() {
		return ""
	}
	if d.Recv == nil {
		return d.Name.Name
	}
	receiver := receiverType(d.Recv.List[0].Type)
	if !ast.IsExported(receiver) || selfEvident[d.Name.Name] {
		return ""
	}
	return receiver + "." + d.Name.Name
}

// receiverType returns the name in T, *T, T[P] or *T[P, Q].
func receiverType(e ast.Expr) string {
	for {
		switch t := e.(type) {
		case *ast.Ident:
			return t.Name
		case *ast.StarExpr:
			e = t.X
		case *ast.ParenExpr:
			e = t.X
		case *ast.IndexExpr:
			e = t.X
		case *ast.IndexListExpr:
			e = t.X
		default:
			return ""
		}
	}
}

// undocumented returns the exported names of a declaration of types, constants or variables that have no comment.
func undocumented(d *ast.GenDecl) (names []*ast.Ident) {
	if d.Doc != nil && (d.Tok != token.TYPE || !d.Lparen.IsValid()) {
		return nil // the comment is for all of them
	}
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && s.Doc == nil && s.Comment == nil {
				names = append(names, s.Name)
			}
		case *ast.ValueSpec:
			if s.Doc != nil || s.Comment != nil {
				continue
			}
			for _, n := range s.Names {
				if n.IsExported() {
					names = append(names, n)
				}
			}
		}
	}
	return names
}

// checkPackageDocs finds packages and programs that do not say what they are for. Folders with nothing but tests need not.
func checkPackageDocs(m *Module) (problems []Problem) {
	first := map[string]*File{} // of each package, the file to point at
	said := map[string]bool{}
	var order []string
	for _, f := range m.Files {
		if isTestFile(f) {
			continue
		}
		if first[f.pkg()] == nil {
			first[f.pkg()] = f
			order = append(order, f.pkg())
		}
		said[f.pkg()] = said[f.pkg()] || f.AST.Doc != nil
	}
	for _, pkg := range order {
		if !said[pkg] {
			problems = append(problems, first[pkg].problem(first[pkg].AST.Name,
				"begin a file, best doc.go, with a comment that tells what the package is for and how its parts work together",
				"package %s has no package comment", pkg))
		}
	}
	return problems
}
