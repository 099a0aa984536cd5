package amp

import "github.com/cistern-ml/cistern/tensor"

// Step unscales the gradients of opt's parameters, unless Unscale has done it, and then calls opt.Step, unless one of them was
// infinite or NaN: then nothing happens, and Skipped reports true. To decide, it waits for the device: the only wait of an
// iteration (a FusedStepper decides on the device). It is called once for each optimizer and iteration, before Update: else
// SteppedTwice. An optimizer without any gradient is NothingChecked. The optimizer's error is returned as it is, and Step can
// then be called again.
func (s *GradScaler) Step(opt Optimizer) error {
	if !s.enabled {
		if opt == nil {
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
	p.skipped = overflow
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
	for _, param := range opt.Parameters() {
		if t := param.Tensor(); t != nil {
			if err := order(home, t.Exec().Stream()); err != nil {
				return err
			}
		}
	}
	return opt.StepScaled(gradScale, found)
}

// Skipped reports whether the last Step of opt, since the last Update, was left out because a gradient was infinite or NaN. A
// FusedStepper keeps that to itself.
func (s *GradScaler) Skipped(opt Optimizer) bool {
	for _, p := range s.optimizers {
		if p.opt == opt {
			return p.skipped
		}
	}
	return false
}
