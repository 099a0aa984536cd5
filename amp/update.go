package amp

import "github.com/cistern-ml/cistern/tensor"

// UpdateOption changes what Update does.
type UpdateOption func(*update)

type update struct {
	set func(*GradScaler) error
}

// NewScale makes Update set the scale to v, which must be more than 0 and finite in float32 (BadScale). The growth tracker stays as it
// is.
func NewScale(v float64) UpdateOption {
	return func(u *update) {
		u.set = func(s *GradScaler) error {
			st := s.settings()
			st.Scale = v
			if err := st.check("Update"); err != nil {
				return err
			}
			return s.scale.FillInPlace(v)
		}
	}
}

// NewScaleTensor makes Update set the scale to t, one float32, which stays the caller's. Nothing waits for it, unless it is on
// another device.
func NewScaleTensor(t *tensor.Tensor) UpdateOption {
	return func(u *update) { u.set = func(s *GradScaler) error { return s.replace(t) } }
}

// Update ends the iteration, after the Step of every optimizer: it adapts the scale, on the device. If a gradient of any
// optimizer was infinite or NaN since the last Update, the scale is multiplied by the backoff factor; there is no lower
// bound. Otherwise, when that has not happened for a growth interval, it is multiplied by the growth factor, unless it would
// become infinite. Without a Step or an Unscale before it is NothingToUpdate, unless a new scale is given.
func (s *GradScaler) Update(opts ...UpdateOption) error {
	s = s.given()
	if !s.enabled {
		return nil
	}
	if err := s.usable("Update"); err != nil {
		return err
	}
	u := update{set: (*GradScaler).adapt}
	for _, o := range opts {
		if o != nil {
			o(&u)
		}
	}
	if err := u.set(s); err != nil {
		return err
	}
	s.forget()
	return nil
}

// adapt changes the scale by what was found since the last Update.
func (s *GradScaler) adapt() error {
	found, err := s.combine(s.optimizers)
	if err != nil {
		return err
	}
	defer found.Release()
	return steps.UpdateScale(s.scale, s.tracker, found, s.growthFactor, s.backoffFactor, s.growthInterval)
}

// replace sets the scale to t.
func (s *GradScaler) replace(t *tensor.Tensor) error {
	if t == nil || t.Released() || t.DType() != tensor.Float32 || t.Len() != 1 {
		return &ScalerError{Method: "Update", Misuse: BadNewScale}
	}
	one, err := lend(t, s.scale.Exec())
	if err != nil {
		return err
	}
	defer one.Release()
	flat, err := one.Reshape()
	if err != nil {
		return err
	}
	defer flat.Release()
	if err := s.scale.CopyFrom(flat); err != nil {
		return err
	}
	return order(s.scale.Exec().Stream(), t.Exec().Stream()) // t may be changed afterwards
}

// combine is the sum of what was found for several optimizers and devices: not 0 if any gradient was infinite or NaN. It is
// under the scale's Exec, and the caller releases it.
func (s *GradScaler) combine(ps []*progress) (sum *tensor.Tensor, err error) {
	home := s.scale.Exec()
	for _, p := range ps {
		for _, t := range p.found {
			here, err := lend(t, home)
			if err == nil && sum != nil {
				here, err = add(sum, here)
			}
			if err != nil {
				sum.Release()
				return nil, err
			}
			sum = here
		}
	}
	if sum == nil {
		return nil, &ScalerError{Method: "Update", Misuse: NothingToUpdate}
	}
	return sum, nil
}

// add is a + b. It releases b, and a too if it succeeds.
func add(a, b *tensor.Tensor) (*tensor.Tensor, error) {
	defer b.Release()
	sum, err := a.Add(b)
	if err == nil {
		a.Release()
	}
	return sum, err
}
