package tensor

import (
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/kernels/op"
)

// recurrentPass is a backward pass over a sequence.
type recurrentPass struct {
	*Recurrent
	s       *RecurrentState
	wants   training.Wants
	steps   int
	dy      operand // one step of the gradient of the output, or zeros for all steps
	dyAll   *Tensor // nil for zeros
	dh, dc  *Tensor // [B, H]: what flows to the step before
	dgates  *Tensor // [T, B, G*H]
	dhidden *Tensor // likewise: dgates itself for LSTM
	temps   []*Tensor
}

// Recurrent computes the gradients of r's operands from those of Output, H and C, of which nil ones are zero. s is what Forward(true)
// returned. Of r it needs WeightHH, C0 for LSTM and H0 for GRU; WeightIH for the gradient of X, X for that of WeightIH, H0 for that of WeightHH; and
// of s Output for that of WeightHH, and for GRU. The rest may be nil. With reuse the gradients of the gates are written over
// s.Gates, whose elements are undefined afterwards. The caller releases the result.
func (gradients) Recurrent(r *Recurrent, s *RecurrentState, dOutput, dH, dC *Tensor, wants training.Wants, reuse bool) (*recurrentGrads, error) {
	if r == nil {
		return nil, valueErr(recurrentName, "the layer is nil")
	}
	if s == nil {
		return nil, &ReleasedError{Op: recurrentName, Nil: true}
	}
	p := &recurrentPass{Recurrent: r, s: s, wants: wants}
	if err := p.check(); err != nil {
		return nil, err
	}
	if err := p.checkGrads(dOutput, dH, dC); err != nil {
		return nil, err
	}
	defer func() {
		for _, t := range p.temps {
			t.Release()
		}
	}()
	g := new(recurrentGrads)
	err := p.begin(dOutput, dH, dC, reuse)
	if err == nil && s.Inner.Len() > 0 {
		err = p.run()
	}
	if err == nil {
		err = p.collect(g)
	}
	if err != nil {
		g.Release()
		return nil, err
	}
	return g, nil
}

// check refuses what is missing or of a wrong shape.
func (p *recurrentPass) check() error {
	all := []*Tensor{p.s.Gates, p.s.Inner, p.WeightHH}
	var shapes [][]int
	if err := sameFloat(recurrentName, all...); err != nil {
		return err
	}
	if p.s.Inner.NDim() != 3 {
		return shapeErr(recurrentName, shapesOf(all), "the state of a sequence has three dimensions")
	}
	steps, batch, units := p.s.Inner.Dim(0), p.s.Inner.Dim(1), p.s.Inner.Dim(2)
	shapes = [][]int{{steps, batch, p.gates() * units}, {steps, batch, units}, {p.gates() * units, units}}
	need := func(t *Tensor, shape ...int) {
		all, shapes = append(all, t), append(shapes, shape)
	}
	if p.GRU || p.wants.WeightHH {
		need(p.s.Output, steps, batch, units)
		need(p.H0, batch, units)
	}
	if !p.GRU {
		need(p.C0, batch, units)
	}
	if p.wants.X {
		need(p.WeightIH, p.gates()*units, p.WeightIH.lastDim())
	}
	if p.wants.WeightIH {
		need(p.X, steps, batch, p.X.lastDim())
	}
	if err := sameFloat(recurrentName, all...); err != nil {
		return err
	}
	for i, t := range all {
		if !t.Shape().Equal(shapes[i]) {
			return shapeErr(recurrentName, shapesOf(all), "operand %d is %v, want %v", i, t.Shape(), Shape(shapes[i]))
		}
	}
	p.steps = steps
	return nil
}

// checkGrads refuses gradients of results, of which nil ones are zero, that are not of the results' shapes.
func (p *recurrentPass) checkGrads(dOutput, dH, dC *Tensor) error {
	state := p.s.Inner.Shape()[1:]
	for i, t := range []*Tensor{dOutput, dH, dC} {
		if t == nil {
			continue
		}
		if err := sameFloat(recurrentName, p.s.Gates, t); err != nil {
			return err
		}
		want := state
		if i == 0 {
			want = p.s.Inner.Shape()
		}
		if !t.Shape().Equal(want) {
			return shapeErr(recurrentName, []Shape{t.Shape()}, "gradient %d of the results, want %v", i, want)
		}
	}
	return nil
}

