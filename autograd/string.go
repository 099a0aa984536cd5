package autograd

import (
	"fmt"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/internal/oneline"
)

// String is the variable in one line without its values, as in `variable float32[2, 3] of "linear", requires grad`. The name is that of
// the recorded operation. It reads no memory of the device; v.Tensor(), which can be printed too, has the values.
func (v *Variable) String() string {
	switch {
	case v == nil:
		return "variable (nil)"
	case v.g == nil:
		return "variable (of no graph)"
	case v.dtype == 0:
		return "variable (after an error of its graph)"
	}
	text := "variable " + v.operand().String() + v.now().origin()
	switch {
	case !v.Alive():
		text += ", released"
	case v.RequiresGrad():
		text += ", requires grad"
	}
	return text
}

// origin is where the value is from, as far as that is recorded.
func (v *Variable) origin() string {
	switch {
	case v.node != nil:
		return " of " + excerpt.Quote(v.node.op.name)
	case v.param != nil:
		return " of parameter " + excerpt.Quote(v.param.name)
	case v.given:
		return ", input"
	}
	return ""
}

// String is the parameter in one line without its values, as in `parameter "weight" float32[10, 784], cuda:0, gradient`. It reads no
// memory of the device; p.Tensor(), which can be printed too, has the values.
func (p *Parameter) String() string {
	if p == nil {
		return "parameter (nil)"
	}
	text := "parameter " + excerpt.Quote(p.name)
	if p.wrong != nil {
		return text + ", refused: " + oneline.Error(p.wrong)
	}
	t := p.Tensor()
	if t == nil {
		return text + " " + p.shape.String() + ", no tensor"
	}
	text += fmt.Sprintf(" %s%s, %s", t.DType(), t.Shape(), t.Device().ID())
	if !p.requiresGrad {
		text += ", requires no grad"
	}
	if p.grad != nil {
		text += ", gradient"
	}
	return text
}

// String is the graph in one line, as in "graph on host: 12 tensors of 3.2KiB, 5 operations recorded": what it holds, each view of a
// tensor and each leaf counted for itself, and how many operations it has recorded for backward passes.
func (g *Graph) String() string {
	if g == nil || g.ledger == nil {
		return "graph (nil)"
	}
	text := "graph"
	if !isnil.Value(g.dev) {
		text = fmt.Sprintf("graph on %s", g.dev.ID())
	}
	switch {
	case g.err != nil:
		return text + ", failed: " + oneline.Error(g.err)
	case g.released:
		return text + ", released"
	}
	bytes := uint64(0)
	for _, v := range g.ledger.values {
		bytes += uint64(v.t.Len()) * uint64(v.t.DType().Size())
	}
	return fmt.Sprintf("%s: %s of %s, %s recorded", text, oneline.Count(len(g.ledger.values), "tensor"), device.FormatBytes(bytes),
		oneline.Count(g.nodes, "operation"))
}
