package nn

import (
	"fmt"
	"strings"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// RNNCellLayer is one step of an LSTM, GRU or RNN, for programs that run the steps themselves. Its parameters are weight_ih, weight_hh,
// bias_ih and bias_hh.
type RNNCellLayer struct {
	Base
	Inputs, Units int
	unit          unitKind
	relu          bool
	weights       *rnnDirection
}

// LSTMCell makes one step of an LSTM (torch.nn.LSTMCell). All weights start uniform in ±1/sqrt(units). NoRNNBias is the only
// option that it has: others are an *ArgumentError of To and Forward.
func LSTMCell(inputs, units int, opts ...RNNOption) *RNNCellLayer {
	return newCell(lstmUnits, inputs, units, opts)
}

// GRUCell makes one step of a GRU (torch.nn.GRUCell). See LSTMCell.
func GRUCell(inputs, units int, opts ...RNNOption) *RNNCellLayer {
	return newCell(gruUnits, inputs, units, opts)
}

// RNNCell makes one step of plain recurrent units, tanh(W x + V h + biases) (torch.nn.RNNCell). NonlinearityReLU is an option too. See LSTMCell.
func RNNCell(inputs, units int, opts ...RNNOption) *RNNCellLayer {
	return newCell(plainUnits, inputs, units, opts)
}

func newCell(unit unitKind, inputs, units int, opts []RNNOption) *RNNCellLayer {
	var config rnnConfig
	for _, o := range opts {
		if o != nil {
			o.applyRNN(&config)
		}
	}
	c := &RNNCellLayer{Inputs: inputs, Units: units, unit: unit, relu: config.relu}
	own := ""
	if unit == plainUnits {
		own = "NonlinearityReLU"
	}
	c.refuseForeign(&config.given, c.kind(), own)
	c.weights = newDirection(&c.Base, unit.gates(), inputs, units, 0, "", config.noBias, false)
	return c
}

// Forward implements Layer: it starts from states of zeros and returns the state after the step.
func (c *RNNCellLayer) Forward(x *autograd.Variable) *autograd.Variable {
	return within(c, x, func(*autograd.Graph) *autograd.Variable {
		h, _ := c.step(x, nil, nil)
		return h
	})
}

// Step takes inputs x, [B, inputs] or [inputs], the state h and, for LSTM, the cell, [B, units] or [units], to the next state and
// cell; nil ones are zero. The cell of a GRU or RNN is nil.
func (c *RNNCellLayer) Step(x, h, cell *autograd.Variable) (next, nextCell *autograd.Variable) {
	if x == nil {
		return nil, nil
	}
	if c == nil {
		failed := x.Graph().Refuse("forward", nilLayer[RNNCellLayer](), x)
		return failed, failed
	}
	if err := c.mistake(); err != nil {
		failed := x.Graph().Refuse("forward", err, x)
		return failed, failed
	}
	results := x.Graph().ModuleScopes((*located)(&c.Base), func() []*autograd.Variable {
		return c.calling(x.Graph(), x, false, func() []*autograd.Variable {
			next, nextCell := c.step(x, h, cell)
			if nextCell == nil {
				return []*autograd.Variable{next}
			}
			return []*autograd.Variable{next, nextCell}
		})
	})
	switch {
	case len(results) == 0:
		return nil, nil
	case len(results) == 2:
		nextCell = results[1]
	case c.unit == lstmUnits: // after an error
		nextCell = results[0]
	}
	return results[0], nextCell
}

func (c *RNNCellLayer) step(x, h, cell *autograd.Variable) (next, nextCell *autograd.Variable) {
	g, alone := x.Graph(), x.NDim() == 1
	if err := c.refusal(x, h, cell); err != nil {
		failed := g.Refuse(c.op(), err, x)
		return failed, failed
	}
	if alone {
		x = x.Unsqueeze(0)
	}
	state := func(v *autograd.Variable) *autograd.Variable {
		switch {
		case v == nil:
			return zeroState(g, x, x.Dim(0), c.Units)
		case alone:
			return v.Unsqueeze(0)
		}
		return v
	}
	switch c.unit {
	case gruUnits:
		_, next = x.Unsqueeze(0).GRU(state(h), c.weights.weights(g, c), false)
	case plainUnits:
		next = c.plainStep(x, state(h), c.weights.weights(g, c))
	default:
		_, next, nextCell = x.Unsqueeze(0).LSTM(state(h), state(cell), c.weights.weights(g, c), false)
	}
	if alone {
		next = next.Squeeze(0)
		if nextCell != nil {
			nextCell = nextCell.Squeeze(0)
		}
	}
	return next, nextCell
}

func (c *RNNCellLayer) plainStep(x, h *autograd.Variable, w autograd.RecurrentWeights) *autograd.Variable {
	sum := x.Linear(w.IH, w.BiasIH).Add(h.Linear(w.HH, w.BiasHH))
	if c.relu {
		return sum.ReLU()
	}
	return sum.Tanh()
}

// refusal says what is wrong with the input or the states.
func (c *RNNCellLayer) refusal(x, h, cell *autograd.Variable) error {
	switch n := x.NDim(); {
	case x.Graph().Err() != nil:
		return nil
	case n != 1 && n != 2:
		return shapeError(c.String(), x, "the input has %s; want [N, %d], or [%d] for one sequence alone", dimensions(n), c.Inputs, c.Inputs)
	case x.Dim(-1) != c.Inputs:
		return shapeError(c.String(), x, "the input has %d features, the layer takes %d", x.Dim(-1), c.Inputs)
	}
	want := x.Shape().Clone()
	want[len(want)-1] = c.Units
	for i, v := range []*autograd.Variable{h, cell} {
		if v != nil && !v.Shape().Equal(want) {
			return &tensor.ShapeError{Op: c.String(), Shapes: []tensor.Shape{x.Shape().Clone(), v.Shape().Clone()},
				Detail: fmt.Sprintf("the %s has shape %v, want %v", [2]string{"state", "cell"}[i], v.Shape(), want)}
		}
	}
	return noCell(c.String(), c.unit, cell)
}

// kind is the name of the constructor.
func (c *RNNCellLayer) kind() string { return c.unit.String() + "Cell" }

// op is the name of the operation in errors.
func (c *RNNCellLayer) op() string { return strings.ToLower(c.unit.String()) + "_cell" }

// String is PyTorch's description.
func (c *RNNCellLayer) String() string {
	if c == nil {
		return "nil"
	}
	more := ""
	if c.weights == nil || c.weights.biasIH == nil {
		more = ", bias=False"
	}
	if c.relu {
		more += ", nonlinearity=relu"
	}
	return fmt.Sprintf("%s(%d, %d%s)", c.kind(), c.Inputs, c.Units, more)
}
