package tensor

import (
	"github.com/cistern-ml/cistern/kernels/op"
)

// checkGuard checks scale and flag.
func checkGuard(name string, g *stepGuard) error {
	for _, t := range []*Tensor{g.Scale, g.Found} {
		if t == nil {
			continue
		}
		if err := singles(name, Float32, t); err != nil {
			return err
		}
	}
	return nil
}

// guardFits checks that what there is can be used for parameter number i.
func guardFits(name string, g *stepGuard, i int, p *Tensor) error {
	if g.Scale != nil && !g.Scale.exec.sameDevice(p.exec) {
		return devicesErr(name, p.exec, g.Scale.exec)
	}
	if g.Found != nil && !g.Found.exec.sameDevice(p.exec) {
		return devicesErr(name, p.exec, g.Found.exec)
	}
	if g.Counts == nil {
		return nil
	}
	if err := singles(name, Int64, g.Counts[i]); err != nil {
		return err
	}
	return together(name, p, g.Counts[i])
}

// guard adds what the kernel takes from the device for the given parameters.
func (c *launch) guard(g *stepGuard, of group, members []int) {
	if g.Scale != nil && !of.ready {
		c.call.I[4] |= op.StepScaled
		c.in(g.Scale, &g.Scale.layout)
	}
	if g.Found != nil {
		c.call.I[4] |= op.StepGuarded
		c.in(g.Found, &g.Found.layout)
	}
	if g.Settings != 0 {
		c.call.I[4] |= op.StepSettings
		c.words(g.Settings, Float64, op.StepScalars)
	}
	if g.Counts == nil {
		return
	}
	c.call.I[4] |= op.StepCounted
	for _, i := range members {
		c.out(g.Counts[i], &g.Counts[i].layout)
		g.Counts[i].storage.changed()
	}
}

// lossy reports whether a gradient must be divided by its scale before it is converted to the parameter's type, which may not hold
// what is scaled.
func lossy(grad, param DType) bool { return grad != param && grad.Size() >= param.Size() }

// unscaled makes the function that divides a gradient by the scale, in a temporary of another type.
func unscaled(by, grad *Tensor) func(name string, f MemoryFormat, dt DType, e Exec) (*Tensor, error) {
	return func(name string, f MemoryFormat, dt DType, e Exec) (*Tensor, error) {
		here := []*Tensor{by.On(e.Owned()), grad.On(e.Owned())}
		defer func() {
			for _, t := range here {
				t.Release()
			}
		}()
		scale, err := here[0].Reshape() // of no dimensions, so that it leaves the gradient's type
		if err != nil {
			return nil, err
		}
		here = append(here, scale)
		inv, err := scale.Reciprocal()
		if err != nil {
			return nil, err
		}
		here = append(here, inv)
		wide, err := here[1].Mul(inv)
		if err != nil {
			return nil, err
		}
		here = append(here, wide)
		l := wide.layout
		l.packIn(f)
		return wide.convertTo(name, &l, dt, e.Owned())
	}
}