// lastDim is Dim(-1), 0 for nil and for a scalar.
func (t *Tensor) lastDim() int {
	if t == nil || t.NDim() == 0 {
		return 0
	}
	return t.Dim(-1)
}

// keep adds a temporary.
func (p *recurrentPass) keep(t *Tensor, err error) (*Tensor, error) {
	if err == nil {
		p.temps = append(p.temps, t)
	}
	return t, err
}

// begin takes the memory of the pass.
func (p *recurrentPass) begin(dOutput, dH, dC *Tensor, reuse bool) (err error) {
	e, dt := p.s.Gates.exec, p.s.Gates.dtype // not Owned: results are made under it
	state := Shape{p.s.Inner.Dim(1), p.s.Inner.Dim(2)}
	if p.dh, err = p.start(dH, state); err != nil {
		return err
	}
	if !p.GRU {
		if p.dc, err = p.start(dC, state); err != nil {
			return err
		}
	}
	switch {
	case dOutput != nil:
		if p.dyAll, err = dOutput.packedCopy(recurrentName); err != nil {
			return err
		}
		if p.dyAll != dOutput {
			p.temps = append(p.temps, p.dyAll)
		}
	default:
		zeros, err := p.keep(Zeros(e, dt, state...))
		if err != nil {
			return err
		}
		p.dy = operand{zeros, zeros.layout}
	}
	p.dgates = p.s.Gates
	if reuse {
		p.s.Gates.storage.changed()
	} else if p.dgates, err = p.keep(Empty(e, dt, p.s.Gates.Shape()...)); err != nil {
		return err
	}
	p.dhidden = p.dgates
	if p.GRU {
		p.dhidden, err = p.keep(Empty(e, dt, p.s.Gates.Shape()...))
	}
	return err
}

// start is a copy of the gradient of a last state, or zeros: the memory in which it flows back.
func (p *recurrentPass) start(from *Tensor, shape Shape) (*Tensor, error) {
	if from == nil {
		return p.keep(Zeros(p.s.Gates.exec, p.s.Gates.dtype, shape...))
	}
	return p.keep(from.convert(recurrentName, from.dtype, from.exec)) // contiguous, whatever the gradient's strides
}

// before is the state, or cell, before step n: what the step before has made, or the first one.
func (p *recurrentPass) before(n int, made, first *Tensor) operand {
	if n > 0 {
		return made.step(p.at(n-1, p.steps))
	}
	return operand{first, first.layout}
}

// run goes through the steps, the last one first.
func (p *recurrentPass) run() error {
	first := p.H0
	if !p.GRU {
		first = p.C0
	}
	first, err := first.packedCopy(recurrentName)
	if err != nil {
		return err
	}
	if first != p.H0 && first != p.C0 {
		p.temps = append(p.temps, first)
	}
	dh, dc := operand{p.dh, p.dh.layout}, operand{}
	if !p.GRU {
		dc = operand{p.dc, p.dc.layout}
	}
	weight := operand{p.WeightHH, p.WeightHH.layout}
	for n := p.steps - 1; n >= 0; n-- {
		i := p.at(n, p.steps)
		dy := p.dy
		if p.dyAll != nil {
			dy = p.dyAll.step(i)
		}
		gates, dgates, dhidden, inner := p.s.Gates.step(i), p.dgates.step(i), p.dhidden.step(i), p.s.Inner.step(i)
		if p.GRU {
			err = cellLaunch(op.GRUCellGrad, []operand{dgates, dhidden, dh}, []operand{gates, inner, p.before(n, p.s.Output, first), dy, dh})
			if err == nil {
				err = product2(dh, dhidden, weight, &dh, 1)
			}
		} else {
			err = cellLaunch(op.LSTMCellGrad, []operand{dgates, dc}, []operand{gates, p.before(n, p.s.Inner, first), inner, dy, dh, dc})
			if err == nil {
				err = product2(dh, dgates, weight, nil, 0)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
