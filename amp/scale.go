package amp

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/replay"
	"github.com/cistern-ml/cistern/tensor"
)

// Backward is Scale(loss).Backward(opts...): the gradients that it leaves in the parameters are multiplied by the scale. As
// Variable.Backward, it returns the first error of the graph, and leaves the value of loss, to be read afterwards.
func (s *GradScaler) Backward(loss *autograd.Variable, opts ...autograd.BackwardOption) error {
	s = s.given()
	if s.err != nil {
		return s.err
	}
	return s.Scale(loss.Keep()).Backward(opts...) // or loss would be an intermediate result, which backward releases
}

// Scale returns v, a loss, times the scale, in v's graph. The scale is float32, so a loss in 16 bits becomes one in float32,
// which holds what float16 does not; unlike in PyTorch since 2.0 also a loss with dimensions. Variables without a value and those of a
// graph with an error are returned as they are; errors become the graph's. To read v after the result's Backward, call Keep on it.
func (s *GradScaler) Scale(v *autograd.Variable) *autograd.Variable {
	s = s.given()
	if !s.enabled || v == nil || !v.Alive() || v.Graph().Err() != nil {
		return v
	}
	g := v.Graph()
	scale, err := s.scaleIn(g, v.Shape())
	if err != nil {
		g.Fail(err)
		return v
	}
	out := v.Mul(scale)
	// The next Update must not change the scale before the product was computed.
	g.Fail(order(g.Exec().Stream(), s.scale.Exec().Stream()))
	return out
}

// scaleIn is the scale as a leaf of g of some shape, for with dimensions it counts in the type of a product. The graph orders its stream
// and the scale's before the product and after backward.
func (s *GradScaler) scaleIn(g *autograd.Graph, shape tensor.Shape) (*autograd.Variable, error) {
	if s.err != nil {
		return nil, s.err
	}
	e := g.Exec()
	if err := s.create(e); err != nil {
		return nil, err
	}
	scale := s.scale
	if !onOne(scale, e) {
		local, err := scale.ToDevice(e)
		if err != nil {
			return nil, err
		}
		defer local.Release()
		scale = local
	}
	spread, err := scale.Expand(shape...)
	if err != nil {
		return nil, err
	}
	defer spread.Release()
	return g.Input(spread), nil
}

// ScaleAll is Scale for several variables.
func (s *GradScaler) ScaleAll(vs ...*autograd.Variable) []*autograd.Variable {
	out := make([]*autograd.Variable, len(vs))
	for i, v := range vs {
		out[i] = s.Scale(v)
	}
	return out
}

// ScaleTensor returns t times the scale, in a tensor that the caller releases. It runs under t's Exec. If the GradScaler is
// disabled, the result is another handle on t.
func (s *GradScaler) ScaleTensor(t *tensor.Tensor) (*tensor.Tensor, error) {
	s = s.given()
	if !s.enabled {
		return t.Retain(), nil
	}
	if t == nil || t.Released() {
		return nil, &tensor.ReleasedError{Op: "ScaleTensor"}
	}
	if s.err != nil {
		return nil, s.err
	}
	if err := s.create(t.Exec()); err != nil {
		return nil, err
	}
	scale, err := lend(s.scale, t.Exec())
	if err != nil {
		return nil, err
	}
	defer scale.Release()
	spread, err := scale.Expand(t.Shape()...)
	if err != nil {
		return nil, err
	}
	defer spread.Release()
	out, err := t.Mul(spread)
	if err != nil {
		return nil, err
	}
	if err := order(t.Exec().Stream(), s.scale.Exec().Stream()); err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}

// create makes scale and tracker, beside the first thing that is scaled.
func (s *GradScaler) create(e tensor.Exec) error {
	if err := s.record(e); err != nil || s.scale != nil {
		return err
	}
	e, err := tensor.On(e.Device(), tensor.WithStream(e.Stream()), tensor.WithAllocator(e.Allocator())) // it may be Owned
	if err != nil {
		return err
	}
	scale, err := tensor.Scalar(e, s.initScale, tensor.Float32)
	if err != nil {
		return err
	}
	tracker, err := tensor.Scalar(e, float64(s.initTracker), tensor.Int32)
	if err != nil {
		scale.Release()
		return err
	}
	s.scale, s.tracker = scale, tracker
	replay.Prepared(e.Stream()).AtEnd(s, s.goHome)
	return nil
}

// lend returns t for use under e: another handle on the same device, after the work on t's stream; else a copy.
func lend(t *tensor.Tensor, e tensor.Exec) (*tensor.Tensor, error) {
	if !onOne(t, e) {
		return t.ToDevice(e)
	}
	if err := order(t.Exec().Stream(), e.Stream()); err != nil {
		return nil, err
	}
	return t.On(e), nil
}

// onOne reports whether t is on e's device.
func onOne(t *tensor.Tensor, e tensor.Exec) bool { return t.Device().ID() == e.Device().ID() }

// order makes later work on after wait for what is on before now. Streams of different devices, between which nothing but
// copies goes, and which wait by themselves, are left alone.
func order(before, after device.Stream) error {
	if before.Device().ID() != after.Device().ID() || before.ID() == after.ID() {
		return nil
	}
	e, err := before.Device().NewEvent()
	if err != nil {
		return err
	}
	if err = before.Record(e); err == nil {
		err = after.Wait(e)
	}
	if closed := e.Close(); err == nil {
		err = closed
	}
	return err
}
