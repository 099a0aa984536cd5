package cpu

import "github.com/cistern-ml/cistern/kernels/op"

// What the optimizers' steps take from memory: scale, flag, counters and settings.

// stepStart is what a tensor's step begins with.
type stepStart struct {
	step  float64 // its number, 1 for the first
	scale float32 // gradients are divided by it
}

// signOf is what the gradient is multiplied by: the reciprocal of its scale, negative to maximize. The reciprocal is rounded to
// float32, as that by which AmpUnscale multiplies.
func signOf[T float](maximize int64, at stepStart) T {
	inv := 1 / at.scale
	if maximize != 0 {
		inv = -inv
	}
	return T(inv)
}

// optimizer makes the Func of an optimizer's step. prepare computes the scalars of one tensor, or of all if they are not counted in
// memory.
func optimizer[T float, S any](l accessor[T], prepare func(*op.Call, stepStart) S, f stepKernel[T, S]) op.Func {
	pool := newStepJobs(l, f, true)
	return func(c *op.Call) error {
		scale, found, counts := op.StepOperands(c)
		if found != nil && slice[float32](found.Ptr, 1)[0] != 0 {
			return nil
		}
		at := stepStart{op.StepNumber(c), 1}
		if scale != nil {
			at.scale = slice[float32](scale.Ptr, 1)[0]
		}
		from := c // where the scalars are
		if v := op.StepSettingsOperand(c); v != nil {
			from = withSettings(c, v)
		}
		j := pool.Get().(*stepJob[T, S])
		j.scalars = prepare(from, at)
		for i := range counts {
			steps := &slice[int64](counts[i].Ptr, 1)[0]
			*steps++
			if last := at.step; i == 0 || last != float64(*steps) {
				at.step = float64(*steps)
				j.scalars = prepare(from, at)
			}
			j.each = append(j.each, j.scalars)
		}
		j.do(c, op.StepGroups(c))
		pool.Put(j)
		return nil
	}
}

// withSettings is the call with the scalars that it takes from memory. It is not inlined so that other calls allocate nothing.
//
//go:noinline
func withSettings(c *op.Call, v *op.View) *op.Call {
	own := *c
	for i, x := range slice[float64](v.Ptr, op.StepScalars) { // not by copy, at which Go 1.26 fails: "one of arguments is not a pointer"
		own.F[i] = x
	}
	return &own
}
