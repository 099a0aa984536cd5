package autograd

import (
	stderrors "errors"
	"fmt"
	"strings"

	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// Sentinels for errors.Is. Each has a typed error, for errors.As, with the values.
var (
	ErrReleased        = stderrors.New("value was released")                          // *ReleasedError
	ErrSecondBackward  = stderrors.New("second backward over freed nodes")            // *SecondBackwardError
	ErrModified        = stderrors.New("saved tensor was modified in place")          // *ModifiedError
	ErrNoGrad          = stderrors.New("variable does not require a gradient")        // *GradError
	ErrNotMaterialized = stderrors.New("parameter has no tensor")                     // *ParameterError
	ErrNilVariable     = stderrors.New("nil variable")                                // inside an *OpError
	ErrNilGraph        = stderrors.New("nil graph")                                   // plain
	ErrOtherGraph      = stderrors.New("variables belong to different graphs")        // inside an *OpError
	ErrHigherOrder     = stderrors.New("the gradient cannot be differentiated again") // inside an *OpError
	ErrReentrant       = stderrors.New("backward inside of a backward pass of the same graph")
	ErrPanicked        = stderrors.New("a backward pass was ended by a panic")
	ErrNaN             = stderrors.New("gradient has NaN elements") // inside an *OpError
)

// Operand is what an error keeps of a variable: it holds no memory of the device.
type Operand struct {
	DType tensor.DType
	Shape tensor.Shape
}

// String is type and shape, as in "float32[2, 3]".
func (o Operand) String() string {
	if o.DType == 0 {
		return "nil"
	}
	return o.DType.String() + o.Shape.String()
}

// OpError is an operation that failed, in the forward or in the backward pass. Err says why: an error of package tensor
// (*tensor.ShapeError, ...), of the allocator (*memory.OOMError), or of this package.
type OpError struct {
	Op       string // the operation's name, as in "matmul"
	Backward bool   // it is the gradient rule that failed
	Module   string // the path in the model of the module that ran it, as in "h.3.attn"; empty outside of modules, and before To
	Operands []Operand
	Site     Site // where the program called the operation; unknown in backward, unless the graph detects anomalies
	Err      error

	// How many graphs of the process had not been released when the operation ran out of memory, this one included; 0 after other errors.
	Unreleased int64
}

// Error is one line, as in "autograd: matmul(float32[2, 3], float32[4, 5]) in h.3.attn at train.go:31: ...".
func (e *OpError) Error() string {
	var b strings.Builder
	b.WriteString("autograd: ")
	if e.Backward {
		b.WriteString("backward of ")
	}
	b.WriteString(e.Op)
	for i, o := range e.Operands {
		b.WriteString([...]string{"(", ", "}[min(i, 1)])
		b.WriteString(o.String())
	}
	if len(e.Operands) > 0 {
		b.WriteByte(')')
	}
	if e.Module != "" {
		b.WriteString(" in ")
		b.WriteString(e.Module)
	}
	b.WriteString(e.Site.at())
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	if e.Unreleased > 1 {
		fmt.Fprintf(&b, " (%d graphs of this process are not released: Graph.Release gives their memory back)", e.Unreleased)
	}
	return b.String()
}

// Unwrap returns the reason.
func (e *OpError) Unwrap() error { return e.Err }

// counted notes how many graphs hold memory, if there is none left.
func (e *OpError) counted() *OpError {
	if stderrors.Is(e.Err, memory.ErrOutOfMemory) {
		e.Unreleased = unreleased.Load()
	}
	return e
}

// opError is the error of an operation that the program called now.
func (g *Graph) opError(op string, err error, operands ...Operand) error {
	e := &OpError{Op: op, Module: g.ModulePath(), Operands: operands, Site: callSite(), Err: err}
	return e.counted()
}

// called is the error of a call, of a method or function, that is no operation.
func called(name string, err error) error { return &OpError{Op: name, Site: callSite(), Err: err} }

// sited is called for an error that may have an operation or a line already.
func sited(name string, err error) error {
	var op *OpError
	var gone *ReleasedError
	var changed *ModifiedError
	var second *SecondBackwardError
	switch {
	case err == nil, stderrors.As(err, &op), stderrors.As(err, &changed), stderrors.As(err, &second):
		return err
	case stderrors.As(err, &gone) && gone.Site.Known():
		return err
	}
	return called(name, err)
}

// Refuse makes err, which a module found, the graph's error, as that of an operation that failed: an *OpError with the module's path,
// the operands and the program's line. It returns what operations return after an error.
func (g *Graph) Refuse(op string, err error, in ...*Variable) *Variable {
	if g == nil || err == nil || !g.ready(op) {
		return g.failed()
	}
	return g.fail(g.opError(op, err, operands(in)...))
}

// failed is the result of operations after an error; there is none of a nil graph.
func (g *Graph) failed() *Variable {
	if g == nil {
		return nil
	}
	return g.poison
}

// Reason says why the value of a variable is no longer there.
type Reason uint8

// The reasons. The zero Reason means that the value is there.
const (
	Alive         Reason = iota
	ScopeEnded           // the scope that made it ended, and did not return it
	BackwardDone         // backward passed it: its last reader was done
	ReleasedEarly        // Variable.Release
	Taken                // Variable.Take
	GraphReleased        // Graph.Release
)

var reasonText = [...]string{
	Alive:         "it is alive",
	ScopeEnded:    "the scope that made it has ended; return it from the scope to keep it",
	BackwardDone:  "backward has passed it; call Keep before Backward, or use RetainGraph, to read it afterwards",
	ReleasedEarly: "Release was called on it",
	Taken:         "it was taken out of the graph with Take",
	GraphReleased: "its graph was released",
}

// String says it in words.
func (r Reason) String() string {
	if int(r) < len(reasonText) {
		return reasonText[r]
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// ReleasedError is the use of a variable whose value is no longer there.
type ReleasedError struct {
	Use     string // what was attempted
	Operand Operand
	Reason  Reason
	Site    Site // where the program did so; unknown inside of an *OpError, which has it
}

// Error is one line that says what was used, and why it is gone.
func (e *ReleasedError) Error() string {
	if e.Operand.DType == 0 {
		return fmt.Sprintf("%s%s: %v: %s", e.Use, e.Site.at(), ErrReleased, e.Reason)
	}
	return fmt.Sprintf("%s%s: value of %s was released: %s", e.Use, e.Site.at(), e.Operand, e.Reason)
}

// Unwrap returns ErrReleased.
func (e *ReleasedError) Unwrap() error { return ErrReleased }

// SecondBackwardError is a backward pass over a node whose saved tensors an earlier pass has freed.
type SecondBackwardError struct {
	Op     string // the first such node that was found
	Module string // the path of the module that ran it; see OpError
	Site   Site   // where the program called Backward or Grad
}

// Error is PyTorch's explanation.
func (e *SecondBackwardError) Error() string {
	op := e.Op
	if e.Module != "" {
		op += " in " + e.Module
	}
	return fmt.Sprintf("trying to backward through the graph a second time%s: the tensors that %s saved were freed by the first "+
		"Backward; pass RetainGraph() to it if the graph is needed again", e.Site.at(), op)
}

// Unwrap returns ErrSecondBackward.
func (e *SecondBackwardError) Unwrap() error { return ErrSecondBackward }

// ModifiedError is a tensor that a node saved, and that was then changed in place, so that the gradient would be wrong.
type ModifiedError struct {
	Op        string // the operation that saved it
	Module    string // the path of the module that ran the operation; see OpError
	Site      Site   // where the program called the operation; known if the graph detects anomalies
	Saved     string // what it is to the operation: "input 1", "the output", "workspace 0"
	Parameter string // its name, if it is a parameter
	Operand   Operand
	Version   uint32 // of the storage, now
	Expected  uint32 // of the storage, when it was saved
	ChangedBy string // the operation in place of the graph that changed it, as in "relu_"; empty for changes of tensors
	Changed   Site   // where the program changed it last; known if the graph detects anomalies
}

// Error is PyTorch's explanation, with what is known of both places.
func (e *ModifiedError) Error() string {
	var b strings.Builder
	b.WriteString("one of the variables needed for gradient computation has been modified by an in-place operation: ")
	if e.Parameter != "" {
		fmt.Fprintf(&b, "parameter %q ", excerpt.Of(e.Parameter))
	}
	fmt.Fprintf(&b, "%s, which is %s of %s", e.Operand, e.Saved, e.Op)
	if e.Module != "" {
		b.WriteString(" in " + e.Module)
	}
	b.WriteString(e.Site.at())
	fmt.Fprintf(&b, ", is at version %d; expected version %d instead", e.Version, e.Expected)
	if e.ChangedBy != "" {
		b.WriteString("; " + e.ChangedBy + " changed it")
	}
	switch {
	case e.Changed.Known():
		b.WriteString("; it was changed at " + e.Changed.String())
	case !e.Site.Known():
		b.WriteString("; a graph with DetectAnomaly says at which lines")
	}
	return b.String()
}

// Unwrap returns ErrModified.
func (e *ModifiedError) Unwrap() error { return ErrModified }

// GradError is a Backward, or a leaf, that cannot have gradients.
type GradError struct {
	Detail string
	Site   Site // where the program asked for them; unknown inside of an *OpError, which has it
}

func (e *GradError) Error() string {
	if !e.Site.Known() {
		return e.Detail
	}
	return "autograd: " + e.Detail + "," + e.Site.at()
}

// gradError is a GradError of what the program called now.
func gradError(format string, args ...any) error {
	return &GradError{Detail: fmt.Sprintf(format, args...), Site: callSite()}
}

// Unwrap returns ErrNoGrad.
func (e *GradError) Unwrap() error { return ErrNoGrad }

// ParameterError is the use of a parameter that has no tensor, because it was not materialized or was released.
type ParameterError struct {
	Name   string // with the path of its layer, where that is known
	Shape  tensor.Shape
	Layer  string // the layer's description, empty if the error does not come from one
	Detail string // why, if that is known
}

// Error is one line, as in `parameter "0.weight" [3, 2] of Linear(...) has no tensor: ...`.
func (e *ParameterError) Error() string {
	if e.Name == "" && e.Shape == nil {
		return "the parameter is nil"
	}
	layer, why := "", e.Detail
	if e.Layer != "" {
		layer = " of " + e.Layer
	}
	if why == "" {
		why = "it was not materialized yet (To on the model), or it was released"
	}
	return fmt.Sprintf("parameter %q %s%s has no tensor: %s", excerpt.Of(e.Name), e.Shape, layer, why)
}

// Unwrap returns ErrNotMaterialized.
func (e *ParameterError) Unwrap() error { return ErrNotMaterialized }

// higherOrder says why a gradient cannot be differentiated again.
func higherOrder(why string) error { return fmt.Errorf("%w: %s", ErrHigherOrder, why) }
