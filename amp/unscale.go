package amp

import (
	"fmt"
	"slices"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// steps has what is done to gradients and the scale on the device.
var steps = tensor.Steps(training.Key{})

// Unscale divides the gradients of opt's parameters by the scale, in place. Step does so by itself; call Unscale before it to
// look at the gradients or to change them, as in clipping. It is called once for each optimizer and iteration, after all
// gradients have been accumulated: else UnscaledTwice, UnscaledTooLate. Gradients that ranks share out (autograd/parallel, ZeRO 1 to 3) are those of DataParallel.Parameters, in a scaler
// with AgreedBy: else SharedGradients. Gradients in float16 are refused (Float16Gradient),
// before any gradient has changed: parameters are kept in float32, and cast by autocast.
//
// The gradients of one type and device are unscaled, and searched for what overflowed, in one pass on the device. Nothing waits
// for it.
func (s *GradScaler) Unscale(opt Optimizer) error {
	s = s.given()
	if !s.enabled {
		return nil
	}
	if err := s.usable("Unscale"); err != nil {
		return err
	}
	p, err := s.of("Unscale", opt)
	if err != nil {
		return err
	}
	switch p.stage {
	case unscaled:
		return &ScalerError{Method: "Unscale", Misuse: UnscaledTwice}
	case stepped:
		return &ScalerError{Method: "Unscale", Misuse: UnscaledTooLate}
	}
	return s.unscale(p, false)
}

// unscale brings an optimizer from ready to unscaled. Gradients in float16 are refused unless half is set.
func (s *GradScaler) unscale(p *progress, half bool) error {
	inv, err := s.inverse()
	if err != nil {
		return err
	}
	defer inv.Release()
	if err := s.inspect(p, inv, half); err != nil {
		return err
	}
	p.stage = unscaled
	return nil
}

// inverse is 1/scale, computed in float64 as in PyTorch, and stored as float32.
func (s *GradScaler) inverse() (*tensor.Tensor, error) {
	wide, err := s.scale.To(tensor.Float64)
	if err != nil {
		return nil, err
	}
	defer wide.Release()
	inv, err := wide.Reciprocal()
	if err != nil {
		return nil, err
	}
	defer inv.Release()
	return inv.To(tensor.Float32)
}

// part is the gradients that are on one device.
type part struct {
	grads   []*tensor.Tensor
	exec    tensor.Exec     // where they are looked at: the scale's, or on other devices that of the first gradient
	streams []device.Stream // of the gradients, if others than exec's
	found   *tensor.Tensor
	inv     *tensor.Tensor
}

// inspect multiplies the gradients of an optimizer by inv and leaves in p, for each device, whether any overflowed. All memory
// is taken before the first gradient is changed.
func (s *GradScaler) inspect(p *progress, inv *tensor.Tensor, half bool) (err error) {
	parts, err := s.parts(p.opt, half)
	if err != nil {
		return err
	}
	defer func() {
		for _, q := range parts {
			q.inv.Release()
			if err != nil {
				q.found.Release()
			}
		}
	}()
	if s.agreed != nil && len(parts) == 0 { // the others may have gradients of what this rank has no part of
		parts = append(parts, &part{exec: s.scale.Exec()})
	}
	for _, q := range parts {
		if q.found, err = tensor.Zeros(q.exec, tensor.Float32); err != nil {
			return err
		}
		if q.inv, err = lend(inv, q.exec); err != nil {
			return err
		}
	}
	for _, q := range parts {
		if err = q.run(); err != nil {
			return err
		}
	}
	if s.agreed != nil {
		for _, q := range parts {
			if err = s.agreed.AgreeOverflow(q.found); err != nil {
				return err
			}
		}
	}
	p.drop()
	for _, q := range parts {
		p.found = append(p.found, q.found)
	}
	return nil
}

// parts groups the gradients by device, in the order in which devices first appear.
func (s *GradScaler) parts(opt Optimizer, half bool) (parts []*part, err error) {
	for _, param := range opt.Parameters() {
		if why := s.unready(param); why != "" {
			return nil, &ScalerError{Method: "Unscale", Misuse: SharedGradients, Detail: why}
		}
		g := param.Grad()
		if g == nil {
			continue
		}
		if g.DType() == tensor.Float16 && !half {
			return nil, &ScalerError{Method: "Unscale", Misuse: Float16Gradient, Detail: fmt.Sprintf("(parameter %q)", excerpt.Of(param.Name()))}
		}
		at := slices.IndexFunc(parts, func(q *part) bool { return q.exec.Device().ID() == g.Device().ID() })
		if at < 0 {
			at = len(parts)
			parts = append(parts, &part{exec: s.execFor(g)})
		}
		parts[at].add(g)
	}
	return parts, nil
}

// unready is why the gradient of a parameter that ranks share out (autograd/parallel) cannot be looked at, or "".
func (s *GradScaler) unready(p *autograd.Parameter) string {
	key := training.Key{}
	if instead := autograd.Instead(key, p); instead != "" {
		return instead + ": make the optimizer of DataParallel.Parameters or ParametersOf"
	}
	if of := autograd.PartOf(key, p); of != "" && s.agreed == nil {
		return of + ", of which each would leave out steps of its own: make the scaler with AgreedBy"
	}
	return autograd.Waiting(key, p)
}

// execFor is where gradients on g's device are looked at.
func (s *GradScaler) execFor(g *tensor.Tensor) tensor.Exec {
	if home := s.scale.Exec(); onOne(g, home) {
		return home
	}
	return g.Exec()
}

func (q *part) add(g *tensor.Tensor) {
	q.grads = append(q.grads, g)
	stream := g.Exec().Stream()
	same := func(t device.Stream) bool { return t.ID() == stream.ID() }
	if stream.ID() != q.exec.Stream().ID() && !slices.ContainsFunc(q.streams, same) {
		q.streams = append(q.streams, stream)
	}
}

// run enqueues the pass on the stream, after the work on the gradients' streams, and makes their later work wait for it.
func (q *part) run() error {
	for _, t := range q.streams {
		if err := order(t, q.exec.Stream()); err != nil {
			return err
		}
	}
	if err := steps.Unscale(q.grads, q.found, q.inv); err != nil {
		return err
	}
	return q.release()
}

// release makes the gradients' streams wait for what is on the pass's stream.
func (q *part) release() error {
	for _, t := range q.streams {
		if err := order(q.exec.Stream(), t); err != nil {
			return err
		}
	}
	return nil
}
