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

// at is " at " and the place, empty for none.
func (s Site) at() string {
	if !s.Known() {
		return ""
	}
	return " at " + s.String()
}

// moduleRoot is the folder of this module, as the compiler writes it in the names of files.
var moduleRoot = func() string {
	_, file, _, _ := runtime.Caller(0)
	return strings.TrimSuffix(file, "autograd/site.go")
}()

// library reports whether a file belongs to this library, and not to a program, an example or a test: what interests is the line of the
// program. It goes by files, because a closure that is inlined has its caller's package in the name of its function.
func library(file string) bool {
	path, ours := strings.CutPrefix(file, moduleRoot)
	if !ours || strings.HasSuffix(path, "_test.go") {
		return false
	}
	switch folder, _, _ := strings.Cut(path, "/"); folder {
	case "amp", "autograd", "device", "kernels", "memory", "tensor":
		return true
	}
	return false
}

// callSite finds the innermost frame outside of the library. It is only called when something failed, or when the graph detects
// anomalies: walking the stack costs about a microsecond.
func callSite() Site {
	var few [32]uintptr
	pcs := few[:]
	n := runtime.Callers(2, pcs)
	for n == len(pcs) { // deep models have deep stacks
		pcs = make([]uintptr, 4*len(pcs))
		n = runtime.Callers(2, pcs)
	}
	return siteOf(pcs[:n])
}

// siteOf finds the innermost frame outside of the library among program counters.
func siteOf(pcs []uintptr) Site {
	if len(pcs) == 0 {
		return Site{}
	}
	frames := runtime.CallersFrames(pcs)
	for {
		f, more := frames.Next()
		if !library(f.File) {
			return Site{Function: f.Function, File: f.File, Line: f.Line}
		}
		if !more {
			return Site{}
		}
	}
}
