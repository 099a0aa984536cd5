package tensor

// parts is an operation that is made of others: its temporaries, and the first error. A step that fails gives nil, which every step after
// it refuses, so that only the end asks. Each ends with result.
//
// What a user may have got wrong is checked before the first step: the errors of steps name the step.
type parts struct {
	temps []*Tensor
	err   error
}

// of is t for steps, whose results nobody watches: result releases them.
func (p *parts) of(t *Tensor) *Tensor { return p.do(t.On(t.exec.Owned()), nil) }

// do takes over the result of a step.
func (p *parts) do(t *Tensor, err error) *Tensor {
	if err != nil {
		p.note(err)
		return nil
	}
	p.temps = append(p.temps, t)
	return t
}

// note keeps the first error, of a step without a result.
func (p *parts) note(err error) {
	if p.err == nil {
		p.err = err
	}
}

// both is do for a step with two results.
func (p *parts) both(t, u *Tensor, err error) (*Tensor, *Tensor) { return p.do(t, err), p.do(u, err) }

// release ends the computation, and tells the first error.
func (p *parts) release() error {
	for _, t := range p.temps {
		t.Release()
	}
	p.temps = nil
	return p.err
}

// result ends the computation and gives its last step's result to e.
func (p *parts) result(e Exec, t *Tensor) (*Tensor, error) {
	defer p.release()
	if p.err != nil {
		return nil, p.err
	}
	return t.On(e), nil
}
