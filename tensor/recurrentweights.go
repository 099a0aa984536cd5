package tensor

// collect makes the gradients of the operands of those of the gates: one product for all steps.
func (p *recurrentPass) collect(g *recurrentGrads) (err error) {
	g.H0 = p.dh.Retain()
	if !p.GRU {
		g.C0 = p.dc.Retain()
	}
	all := p.dgates.steps(0, p.steps)
	if p.wants.X {
		if g.X, err = p.empty(p.steps, p.s.Inner.Dim(1), p.WeightIH.Dim(1)); err != nil {
			return err
		}
		if err = product2(g.X.steps(0, p.steps), all, operand{p.WeightIH, p.WeightIH.layout}, nil, 0); err != nil {
			return err
		}
	}
	if p.wants.WeightIH {
		if g.WeightIH, err = p.inputWeight(all); err != nil {
			return err
		}
	}
	if p.wants.WeightHH {
		if g.WeightHH, err = p.stateWeight(); err != nil {
			return err
		}
	}
	if !p.wants.Bias {
		return nil
	}
	if g.BiasIH, err = p.dgates.Sum([]int{0, 1}, false); err != nil {
		return err
	}
	if !p.GRU {
		g.BiasHH = g.BiasIH.Retain()
		return nil
	}
	g.BiasHH, err = p.dhidden.Sum([]int{0, 1}, false)
	return err
}

func (p *recurrentPass) empty(shape ...int) (*Tensor, error) {
	return Empty(p.s.Gates.exec, p.s.Gates.dtype, shape...)
}

// inputWeight is the gradient of WeightIH.
func (p *recurrentPass) inputWeight(all operand) (*Tensor, error) {
	x, err := p.X.packedCopy(recurrentName)
	if err != nil {
		return nil, err
	}
	defer drop(x, p.X)
	w, err := p.empty(p.s.Gates.Dim(2), p.X.Dim(2))
	if err != nil {
		return nil, err
	}
	if err := product2(operand{w, w.layout}, all.transposed(), x.steps(0, p.steps), nil, 0); err != nil {
		w.Release()
		return nil, err
	}
	return w, nil
}

// stateWeight is the gradient of WeightHH: of the first step, which has seen H0, and of the others, which have seen the output of
// the one before.
func (p *recurrentPass) stateWeight() (*Tensor, error) {
	w, err := p.empty(p.WeightHH.Shape()...)
	if err != nil {
		return nil, err
	}
	out, n := operand{w, w.layout}, p.steps
	err = product2(out, p.dhidden.step(p.at(0, n)).transposed(), operand{p.H0, p.H0.layout}, nil, 0)
	if err == nil && n > 1 {
		later, seen := p.dhidden.steps(1, n), p.s.Output.steps(0, n-1)
		if p.Reverse {
			later, seen = p.dhidden.steps(0, n-1), p.s.Output.steps(1, n)
		}
		err = product2(out, later.transposed(), seen, &out, 1)
	}
	if err != nil {
		w.Release()
		return nil, err
	}
	return w, nil
}
