package tensor

import (
	"github.com/cistern-ml/cistern/kernels/op"
)

// What the optimizers' steps share: checks, groups and launches.

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// group is what one launch of an optimizer takes: parameters of one type under one Exec. ready is set if their gradients are
// divided by the scale before the launch.
type group struct {
	dtype DType
	exec  Exec
	ready bool
}

// stepAll checks all parameters before the first is changed, and launches the update of each group, in the order in which
// groups first appear. states are the parameters and what the optimizer keeps for each.
func stepAll(name string, id op.ID, states [][]*Tensor, grads []*Tensor, guard *stepGuard, config func(*op.Call)) error {
	params := states[0]
	lists := append(states, grads)
	if guard.Counts != nil {
		lists = append(lists, guard.Counts)
	}
	for _, list := range lists {
		if len(list) != len(params) {
			return valueErr(name, "lists of %d parameters and of %d other tensors", len(params), len(list))
		}
	}
	if err := checkGuard(name, guard); err != nil {
		return err
	}
	var order []group
	members := map[group][]int{}
	for i, p := range params {
		if grads[i] == nil {
			continue
		}
		if err := stepOperands(name, i, states, grads[i]); err != nil {
			return err
		}
		if err := guardFits(name, guard, i, p); err != nil {
			return err
		}
		g := group{p.dtype, p.exec, guard.Scale != nil && lossy(grads[i].dtype, p.dtype)}
		if members[g] == nil {
			order = append(order, g)
		}
		members[g] = append(members[g], i)
	}
	for _, g := range order {
		if err := stepGroup(name, id, g, members[g], states, grads, guard, config); err != nil {
			return err
		}
	}
	return nil
}

// stepOperands checks parameter i, its state and its gradient.
func stepOperands(name string, i int, states [][]*Tensor, grad *Tensor) error {
	p := states[0][i]
	if err := together(name, p, grad); err != nil {
		return err
	}
	if !p.dtype.IsFloat() || !grad.dtype.IsFloat() {
		return dtypeErr(name, needsFloat, p.dtype, grad.dtype)
	}
	if !p.Shape().Equal(grad.Shape()) {
		return shapeErr(name, []Shape{p.Shape(), grad.Shape()}, "parameter %d and its gradient differ", i)
	}
	for _, list := range states {
		s := list[i]
		if err := together(name, p, s); err != nil {
			return err
		}
		if s.dtype != p.dtype {
			return dtypeErr(name, "parameter and state must have one type", p.dtype, s.dtype)
		}
		if !s.layout.inOrder(&p.layout) || !s.layout.formatted() {
			return shapeErr(name, []Shape{p.Shape(), s.Shape()}, "parameter %d and its state must be of one shape, without gaps and in one memory format", i)
		}
	}
	return nil
}

// stepGroup launches the update of the parameters with the given numbers. Gradients of another memory format than the parameter's or of another
// type are brought into shape in temporaries, which live until the launch.
func stepGroup(name string, id op.ID, g group, members []int, states [][]*Tensor, grads []*Tensor, guard *stepGuard,
	config func(*op.Call)) error {
	temporaries := make([]*Tensor, 0, len(members))
	defer func() {
		for i, t := range temporaries {
			drop(t, grads[members[i]])
		}
	}()
	for _, i := range members {
		t, err := g.gradient(name, guard, grads[i], states[0][i])
		if err != nil {
			return err
		}
		temporaries = append(temporaries, t)
	}
	c := begin(id, g.exec)
	config(&c.call)
	c.call.I[0] = int64(len(members))
	for _, list := range states {
		for _, i := range members {
			l := list[i].layout.run()
			c.out(list[i], &l)
			list[i].storage.changed()
		}
	}
	for _, t := range temporaries {
		l := t.layout.run()
		c.in(t, &l)
	}
	c.guard(guard, g, members)
	return c.run(name)
}

// gradient is that of parameter p as the launch takes it: itself, or a temporary.
func (g *group) gradient(name string, guard *stepGuard, grad, p *Tensor) (*Tensor, error) {
	f := ContiguousFormat
	if !p.layout.contiguous() {
		f = lastFormat(p.layout.ndim)
	}
	if g.ready {
		return unscaled(guard.Scale, grad)(name, f, g.dtype, g.exec)
	}
	return grad.formattedAs(name, f, g.dtype, g.exec)
}

// packedAs returns t itself if it is contiguous and of type dt, else a temporary that is, which the caller gives back with
// drop(x, t).
func (t *Tensor) packedAs(name string, dt DType, e Exec) (*Tensor, error) {
	return t.formattedAs(name, ContiguousFormat, dt, e)
}

// formattedAs is packedAs for any memory format of t's dimensions.
func (t *Tensor) formattedAs(name string, f MemoryFormat, dt DType, e Exec) (*Tensor, error) {
	if t.dtype == dt && t.layout.contiguousIn(f) {
		return t, nil
	}
	l := t.layout
	l.packIn(f)
	return t.convertTo(name, &l, dt, e.Owned())
}
