package tensor

import (
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

// Clipping of gradients: nothing here waits for the device.

// GradNorm is the p-norm of all elements of all tensors together, (sum of |x|^p)^(1/p), or the largest |x| for p = infinity, as a
// float64 without dimensions under e. p is greater than 0. The tensors have floating-point types and are on e's device; nil
// ones are skipped; without any the norm is 0. The sums are in double precision, in an order that does not change from run to
// run: so a norm of half-precision gradients does not overflow. Tensors of one type go in one launch (and one that joins its
// blocks); those that are not contiguous go through temporaries.
func (steps) GradNorm(e Exec, grads []*Tensor, p float64) (*Tensor, error) {
	const name = "GradNorm"
	if !(p > 0) {
		return nil, valueErr(name, "the norm's p is %v; it must be greater than 0", p)
	}
	groups, err := groupByType(name, grads, e, false)
	defer groups.drop()
	if err != nil {
		return nil, err
	}
	total, err := full(name, e, 0, Float64, &layout{})
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		err := g.run(name, op.GradNorm, e, func(c *launch) {
			c.call.F[0] = p
			c.out(total, &total.layout)
		})
		if err != nil {
			total.Release()
			return nil, err
		}
	}
	if err := total.root(name, p); err != nil {
		total.Release()
		return nil, err
	}
	return total, nil
}

// root makes a norm of the sum of the powers, in place.
func (t *Tensor) root(name string, p float64) error {
	switch {
	case p == 1, math.IsInf(p, 1):
		return nil
	case p == 2:
		return t.pointwiseInto(name, op.Sqrt, scalars{}, t)
	}
	return t.pointwiseInto(name, op.PowScalar, numbers(Float64, 1/p), t)
}

// ClipGradNorm multiplies the tensors, in place, by maxNorm/(norm + 1e-6) if that is less than 1: norm, of one element of type
// float64, is what GradNorm gave. If the norm is not finite, they are left as they are, or with unusual multiplied all the
// same, by NaN or 0, as PyTorch does. It runs under norm's Exec; the rest is as for GradNorm.
func (steps) ClipGradNorm(grads []*Tensor, norm *Tensor, maxNorm float64, unusual bool) error {
	const name = "ClipGradNorm"
	if err := singles(name, Float64, norm); err != nil {
		return err
	}
	if !(maxNorm >= 0) {
		return valueErr(name, "the largest norm is %v; it must not be negative", maxNorm)
	}
	return eachType(name, op.ClipNorm, grads, norm.exec, func(c *launch) {
		c.call.F[0], c.call.I[1] = maxNorm, flag(unusual)
		c.in(norm, &norm.layout)
	})
}

// ClipGradValue brings every element of the tensors into -limit..limit, in place. NaN stays. It runs under e; the rest is as for
// GradNorm.
func (steps) ClipGradValue(e Exec, grads []*Tensor, limit float64) error {
	const name = "ClipGradValue"
	if !(limit >= 0) {
		return valueErr(name, "the limit is %v; it must not be negative", limit)
	}
	return eachType(name, op.ClipValue, grads, e, func(c *launch) { c.call.F[0] = limit })
}

// eachType changes the tensors in place, those of one type in one launch.
func eachType(name string, id op.ID, list []*Tensor, e Exec, rest func(c *launch)) error {
	groups, err := groupByType(name, list, e, true)
	defer groups.drop()
	if err != nil {
		return err
	}
	for _, g := range groups {
		if err := g.run(name, id, e, rest); err != nil {
			return err
		}
	}
	return nil
}
