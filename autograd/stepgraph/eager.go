package stepgraph

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// pass calls the function on a new graph, and keep with the values that it returns, which live until keep has returned.
func (s *Step) pass(in []*tensor.Tensor, keep func(values []*tensor.Tensor) error) error {
	if err := s.notDiverted(); err != nil {
		return err
	}
	opts := append([]autograd.Option{autograd.WithGenerator(s.gen)}, s.options...)
	opts = append(opts, autograd.WithStream(s.exec.Stream()), autograd.WithAllocator(s.exec.Allocator()))
	g := autograd.NewGraph(s.dev, opts...)
	defer s.zeroGrad()
	defer g.Release()
	leaves := make([]*autograd.Variable, len(in))
	for i, t := range in {
		leaves[i] = g.Input(t)
	}
	if err := g.Err(); err != nil {
		return err
	}
	results, err := s.f(g, leaves)
	if err == nil {
		err = g.Err()
	}
	if err != nil {
		return err
	}
	values := make([]*tensor.Tensor, len(results))
	for i, v := range results {
		if values[i], err = v.Tensor(); err != nil {
			return err
		}
	}
	return keep(values)
}

// zeroGrad releases the gradients of the modules.
func (s *Step) zeroGrad() {
	for _, m := range s.modules {
		for _, p := range m.Parameters() {
			p.ZeroGrad()
		}
	}
}

// eager takes a step without a graph. sh is nil for inputs that have no places.
func (s *Step) eager(call string, sh *shaped, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	s.dropResults()
	if err := s.behindInputs(in); err != nil {
		return nil, &Error{Call: call, Err: err}
	}
	local, release, err := s.local(sh, in)
	if err != nil {
		return nil, &Error{Call: call, Err: err}
	}
	defer release()
	if err := s.pass(local, s.keep); err != nil {
		s.dropResults()
		return nil, &Error{Call: call, Err: err}
	}
	s.stats.Eager++
	if sh != nil {
		sh.ran++
		if err := sh.learn(s.results); err != nil {
			return nil, &Error{Call: call, Err: err}
		}
	}
	return s.lent(s.results), nil
}

// local is the inputs where the step can use them: in their places, or where they are, or for those of other devices in copies, which release
// releases.
func (s *Step) local(sh *shaped, in []*tensor.Tensor) (local []*tensor.Tensor, release func(), err error) {
	if sh != nil {
		return sh.in, func() {}, s.feed(sh, in)
	}
	release = func() {
		for _, t := range local {
			t.Release()
		}
	}
	for _, t := range in {
		here, err := t.ToDevice(s.exec)
		if err != nil {
			release()
			return nil, nil, err
		}
		local = append(local, here)
	}
	return local, release, nil
}

// keep copies values, as the results of an eager run.
func (s *Step) keep(values []*tensor.Tensor) error {
	for _, t := range values {
		here := t.On(s.exec) // what is made of it has the safety net
		c, err := here.Clone()
		here.Release()
		if err != nil {
			return err
		}
		s.results = append(s.results, c)
	}
	return nil
}

func (s *Step) dropResults() {
	for _, t := range s.results {
		t.Release()
	}
	s.results = nil
}

// lent are handles on the step's tensors for the program, whose release does nothing.
func (s *Step) lent(list []*tensor.Tensor) []*tensor.Tensor {
	lent := make([]*tensor.Tensor, len(list))
	for i, t := range list {
		lent[i] = t.Lend(s.exec)
	}
	return lent
}

// learn makes the places of results, as an eager run has shown them.
func (sh *shaped) learn(results []*tensor.Tensor) error {
	for _, t := range sh.out {
		t.Release()
	}
	sh.out = nil
	for _, t := range results {
		p, err := tensor.Empty(t.Exec(), t.DType(), t.Shape()...)
		if err != nil {
			return err
		}
		sh.out = append(sh.out, p)
	}
	return nil
}
