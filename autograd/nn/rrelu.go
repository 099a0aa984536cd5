package nn

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
)

// RReLULayer is ReLU with a slope below 0 that is random in training.
type RReLULayer struct {
	Base
	Lower, Upper float64 // the slopes are between these
}

// RReLU makes a layer that is x where x > 0, else x times a slope: in training one between lower and upper for each element, drawn from the graph's
// generator, after Eval their mean. PyTorch's defaults are 1/8 and 1/3.
func RReLU(lower, upper float64) *RReLULayer {
	return &RReLULayer{Base: Base{listed: true}, Lower: lower, Upper: upper}
}

// Forward implements Layer.
func (l *RReLULayer) Forward(x *autograd.Variable) *autograd.Variable {
	return within(l, x, func(*autograd.Graph) *autograd.Variable { return x.RReLU(l.Lower, l.Upper, l.Training()) })
}

// String is PyTorch's description.
func (l *RReLULayer) String() string {
	if l == nil {
		return "nil"
	}
	return fmt.Sprintf("RReLU(lower=%v, upper=%v)", l.Lower, l.Upper)
}
