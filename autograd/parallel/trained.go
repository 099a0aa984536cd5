package parallel

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
)

// What is trained is what the ranks have agreed on in Data, and no pass may change that.

// stillFrozen refuses to train what was not trained when the ranks have agreed, as each would train it by its own gradients alone, and what was trained and is not any more, whose gradients the others
// wait for.
func (d *DataParallel) stillFrozen(op string) error {
	for _, n := range d.frozen {
		if n.Parameter.RequiresGrad() {
			return d.fatal(op, &Error{Op: op, Rank: d.comm.Rank(), Parameter: n.Name, Detail: "it was not trained when Data was called: SetRequiresGrad comes before Data"})
		}
	}
	for _, b := range d.buckets {
		for _, c := range b.pieces {
			if !c.p.RequiresGrad() {
				return d.fatal(op, &Error{Op: op, Rank: d.comm.Rank(), Parameter: c.of.name, Detail: "this rank's part of it is frozen, which changes nothing of what is trained: SetRequiresGrad of the model's parameter comes before Data"})
			}
		}
	}
	for _, q := range d.params {
		if !q.p.RequiresGrad() && !d.set.unused {
			return d.fatal(op, &Error{Op: op, Rank: d.comm.Rank(), Parameter: q.name, Detail: "it is frozen, and was trained when Data was called: SetRequiresGrad comes before Data, or ask for FindUnused"})
		}
	}
	return nil
}

// meeting is f with a note of the parameters that it uses and that nobody has agreed to train; with ZeRO 3 it lends what the units that have them do not.
func (d *DataParallel) meeting(g *autograd.Graph, f func() *autograd.Variable) func() *autograd.Variable {
	meet := func(p *autograd.Parameter) error {
		if err := d.lend(p); err != nil {
			return err
		}
		if !g.GradEnabled() || !p.RequiresGrad() || autograd.Diverted(key, p) || autograd.PartOf(key, p) != "" {
			return nil
		}
		if d.met == nil {
			d.met = map[*autograd.Parameter]bool{}
		}
		d.met[p] = true
		return nil
	}
	return func() *autograd.Variable { return autograd.WatchParameters(key, g, meet, f) }
}

// newcomer refuses the gradient of a parameter that the model, or the forward pass, did not have when the ranks have agreed: each would train it by its own gradients alone. What is elsewhere, as a layer that is used outside of Run, and what
// gets no gradient, as a teacher within it, is the program's.
func (d *DataParallel) newcomer(g *autograd.Graph, p *autograd.Parameter) error {
	if autograd.PartOf(key, p) != "" {
		return nil
	}
	if d.has == nil {
		d.has = map[*autograd.Parameter]string{}
		for _, n := range nn.NamedParameters(d.model) {
			d.has[n.Parameter] = n.Name
		}
	}
	name, mine := d.has[p]
	if !mine && !(d.graph == g && d.met[p]) {
		return nil
	}
	if !mine {
		name = p.Name()
	}
	return &Error{Op: "Backward", Rank: d.comm.Rank(), Parameter: name,
		Detail: "it was not among the parameters when Data was called, and each rank would train it by its own gradients alone: make it part of the model before Data, freeze it (SetRequiresGrad), or use it outside of Run"}
}

// stillThere refuses parameters that have other values than the ranks' parts of them since (Module.To, SetTensor): they would not be trained.
func (d *DataParallel) stillThere(op string) error {
	if d.set.stage == 0 {
		return nil
	}
	for _, q := range d.params {
		t := q.p.Tensor()
		if d.set.stage == 3 && !q.bucket.installed {
			if t == nil {
				continue
			}
		} else if t != nil && t.SharesStorage(q.bucket.full) {
			continue
		}
		return d.fatal(op, &Error{Op: op, Rank: d.comm.Rank(), Parameter: q.name,
			Detail: fmt.Sprintf("it was replaced or released since Data, which with ZeRO %d keeps the values in arrays of its own: Unshard first, and call Data again, or replace it in Whole", d.set.stage)})
	}
	return nil
}
