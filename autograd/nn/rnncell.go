package nn

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// RNNCell is one step of an LSTM or GRU, for programs that run the steps themselves. Its parameters are weight_ih, weight_hh,
// bias_ih and bias_hh.
type RNNCell struct {
	Base
	Inputs, Units int
	unit          unitKind
	weights       *rnnDirection
}

// LSTMCell makes one step of an LSTM (torch.nn.LSTMCell). All weights start uniform in ±1/sqrt(units). NoRNNBias is the only
// option that it has: others are an *ArgumentError of To and Forward.
func LSTMCell(inputs, units int, opts ...RNNOption) *RNNCell {
	return newCell(lstmUnits, inputs, units, opts)
}

// GRUCell makes one step of a GRU (torch.nn.GRUCell). See LSTMCell.
func GRUCell(inputs, units int, opts ...RNNOption) *RNNCell {
	return newCell(gruUnits, inputs, units, opts)
}

func newCell(unit unitKind, inputs, units int, opts []RNNOption) *RNNCell {
	var config rnnConfig
	for _, o := range opts {
		if o != nil {
			o.applyRNN(&config)
		}
	}
	c := &RNNCell{Inputs: inputs, Units: units, unit: unit}
	c.refuseForeign(&config.given, c.kind(), "")
	c.weights = newDirection(&c.Base, unit.gates(), inputs, units, 0, "", config.noBias, false)
	return c
}

// Forward implements Layer: it starts from states of zeros and returns the state after the step.
func (c *RNNCell) Forward(x *autograd.Variable) *autograd.Variable {
	return within(c, x, func(*autograd.Graph) *autograd.Variable {
		h, _ := c.step(x, nil, nil)
		return h
	})
}

// Step takes inputs x, [B, inputs] or [inputs], the state h and, for LSTM, the cell, [B, units] or [units], to the next state and
// cell; nil ones are zero. The cell of a GRU is nil.
func (c *RNNCell) Step(x, h, cell *autograd.Variable) (next, nextCell *autograd.Variable) {
	if x == nil {
		return nil, nil
	}
	if c == nil {
		failed := x.Graph().Refuse("forward", nilLayer[RNNCell](), x)
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

func (c *RNNCell) step(x, h, cell *autograd.Variable) (next, nextCell *autograd.Variable) {
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
	steps := x.Unsqueeze(0)
	if c.unit == gruUnits {
		_, next = steps.GRU(state(h), c.weights.weights(g, c), false)
	} else {
		_, next, nextCell = steps.LSTM(state(h), state(cell), c.weights.weights(g, c), false)
	}
	if alone {
		next = next.Squeeze(0)
		if nextCell != nil {
			nextCell = nextCell.Squeeze(0)
		}
	}
	return next, nextCell
}

// refusal says what is wrong with the input or the states.
func (c *RNNCell) refusal(x, h, cell *autograd.Variable) error {
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
func (c *RNNCell) kind() string {
	if c.unit == gruUnits {
		return "GRUCell"
	}
	return "LSTMCell"
}

// op is the name of the operation in errors.
func (c *RNNCell) op() string {
	if c.unit == gruUnits {
		return "gru_cell"
	}
	return "lstm_cell"
}

// String is PyTorch's description.
func (c *RNNCell) String() string {
	if c == nil {
		return "nil"
	}
	name := c.kind()
	if c.weights == nil || c.weights.biasIH == nil {
		return fmt.Sprintf("%s(%d, %d, bias=False)", name, c.Inputs, c.Units)
	}
	return fmt.Sprintf("%s(%d, %d)", name, c.Inputs, c.Units)
}
