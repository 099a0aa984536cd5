package abi

import (
	"go/ast"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// caller is a function through which device/cuda calls a library: where in its arguments the library's function is, and what it
// gives that function itself. -1 stands for as many arguments as follow.
type caller struct{ function, before, given int }

var callers = map[string]caller{
	"Add":           {0, 0, -1},
	"add":           {0, 0, -1},
	"call":          {1, 0, -1},
	"rawCall":       {0, 0, -1},
	"enqueue":       {2, 0, -1},
	"enqueueFor":    {3, 0, -1},
	"create":        {0, 1, -1}, // the address of what is made
	"unpin":         {3, 0, 1},
	"unload":        {2, 0, 1},
	"last":          {0, 0, -1},
	"destroyBLAS":   {0, 0, 1},
	"setAll":        {0, 0, 4},
	"poolAttribute": {1, 0, 3},
}

// noCalls are functions to which a function of a library is only a name.
var noCalls = map[string]bool{"Has": true, "Address": true, "fail": true}

// Each call of the driver and of cuBLAS, anywhere in device/cuda, gives the function as many arguments as it takes, and an
// out-parameter, which has 8 bytes, only where no more are written.
func TestCalls_GiveWhatTheHeadersSay(t *testing.T) {
	f := facts(t)
	tables := map[string]map[string]string{"driver": symbols(t, "../driver/symbols.go"), "cublas": symbols(t, "../cublas/symbols.go")}
	seen := map[string]bool{}
	check := func(pkg string, call *ast.CallExpr) {
		for i, a := range call.Args {
			owner, name, ok := selected(a)
			if pkg != "" && !ok {
				owner, name, ok = identified(pkg, a)
			}
			symbol := tables[owner][name]
			if !ok || symbol == "" || noCalls[called(call)] || name == "Foreign" {
				continue
			}
			c, known := callers[called(call)]
			require.True(t, known, "%s.%s is given to %s, of which this test does not know what it does", owner, name, called(call))
			require.Equal(t, c.function, i, "%s.%s", owner, name)
			want, ok := f.Functions[symbol]
			require.True(t, ok, "there are no facts about %s: run generate.sh", symbol)
			seen[symbol] = true
			compare(t, symbol, want, call, c)
		}
	}
	for pkg, pattern := range map[string]string{"": "../../*.go", "driver": "../driver/library.go"} {
		for _, file := range files(t, pattern) {
			ast.Inspect(file, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					check(pkg, call)
				}
				return true
			})
		}
	}
	require.Greater(t, len(seen), 70)
}

// compare compares one call with what the function takes.
func compare(t *testing.T, symbol string, want []Argument, call *ast.CallExpr, c caller) {
	t.Helper()
	given := call.Args[c.function+1:]
	if c.given < 0 && call.Ellipsis.IsValid() {
		require.NotEmpty(t, given) // the rest is checked where the slice is made: nobody does that with a name
		return
	}
	if c.given >= 0 {
		require.Len(t, want, c.given, "%s through %s", symbol, called(call))
		return
	}
	require.Len(t, want, c.before+len(given), symbol)
	for i, a := range given {
		inner, ok := a.(*ast.CallExpr)
		if !ok || called(inner) != "Out" {
			continue
		}
		to := want[c.before+i]
		require.True(t, to.Pointer && to.To >= 4 && to.To <= 8, "argument %d of %s is no place for an out-parameter", i, symbol)
	}
}

// called is the name of the function or method of a call.
func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		return f.Sel.Name
	case *ast.Ident:
		return f.Name
	}
	return ""
}

// selected takes package.Name apart.
func selected(e ast.Expr) (pkg, name string, ok bool) {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return "", "", false
	}
	x, ok := s.X.(*ast.Ident)
	if !ok {
		return "", "", false
	}
	return x.Name, s.Sel.Name, true
}

// identified is selected for a name of the file's own package.
func identified(pkg string, e ast.Expr) (owner, name string, ok bool) {
	x, ok := e.(*ast.Ident)
	if !ok {
		return "", "", false
	}
	return pkg, x.Name, true
}

// Whatever is looked up in a library is in a header, so that its arguments are known.
func TestSymbols_AreInTheHeaders(t *testing.T) {
	f := facts(t)
	for _, file := range []string{"../driver/symbols.go", "../cublas/symbols.go"} {
		for name, symbol := range symbols(t, file) {
			if name != "Foreign" {
				require.Contains(t, f.Functions, symbol, name)
			}
		}
	}
	for _, symbol := range []string{"nvmlInit_v2", "nvmlDeviceGetHandleByUUID", "nvmlSystemGetProcessName",
		"nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses_v3",
		"nvmlDeviceGetGraphicsRunningProcesses_v2", "nvmlDeviceGetGraphicsRunningProcesses_v3"} {
		require.Contains(t, f.Functions, symbol)
	}
	require.Len(t, f.Functions["cublasGemmStridedBatchedEx"], 23)
	for symbol, arguments := range f.Functions {
		if !strings.HasPrefix(symbol, "nvml") {
			require.LessOrEqual(t, len(arguments), 24, "%s has more arguments than a batch takes", symbol)
		}
	}
}

// A function that a driver may lack is asked for before it is called, somewhere.
func TestSymbols_ThatMayBeMissingAreAskedFor(t *testing.T) {
	numbers := constants(t, "../driver/symbols.go")
	asked := map[string]bool{}
	for _, file := range files(t, "../../*.go") {
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && called(call) == "Has" {
				for _, a := range call.Args {
					_, name, _ := selected(a)
					asked[name] = true
				}
			}
			return true
		})
	}
	optional := 0
	for name := range symbols(t, "../driver/symbols.go") {
		if numbers[name] > numbers["lastRequired"] {
			optional++
			require.True(t, asked[name], "%s is called without asking whether the driver has it", name)
		}
	}
	require.Greater(t, optional, 20)
}
