package op

import "github.com/cistern-ml/cistern/device/dtype"

// Calls of optimizers.

// StepGroups is how many groups of tensors of the key type a call of an optimizer updates: the parameters, and what is kept for each.
func StepGroups(c *Call) int {
	with := func(groups int, more ...bool) int {
		for _, m := range more {
			if m {
				groups++
			}
		}
		return groups
	}
	switch c.Op {
	case SGDStep:
		return with(1, c.F[1] != 0)
	case AdamStep:
		return with(3, c.I[3] != 0)
	case RMSPropStep:
		return with(2, c.F[4] != 0, c.I[1] != 0)
	}
	return 2
}

// StepOperands are what a call of an optimizer takes from device memory: the scale and the flag, nil where there is none, and the
// counters. StepSettingsOperand has the rest.
func StepOperands(c *Call) (scale, found *View, counts []View) {
	next := int(c.I[0])
	if c.I[4]&StepScaled != 0 {
		scale = &c.In[next]
		next++
	}
	if c.I[4]&StepGuarded != 0 {
		found = &c.In[next]
	}
	if c.I[4]&StepCounted != 0 {
		counts = c.Out[StepGroups(c)*int(c.I[0]):]
	}
	return scale, found, counts
}

// StepSettingsOperand are the scalars that a call of an optimizer takes from device memory, nil if it takes those of the call.
func StepSettingsOperand(c *Call) *View {
	if c.I[4]&StepSettings == 0 {
		return nil
	}
	return &c.In[len(c.In)-1]
}

// StepNumber is the step number among the scalars of a call of an optimizer, 1 for the first: of SGDStep 1 or 2, and 0 where the step
// does not depend on it.
func StepNumber(c *Call) float64 {
	switch c.Op {
	case SGDStep:
		if c.I[1] != 0 {
			return 1
		}
		return 2
	case AdamStep:
		return c.F[5]
	case AdagradStep:
		return c.F[4]
	}
	return 0
}

// checkGroups checks the calls of the optimizers.
func checkGroups(c *Call) error {
	n, groups := int(c.I[0]), StepGroups(c)
	out, in := groups*n, n
	for _, flag := range []int64{StepScaled, StepGuarded, StepSettings} {
		if c.I[4]&flag != 0 {
			in++
		}
	}
	if c.I[4]&StepCounted != 0 {
		out += n
	}
	if n < 0 || len(c.Out) != out || len(c.In) != in {
		return Errorf(c.Op, ErrCall, "%d outputs and %d inputs for %d tensors, want %d and %d", len(c.Out), len(c.In), n, out, in)
	}
	for i := range groups * n {
		v, g := &c.Out[i], &c.In[i%n]
		if !floats.has(v.DType) || v.DType != c.Out[0].DType || g.DType != v.DType {
			return Errorf(c.Op, ErrCall, "tensor %d is %s, its gradient %s, the first parameter %s", i%n, v.DType, g.DType, c.Out[0].DType)
		}
		if v.Len() != g.Len() || !v.Contiguous() || !g.Contiguous() {
			return Errorf(c.Op, ErrCall, "tensor %d: %v and its gradient %v must be contiguous and of one size", i%n,
				v.Shape[:v.NDim], g.Shape[:g.NDim])
		}
	}
	singles := len(c.In)
	if v := StepSettingsOperand(c); v != nil {
		singles--
		if v.DType != dtype.Float64 || v.Len() != StepScalars || !v.Contiguous() {
			return Errorf(c.Op, ErrCall, "settings are %s of shape %v, want %d float64", v.DType, v.dims(), StepScalars)
		}
		if (c.Op == AdamStep || c.Op == AdagradStep) && c.I[4]&StepCounted == 0 {
			return Errorf(c.Op, ErrCall, "settings in device memory without counters")
		}
	}
	for i := n; i < singles; i++ {
		if v := &c.In[i]; v.DType != dtype.Float32 || v.Len() != 1 {
			return Errorf(c.Op, ErrCall, "scale or flag is %s of shape %v, want one float32", v.DType, v.dims())
		}
	}
	for i := groups * n; i < len(c.Out); i++ {
		if v := &c.Out[i]; v.DType != dtype.Int64 || v.Len() != 1 {
			return Errorf(c.Op, ErrCall, "counter %d is %s of shape %v, want one int64", i-groups*n, v.DType, v.dims())
		}
	}
	return nil
}
