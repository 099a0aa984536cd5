package amp

import (
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/tensor"
)

// Step changes the parameters by their gradients divided by the scale, unless one of those was infinite or NaN: then nothing
// changes, and Skipped reports true. It is called once for each optimizer and iteration, before Update: else SteppedTwice. An
// optimizer without any gradient is NothingChecked, unless the scaler has AgreedBy: other ranks may have gradients of what this one has no part of. The optimizer's error is returned as it is, and Step can then be called again.
//
// A FusedStepper, as the optimizers of autograd/optim are, divides and decides on the device: Step only searches the gradients, and
// leaves them as they are, scaled; call Unscale to look at them as they were. Of any other optimizer the gradients are unscaled, unless
// Unscale has done it, and then Step waits for the device, to learn whether opt.Step is to be called.
func (s *GradScaler) Step(opt Optimizer) error {
	s = s.given()
	if !s.enabled {
		if isnil.Value(opt) {
			return &ScalerError{Method: "Step", Misuse: BadOptimizer}
		}
		return opt.Step()
	}
	if err := s.usable("Step"); err != nil {
		return err
	}
	p, err := s.of("Step", opt)
	if err != nil {
		return err
	}
	if p.stage == stepped {
		return &ScalerError{Method: "Step", Misuse: SteppedTwice}
	}
	if fused, ok := opt.(FusedStepper); ok {
		err = s.stepFused(p, fused)
	} else {
		err = s.step(p)
	}
	if err == nil {
		p.stage = stepped
	}
	return err
}

func (s *GradScaler) step(p *progress) error {
	if p.stage == ready {
		if err := s.unscale(p, false); err != nil {
			return err
		}
	}
	if len(p.found) == 0 {
		return &ScalerError{Method: "Step", Misuse: NothingChecked}
	}
	overflow, err := p.overflow()
	if err != nil {
		return err
	}
	p.skipped = &overflow
	if overflow {
		return nil
	}
	return p.opt.Step()
}

// overflow waits for the device and reports whether any gradient was infinite or NaN.
func (p *progress) overflow() (bool, error) {
	for _, t := range p.found {
		v, err := t.Item()
		if err != nil {
			return false, err
		}
		if v != 0 {
			return true, nil
		}
	}
	return false, nil
}

// stepFused lets the optimizer unscale and decide. Gradients that Unscale has not divided are only searched: float16 is
// allowed then, because they never are written.
func (s *GradScaler) stepFused(p *progress, opt FusedStepper) error {
	var gradScale *tensor.Tensor
	if p.stage == ready {
		one, err := tensor.Ones(s.scale.Exec(), tensor.Float32)
		if err != nil {
			return err
		}
		defer one.Release()
		if err := s.inspect(p, one, true); err != nil {
			return err
		}
		gradScale = s.scale
	}
	if len(p.found) == 0 {
		return &ScalerError{Method: "Step", Misuse: NothingChecked}
	}
	found, err := s.combine([]*progress{p})
	if err != nil {
		return err
	}
	defer found.Release()
	home := s.scale.Exec().Stream()
	streams := streamsOf(opt, home)
	for _, t := range streams {
		if err := order(home, t); err != nil {
			return err
		}
	}
	err = opt.StepScaled(gradScale, found)
	for _, t := range streams { // the next Update must not change the scale before the steps have read it
		if later := order(t, home); err == nil {
			err = later
		}
	}
	return err
}

// streamsOf are the streams of an optimizer's parameters that are on home's device, each once; home, which may be one, is ordered as it is.
func streamsOf(opt Optimizer, home device.Stream) (streams []device.Stream) {
	for _, param := range opt.Parameters() {
		t := param.Tensor()
		if t == nil {
			continue
		}
		stream := t.Exec().Stream()
		same := func(other device.Stream) bool { return other.ID() == stream.ID() }
		if stream.Device().ID() == home.Device().ID() && !slices.ContainsFunc(streams, same) {
			streams = append(streams, stream)
		}
	}
	return streams
}

// Skipped reports whether the last Step of opt, since the last Update, was left out because a gradient was infinite or NaN. After a
// step of a FusedStepper it waits for the device, to learn that.
func (s *GradScaler) Skipped(opt Optimizer) (bool, error) {
	s = s.given()
	if s.err != nil {
		return false, s.err
	}
	for _, p := range s.optimizers {
		if p.opt != opt || p.stage != stepped {
			continue
		}
		if p.skipped == nil {
			overflow, err := p.overflow()
			if err != nil {
				return false, err
			}
			p.skipped = &overflow
		}
		return *p.skipped, nil
	}
	return false, nil
}
