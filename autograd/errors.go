package autograd

import (
	stderrors "errors"
	"fmt"
	"strings"

	"github.com/cistern-ml/cistern/tensor"
)

// Sentinels for errors.Is. Each has a typed error, for errors.As, with the values.
var (
	ErrReleased        = stderrors.New("value was released")                      // *ReleasedError
	ErrSecondBackward  = stderrors.New("second backward over freed nodes")        // *SecondBackwardError
	ErrModified        = stderrors.New("saved tensor was modified in place")      // *ModifiedError
	ErrNoGrad          = stderrors.New("variable does not require a gradient")    // *GradError
	ErrNotMaterialized = stderrors.New("parameter has no tensor")                 // *ParameterError
	ErrNilVariable     = stderrors.New("nil variable")                            // plain
	ErrNilGraph        = stderrors.New("nil graph")                               // plain
	ErrOtherGraph      = stderrors.New("variables belong to different graphs")    // plain, inside an *OpError
	ErrHigherOrder     = stderrors.New("gradients of gradients are not computed") // plain
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
func (o Operand) String() string { return o.DType.String() + o.Shape.String() }

// OpError is an operation that failed, in the forward or in the backward pass. Err says why: an error of package tensor
// (*tensor.ShapeError, ...), of the allocator (*memory.OOMError), or of this package.
type OpError struct {
	Op       string // the operation's name, as in "matmul"
	Backward bool   // it is the gradient rule that failed
	Operands []Operand
	Site     Site // where the program called the operation; unknown in backward, unless the graph detects anomalies
	Err      error
}

// Error is one line, as in "autograd: matmul(float32[2, 3], float32[4, 5]) at train.go:31: ...".
func (e *OpError) Error() string {
	var b strings.Builder
	b.WriteString("autograd: ")
	if e.Backward {
		b.WriteString("backward of ")
	}
	b.WriteString(e.Op)
	b.WriteByte('(')
	for i, o := range e.Operands {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(o.String())
	}
	b.WriteByte(')')
	if e.Site.Known() {
		b.WriteString(" at ")
		b.WriteString(e.Site.String())
	}
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the reason.
func (e *OpError) Unwrap() error { return e.Err }

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
}

// Error is one line that says what was used, and why it is gone.
func (e *ReleasedError) Error() string {
	if e.Operand.DType == 0 {
		return fmt.Sprintf("%s: %v: %s", e.Use, ErrReleased, e.Reason)
	}
	return fmt.Sprintf("%s: value of %s was released: %s", e.Use, e.Operand, e.Reason)
}

// Unwrap returns ErrReleased.
func (e *ReleasedError) Unwrap() error { return ErrReleased }

// SecondBackwardError is a backward pass over a node whose saved tensors an earlier pass has freed.
type SecondBackwardError struct {
	Op string // the first such node that was found
}

// Error is PyTorch's explanation.
func (e *SecondBackwardError) Error() string {
	return fmt.Sprintf("trying to backward through the graph a second time: the tensors that %s saved were freed by the first "+
		"Backward; pass RetainGraph() to it if the graph is needed again", e.Op)
}

// Unwrap returns ErrSecondBackward.
func (e *SecondBackwardError) Unwrap() error { return ErrSecondBackward }

// ModifiedError is a tensor that a node saved, and that was then changed in place, so that the gradient would be wrong.
type ModifiedError struct {
	Op       string // the operation that saved it
	Saved    string // what it is to the operation: "input 1", "its output", "a workspace"
	Operand  Operand
	Version  uint32 // of the storage, now
	Expected uint32 // of the storage, when it was saved
}

// Error is PyTorch's explanation.
func (e *ModifiedError) Error() string {
	return fmt.Sprintf("one of the variables needed for gradient computation has been modified by an in-place operation: %s, "+
		"which is %s of %s, is at version %d; expected version %d instead", e.Operand, e.Saved, e.Op, e.Version, e.Expected)
}

// Unwrap returns ErrModified.
func (e *ModifiedError) Unwrap() error { return ErrModified }

// GradError is a Backward, or a leaf, that cannot have gradients.
type GradError struct {
	Detail string
}

func (e *GradError) Error() string { return e.Detail }

// Unwrap returns ErrNoGrad.
func (e *GradError) Unwrap() error { return ErrNoGrad }

// ParameterError is the use of a parameter that has no tensor, because it was not materialized or was released.
type ParameterError struct {
	Name  string
	Shape tensor.Shape
}

func (e *ParameterError) Error() string {
	return fmt.Sprintf("parameter %q %s has no tensor: it was not materialized yet (To on the model), or it was released", e.Name, e.Shape)
}

// Unwrap returns ErrNotMaterialized.
func (e *ParameterError) Unwrap() error { return ErrNotMaterialized }
