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
		if !s.Shape().Equal(p.Shape()) || !s.layout.contiguous() {
			return shapeErr(name, []Shape{p.Shape(), s.Shape()}, "parameter %d and its state must be contiguous and of one shape", i)
		}
	}
	return nil
}

// stepGroup launches the update of the parameters with the given numbers. Gradients that are not contiguous or of another
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
		prepare := grads[i].packedAs
		if g.ready {
			prepare = unscaled(guard.Scale, grads[i])
		}
		t, err := prepare(name, g.dtype, g.exec)
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
			c.out(list[i], &list[i].layout)
			list[i].storage.changed()
		}
	}
	for _, t := range temporaries {
		c.in(t, &t.layout)
	}
	c.guard(guard, g, members)
	return c.run(name)
}

// packedAs returns t itself if it is contiguous and of type dt, else a temporary that is, which the caller gives back with
// drop(x, t).
func (t *Tensor) packedAs(name string, dt DType, e Exec) (*Tensor, error) {
	if t.dtype == dt && t.layout.contiguous() {
		return t, nil
	}
	return t.convert(name, dt, e.Owned())
}
