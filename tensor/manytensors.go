package tensor

import (
	"github.com/cistern-ml/cistern/kernels/op"
)

// typeGroup is those of a list of tensors that have one type, and beside each what a kernel works on: itself, or a contiguous
// copy of what lies in no memory format without gaps.
type typeGroup struct {
	tensors []*Tensor
	packed  []*Tensor
	written bool // the kernel changes them
}

type typeGroups []*typeGroup

// groupByType checks a list of tensors, of which nil ones are skipped, and groups them by type, in the order in which types
// first appear. All must be on e's device and of floating-point types, and fit to be written if they will be. The caller drops
// the groups, also if there is an error.
func groupByType(name string, list []*Tensor, e Exec, written bool) (typeGroups, error) {
	if err := e.valid(name); err != nil {
		return nil, err
	}
	var groups typeGroups
	for _, t := range list {
		if t == nil {
			continue
		}
		if err := t.groupable(name, e, written); err != nil {
			return nil, err
		}
		groups = groups.add(t, written)
	}
	for _, g := range groups {
		if err := g.pack(name, e); err != nil {
			return groups, err
		}
	}
	return groups, nil
}

func (t *Tensor) groupable(name string, e Exec, written bool) error {
	if err := usable(name, t); err != nil {
		return err
	}
	if !t.exec.sameDevice(e) {
		return devicesErr(name, t.exec, e)
	}
	if !t.dtype.IsFloat() {
		return dtypeErr(name, needsFloat, t.dtype)
	}
	if written {
		return t.writable(name)
	}
	return nil
}

func (gs typeGroups) add(t *Tensor, written bool) typeGroups {
	for _, g := range gs {
		if g.tensors[0].dtype == t.dtype {
			g.tensors = append(g.tensors, t)
			return gs
		}
	}
	return append(gs, &typeGroup{tensors: []*Tensor{t}, written: written})
}

func (g *typeGroup) pack(name string, e Exec) error {
	for _, t := range g.tensors {
		if t.layout.formatted() {
			g.packed = append(g.packed, t)
			continue
		}
		p, err := t.packedAs(name, t.dtype, e)
		if err != nil {
			return err
		}
		g.packed = append(g.packed, p)
	}
	return nil
}

func (gs typeGroups) drop() {
	for _, g := range gs {
		for i, p := range g.packed {
			drop(p, g.tensors[i])
		}
	}
}

// run launches an operation on the group under e. The tensors are outputs if they are written, else inputs; rest adds the
// other views and the scalars. Copies are written back.
func (g *typeGroup) run(name string, id op.ID, e Exec, rest func(c *launch)) error {
	c := begin(id, e)
	c.call.I[0] = int64(len(g.tensors))
	for i, p := range g.packed {
		l := p.layout.run()
		if g.written {
			g.tensors[i].storage.changed()
			c.out(p, &l)
		} else {
			c.in(p, &l)
		}
	}
	rest(c)
	if err := c.run(name); err != nil || !g.written {
		return err
	}
	for i, p := range g.packed {
		t := g.tensors[i]
		if p == t {
			continue
		}
		h := t.On(e)
		err := h.write(name, &h.layout, p, &p.layout)
		h.Release()
		if err != nil {
			return err
		}
	}
	return nil
}
