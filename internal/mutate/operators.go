package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"strconv"
	"strings"
)

// lister collects the mutants of one source.
type lister struct {
	source  *source
	steps   map[ast.Stmt]bool // of loops, which would not end without
	unread  map[ast.Expr]bool // results beside an error
	mutants []*mutant
}

// mutantsOf lists the mutants of a source in the order of the text. They need not compile.
func mutantsOf(s *source) []*mutant {
	l := &lister{source: s, steps: map[ast.Stmt]bool{}, unread: map[ast.Expr]bool{}}
	for _, d := range s.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Body != nil && !describes[d.Name.Name] {
				l.function(d.Type, d.Body)
			}
		case *ast.GenDecl:
			if d.Tok != token.IMPORT && d.Tok != token.TYPE {
				l.walk(d, nil)
			}
		}
	}
	return l.mutants
}

// describes are methods that make text for people.
var describes = map[string]bool{"Error": true, "String": true, "GoString": true, "Format": true}

// function lists the mutants of a function's body, whose returns are its own.
func (l *lister) function(signature *ast.FuncType, body *ast.BlockStmt) {
	l.walk(body, signature)
}

// walk visits everything below a node, in a function of this signature.
func (l *lister) walk(root ast.Node, signature *ast.FuncType) {
	ast.Inspect(root, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			l.function(n.Type, n.Body)
			return false
		case *ast.BinaryExpr:
			l.binary(n)
		case *ast.IfStmt:
			l.condition(n.Cond)
		case *ast.ForStmt:
			l.steps[n.Post] = true
		case *ast.BasicLit:
			l.constant(n)
		case *ast.Ident:
			l.truth(n)
		case *ast.AssignStmt:
			l.assignment(n)
		case *ast.IncDecStmt:
			l.drop(n)
		case *ast.BranchStmt:
			if n.Label == nil && n.Tok != token.FALLTHROUGH {
				l.drop(n)
			}
		case *ast.DeferStmt:
			l.dropCall(n, n.Call)
		case *ast.ExprStmt:
			if call, ok := n.X.(*ast.CallExpr); ok {
				l.dropCall(n, call)
			}
		case *ast.ReturnStmt:
			l.result(n, signature)
		case *ast.CallExpr:
			if l.texts(n) {
				return false
			}
			l.exchange(n)
		case *ast.IndexExpr:
			return l.isValue(n.X) // [N]T and the like have constants of their own
		case *ast.ArrayType, *ast.StructType, *ast.InterfaceType:
			return false
		}
		return true
	})
}

// add notes the replacement of what lies between two positions, if that is within one line.
func (l *lister) add(kind string, from, to token.Pos, text string) {
	fset := l.source.pkg.fset
	start, end := fset.Position(from), fset.Position(to)
	if start.Line != end.Line {
		return
	}
	l.mutants = append(l.mutants, &mutant{source: l.source, kind: kind, line: start.Line, start: start.Offset, end: end.Offset, text: text})
}

func (l *lister) text(n ast.Node) string {
	fset := l.source.pkg.fset
	return l.source.text[fset.Position(n.Pos()).Offset:fset.Position(n.End()).Offset]
}

// swaps has what each operator is replaced by.
var swaps = map[token.Token][]string{
	token.LSS: {"<=", ">="}, token.LEQ: {"<", ">"}, token.GTR: {">=", "<="}, token.GEQ: {">", "<"},
	token.EQL: {"!="}, token.NEQ: {"=="}, token.LAND: {"||"}, token.LOR: {"&&"},
	token.ADD: {"-"}, token.SUB: {"+"}, token.MUL: {"/"}, token.QUO: {"*"}, token.REM: {"*"},
	token.SHL: {">>"}, token.SHR: {"<<"}, token.AND: {"|"}, token.OR: {"&"}, token.XOR: {"|"}, token.AND_NOT: {"&"},
	token.ADD_ASSIGN: {"-="}, token.SUB_ASSIGN: {"+="}, token.MUL_ASSIGN: {"/="}, token.QUO_ASSIGN: {"*="},
	token.OR_ASSIGN: {"&="}, token.AND_ASSIGN: {"|="}, token.AND_NOT_ASSIGN: {"&="}, token.SHL_ASSIGN: {">>="}, token.SHR_ASSIGN: {"<<="},
}

// binary swaps an operator. A comparison with an error is left to condition, where it becomes an error that is ignored.
func (l *lister) binary(n *ast.BinaryExpr) {
	if isError(l.typeOf(n.X)) || isString(l.typeOf(n.X)) && n.Op == token.ADD {
		return
	}
	for _, by := range swaps[n.Op] {
		l.add("operator", n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), by)
	}
}

