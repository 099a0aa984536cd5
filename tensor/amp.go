package tensor

import (
	"github.com/cistern-ml/cistern/kernels/op"
)

// What a gradient scaler needs of the device: nothing here waits for it.

// Unscale multiplies the elements of grads, in place, by the element of inv, and sets found, which has one element too, to
// 1 if any of them was infinite or NaN before (torch._amp_foreach_non_finite_check_and_unscale_). It never clears found.
// inv and found are float32, grads have floating-point types; nil ones are skipped. Everything runs under found's Exec, all
// gradients of one type in one launch; gradients that are not contiguous go through temporaries. If it fails, no gradient
// was changed, unless the launch itself failed.
func (steps) Unscale(grads []*Tensor, found, inv *Tensor) error {
	const name = "AmpUnscale"
	if err := singles(name, Float32, found, inv); err != nil {
		return err
	}
	groups, err := groupByType(name, grads, found.exec, true)
	defer groups.drop()
	if err != nil {
		return err
	}
	for _, u := range groups {
		err := u.run(name, op.AmpUnscale, found.exec, func(c *launch) {
			found.storage.changed()
			c.out(found, &found.layout)
			c.in(inv, &inv.layout)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// UpdateScale changes the scale of a gradient scaler and its growth tracker in place (torch._amp_update_scale_): if found
// is not 0, scale *= backoff and tracker = 0; else tracker += 1, and at interval scale *= growth, unless that is infinite,
// and tracker = 0. All have one element; scale and found are float32, tracker is int32. It runs under scale's Exec.
func (steps) UpdateScale(scale, tracker, found *Tensor, growth, backoff float64, interval int) error {
	const name = "AmpUpdateScale"
	if err := singles(name, Float32, scale, found); err != nil {
		return err
	}
	if err := singles(name, Int32, tracker); err != nil {
		return err
	}
	if err := together(name, scale, tracker); err != nil {
		return err
	}
	c := begin(op.AmpUpdateScale, scale.exec)
	c.call.F[0], c.call.F[1], c.call.I[0] = growth, backoff, int64(interval)
	c.out(scale, &scale.layout)
	c.out(tracker, &tracker.layout)
	c.in(found, &found.layout)
	scale.storage.changed()
	tracker.storage.changed()
	return c.run(name)
}

// singles refuses tensors that are not on one device, not of type dt, or do not have exactly one element.
func singles(name string, dt DType, ts ...*Tensor) error {
	if err := together(name, ts...); err != nil {
		return err
	}
	for _, t := range ts {
		if t.dtype != dt {
			return dtypeErr(name, "needs "+dt.String(), t.dtype)
		}
		if t.Len() != 1 {
			return shapeErr(name, []Shape{t.Shape()}, "needs one element")
		}
	}
	return nil
}
