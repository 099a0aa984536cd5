package autograd

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// Site is a place in the program's source.
type Site struct {
	Function string // with its package path
	File     string // as the compiler recorded it
	Line     int
}

// Known reports whether the site was recorded.
func (s Site) Known() bool { return s.Line != 0 }

// String is the file's name without its directories, and the line.
func (s Site) String() string { return fmt.Sprintf("%s:%d", filepath.Base(s.File), s.Line) }

// internalPackages are skipped on the way up the stack: what interests is the line of the program that uses them.
var internalPackages = map[string]bool{}

func init() {
	root := packageOf(callerName())
	for _, p := range []string{"", "/nn", "/gradcheck"} {
		internalPackages[root+p] = true
	}
	internalPackages[strings.TrimSuffix(root, "autograd")+"amp"] = true
}

func callerName() string {
	pc, _, _, _ := runtime.Caller(1)
	return runtime.FuncForPC(pc).Name()
}

// packageOf cuts the package path out of a function's full name: everything before the first dot after the last slash.
func packageOf(function string) string {
	slash := strings.LastIndexByte(function, '/') + 1
	if dot := strings.IndexByte(function[slash:], '.'); dot >= 0 {
		return function[:slash+dot]
	}
	return function
}

// callSite finds the first frame outside this package and its children, tests of them excepted. It is only called when
// something failed, or when the graph detects anomalies: walking the stack costs about a microsecond.
func callSite() Site {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if !internalPackages[packageOf(f.Function)] || strings.HasSuffix(f.File, "_test.go") {
			return Site{Function: f.Function, File: f.File, Line: f.Line}
		}
		if !more {
			return Site{}
		}
	}
}