// condition negates one that is no comparison, and ignores errors.
func (l *lister) condition(n ast.Expr) {
	compare, ok := n.(*ast.BinaryExpr)
	switch {
	case !ok:
		l.add("condition", n.Pos(), n.End(), "!("+l.text(n)+")")
	case compare.Op == token.NEQ && isError(l.typeOf(compare.X)):
		l.add("ignored error", n.Pos(), n.End(), l.text(n)+" && false")
	}
}

// constant moves an integer by one. Octal ones are permissions of files.
func (l *lister) constant(n *ast.BasicLit) {
	value, err := strconv.ParseInt(n.Value, 10, 64)
	if l.unread[n] || n.Kind != token.INT || err != nil || len(n.Value) > 1 && n.Value[0] == '0' {
		return
	}
	l.add("constant", n.Pos(), n.End(), strconv.FormatInt(value+1, 10))
	if value > 0 {
		l.add("constant", n.Pos(), n.End(), strconv.FormatInt(value-1, 10))
	}
}

var opposites = map[string]string{"true": "false", "false": "true"}

func (l *lister) truth(n *ast.Ident) {
	if by := opposites[n.Name]; by != "" && !l.unread[n] && l.source.pkg.info.Uses[n] == types.Universe.Lookup(n.Name) {
		l.add("constant", n.Pos(), n.End(), by)
	}
}

// assignment swaps its operator, and drops it where it declares nothing.
func (l *lister) assignment(n *ast.AssignStmt) {
	for _, by := range swaps[n.Tok] {
		if !isString(l.typeOf(n.Lhs[0])) {
			l.add("operator", n.TokPos, n.TokPos+token.Pos(len(n.Tok.String())), by)
		}
	}
	if blank, ok := n.Lhs[0].(*ast.Ident); n.Tok != token.DEFINE && (!ok || blank.Name != "_") {
		l.drop(n)
	}
}

func (l *lister) drop(n ast.Stmt) {
	if !l.steps[n] {
		l.add("dropped", n.Pos(), n.End(), "")
	}
}

// kept are calls without which the program stops at once, or which only the race detector misses.
var kept = map[string]bool{"panic": true, "Lock": true, "Unlock": true, "RLock": true, "RUnlock": true, "KeepAlive": true, "Done": true}

func (l *lister) dropCall(n ast.Stmt, call *ast.CallExpr) {
	if !kept[called(call)] {
		l.drop(n)
	}
}

// called returns the last part of the name of what is called, or "".
func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// result returns nil in the place of an error. What is returned beside one is read by nobody.
func (l *lister) result(n *ast.ReturnStmt, signature *ast.FuncType) {
	if len(n.Results) == 0 || signature == nil || signature.Results.NumFields() != len(n.Results) {
		return
	}
	last := n.Results[len(n.Results)-1]
	if tv := l.source.pkg.info.Types[signature.Results.List[len(signature.Results.List)-1].Type]; isError(tv.Type) && l.text(last) != "nil" {
		l.add("lost error", last.Pos(), last.End(), "nil")
		for _, beside := range n.Results[:len(n.Results)-1] {
			l.unread[beside] = true
		}
	}
}

// texts reports whether a call is about text for people: an error, a panic, something printed.
func (l *lister) texts(call *ast.CallExpr) bool {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name == "panic"
	case *ast.SelectorExpr:
		x, ok := f.X.(*ast.Ident)
		return ok && (x.Name == "errors" && f.Sel.Name != "As" && f.Sel.Name != "Is" || x.Name == "fmt")
	}
	return false
}

// exchange swaps two arguments, side by side, of one type. What follows a format is text for people.
func (l *lister) exchange(call *ast.CallExpr) {
	if name := called(call); name == "max" || name == "min" || name == "append" || strings.HasSuffix(name, "Equal") {
		return
	}
	for i := 1; i < len(call.Args); i++ {
		a, b := call.Args[i-1], call.Args[i]
		if literal, ok := a.(*ast.BasicLit); ok && strings.Contains(literal.Value, "%") {
			return
		}
		one, other := l.typeOf(a), l.typeOf(b)
		if one == nil || other == nil || !types.Identical(one, other) || l.text(a) == l.text(b) {
			continue
		}
		l.add("arguments", a.Pos(), b.End(), l.text(b)+", "+l.text(a))
	}
}

func (l *lister) typeOf(e ast.Expr) types.Type {
	return l.source.pkg.info.Types[e].Type
}

func (l *lister) isValue(e ast.Expr) bool {
	return l.source.pkg.info.Types[e].IsValue()
}

func isError(t types.Type) bool {
	return t != nil && types.Identical(t, types.Universe.Lookup("error").Type())
}

func isString(t types.Type) bool {
	if t == nil {
		return false
	}
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Info()&types.IsString != 0
}
