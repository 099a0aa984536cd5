package abi

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// facts reads them, or ends the test.
func facts(t *testing.T) Facts {
	t.Helper()
	f, err := Read()
	require.NoError(t, err)
	return f
}

// positions is of all files that are parsed.
var positions = token.NewFileSet()

// files parses the Go files of a folder, without tests.
func files(t *testing.T, pattern string) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(pattern)
	require.NoError(t, err)
	var list []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(positions, name, nil, 0)
		require.NoError(t, err)
		list = append(list, f)
	}
	require.NotEmpty(t, list, pattern)
	return list
}

// symbols reads the table of exported names of a package: from the constant's name to the symbol.
func symbols(t *testing.T, file string) map[string]string {
	t.Helper()
	table := map[string]string{}
	ast.Inspect(files(t, file)[0], func(n ast.Node) bool {
		pair, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		key, isName := pair.Key.(*ast.Ident)
		value, isText := pair.Value.(*ast.BasicLit)
		if isName && isText && value.Kind == token.STRING {
			table[key.Name], _ = strconv.Unquote(value.Value)
		}
		return true
	})
	require.NotEmpty(t, table)
	return table
}

// constants evaluates the constants of one file that are numbers, without what it imports.
func constants(t *testing.T, file string) map[string]int64 {
	t.Helper()
	f := files(t, file)[0]
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}}
	config := types.Config{Error: func(error) {}} // what is declared in other files is not known
	_, _ = config.Check("p", positions, []*ast.File{f}, info)
	values := map[string]int64{}
	for name, object := range info.Defs {
		c, ok := object.(*types.Const)
		if !ok || c.Parent() == nil || c.Parent().Parent() != types.Universe { // of the package, not of a function
			continue
		}
		if n, exact := constant.Int64Val(constant.ToInt(c.Val())); exact && name.Name != "_" {
			values[name.Name] = n
		}
	}
	return values
}
