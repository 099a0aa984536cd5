package tensor

import (
	"fmt"
	"path/filepath"
	"runtime"

	"github.com/cistern-ml/cistern/internal/replay"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/internal/userframe"
)

// CaptureError says that an operation cannot be part of work that is captured to be replayed (package autograd/stepgraph): it asks for a value,
// which is not there, because captured work does not run, or it takes from the host what would be the same in each replay.
type CaptureError struct {
	Op     string
	Detail string // why not, and what to do instead
	Site   string // the line of the program that asks, as in "train.go:31"; empty if it is not known
}

// Error returns one line, as in "tensor: Item at train.go:31: ...".
func (e *CaptureError) Error() string {
	where := e.Op
	if e.Site != "" {
		where += " at " + e.Site
	}
	return describe(where, nil, e.Detail)
}

// uncaptured refuses what reads or writes memory from the host, if the work of a stream is being recorded.
func (t *Tensor) uncaptured(name, detail string) error {
	r := replay.On(t.exec.stream)
	if r == nil {
		return nil
	}
	return r.Refuse(&CaptureError{Op: name, Detail: detail, Site: programLine()})
}

// Why values of the host are no part of a graph.
const (
	noValue = "the step is being captured, and does not run: there is no value to read. Return the variable from the step, and read it afterwards"
	noBytes = "the step is being captured, and a graph does not hold values of the host: make the tensor before, and give it to the step as an input"
)

// ProgramLine is the innermost line of the program, for the Site of a CaptureError. It is for packages of this module, which alone can write the key.
func ProgramLine(training.Key) string { return programLine() }

// programLine is the innermost line of the program.
func programLine() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if userframe.Program(f.Function, f.File) {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
		if !more {
			return ""
		}
	}
}
