package parallel

import (
	"slices"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/internal/memmeter"
	"github.com/cistern-ml/cistern/tensor"
)

// Which parameters ZeRO 3 gathers together.

// unit is a module that is one, with all modules in it.
type unit struct {
	at     autograd.Located
	inside map[autograd.Located]bool
}

// arrangeUnits shards the parameters by units.
func (d *DataParallel) arrangeUnits() error {
	units, err := d.unitList("Data")
	if err != nil {
		return err
	}
	entries := d.entries()
	owners := ownersOf(d.model)
	for i, n := range d.named {
		entries[i].unit = innermost(units, owners[n.Parameter])
	}
	d.layout = entries
	d.setBuckets(united(entries))
	slices.Reverse(d.launch) // backward comes to the last unit first
	if err := d.mayShard("Data", d.flats(), entries, d.comm.Size()); err != nil {
		return err
	}
	d.byModule, d.holders = map[autograd.Located][]*bucket{}, map[*autograd.Parameter]*bucket{}
	for _, b := range d.buckets {
		for _, q := range b.params {
			d.holders[q.p] = b
		}
		if b.unit == 0 {
			d.root = append(d.root, b)
		} else {
			at := units[b.unit-1].at
			d.byModule[at] = append(d.byModule[at], b)
		}
		if err := d.keepShard(b); err != nil {
			return err
		}
	}
	return nil
}

// unitList is what Units has given, or the parts of the model.
func (d *DataParallel) unitList(op string) ([]unit, error) {
	modules := d.set.units
	if len(modules) == 0 {
		modules = partsOf(d.model)
	}
	mine := map[autograd.Located]bool{}
	for m := range nn.Modules(d.model) {
		if at := nn.LocatedIn(key, m); at != nil {
			mine[at] = true
		}
	}
	var units []unit
	for i, m := range modules {
		if isnil.Value(m) {
			return nil, d.mistake(op, "unit %d is nil", i)
		}
		at := nn.LocatedIn(key, m)
		if at == nil {
			if len(d.set.units) > 0 {
				return nil, d.mistake(op, "unit %d, a %T, does not embed nn.Base, whose Scope says when it runs", i, m)
			}
			continue
		}
		if !mine[at] {
			return nil, d.mistake(op, "unit %d, a %T, is no module of the model", i, m)
		}
		u := unit{at, map[autograd.Located]bool{}}
		for part := range nn.Modules(m) {
			if in := nn.LocatedIn(key, part); in != nil {
				u.inside[in] = true
			}
		}
		units = append(units, u)
	}
	return units, nil
}

// checkUnits refuses what Units has given where the stage makes no units of it, so that a program with the stage as a flag hears of it with any.
func (d *DataParallel) checkUnits(op string) error {
	if d.set.stage == 3 || len(d.set.units) == 0 {
		return nil
	}
	_, err := d.unitList(op)
	return err
}

// partsOf are the parts of a module, with what is in lists and other modules that are not run as one in their place.
func partsOf(m nn.Module) []nn.Module {
	var all []nn.Module
	for part := range nn.Children(m) {
		if _, runs := part.(nn.Layer); runs {
			all = append(all, part)
		} else {
			all = append(all, partsOf(part)...)
		}
	}
	return all
}

// ownersOf are the modules that have a parameter as their own.
func ownersOf(model nn.Module) map[*autograd.Parameter][]autograd.Located {
	owners := map[*autograd.Parameter][]autograd.Located{}
	for m := range nn.Modules(model) {
		own, ok := m.(interface{ OwnParameters() []*autograd.Parameter })
		if !ok {
			continue
		}
		for _, p := range own.OwnParameters() {
			owners[p] = append(owners[p], nn.LocatedIn(key, m))
		}
	}
	return owners
}

// innermost is the number of the smallest unit, from 1, that has all owners of a parameter in it; 0, the model itself, if there is none.
func innermost(units []unit, owners []autograd.Located) int {
	best := 0
	for i, u := range units {
		outside := func(at autograd.Located) bool { return !u.inside[at] }
		if len(owners) == 0 || slices.ContainsFunc(owners, outside) {
			continue
		}
		if best == 0 || len(u.inside) < len(units[best-1].inside) {
			best = i + 1
		}
	}
	return best
}

// keepShard takes the values of a bucket's parameters away, but for the rank's part.
func (d *DataParallel) keepShard(b *bucket) error {
	if err := d.flatten(b); err != nil {
		return err
	}
	defer func() {
		for _, q := range b.params {
			autograd.Put(key, q.p, nil, away)
		}
		b.full.Release()
		b.full = nil
	}()
	event, err := d.exec.Device().NewEvent()
	if err != nil {
		return err
	}
	b.ready = event
	part := b.shard_
	b.shard_ = nil
	defer part.Release()
	if b.shard_, err = tensor.Empty(d.exec, b.dtype, part.Len()); err != nil {
		return err
	}
	mark(b.shard_, memmeter.Parameter)
	if err := b.shard_.CopyFrom(part); err != nil {
		return err
	}
	return d.cut(b)
}

// away is where a parameter's value is while a pass is under way.
const away = "its value is sharded (ZeRO 3), and whole only from where the forward pass of its unit begins within Run, and in Whole: the Forward of a module of one's own must call Base.Scope to have it gathered; what is used before its unit runs is of another one: name a module in which all its uses are in Units, or leave the module that has it out of them; checkpointed layers that share it need GradientsInParts, an option of Data; a penalty beside Forward takes the ranks' parts (DataParallel.Parameters)"

// beside is where it is while none is.
const beside = "call DataParallel.Forward in place of the model's, or what uses it in Run: its value is sharded (ZeRO 3), and whole only there and in Whole; a penalty beside Forward takes the ranks' parts (DataParallel.Parameters); another model can have it when this one's DataParallel is unsharded or closed"

// whereAway says which of the two it is.
func (d *DataParallel) whereAway() string {
	if d.forward || d.underWay() {
		return away
	}
	return beside
}

// lost is where it is after Close.
const lost = "its value was sharded (ZeRO 3), and Close was called without Unshard"

// notGathered is why it has no value after Close with ZeRO 1 and 2.
const notGathered = "each rank has its part of the last update alone, and Close was called without Unshard"
