package autograd

import (
	"fmt"
	"path/filepath"
	"runtime"

	"github.com/cistern-ml/cistern/internal/userframe"
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

// callSite finds the innermost line of the program. It is only called when something failed, or when the graph detects
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

// siteOf finds the innermost line of the program among program counters.
func siteOf(pcs []uintptr) Site {
	if len(pcs) == 0 {
		return Site{}
	}
	frames := runtime.CallersFrames(pcs)
	for {
		f, more := frames.Next()
		if userframe.Program(f.Function, f.File) {
			return Site{Function: f.Function, File: f.File, Line: f.Line}
		}
		if !more {
			return Site{}
		}
	}
}
