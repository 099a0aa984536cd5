package optim

import "github.com/cistern-ml/cistern/autograd"

// StepInBackward makes every backward pass take the optimizer's step for each parameter as soon as its gradient is complete, and
// release that gradient: so the gradients of a model never live all at once. There is nothing to call after Backward; settings
// are those at the time of the pass. It cannot be joined with what needs all gradients together: clipping by their norm, a
// GradScaler, accumulation over several passes. Launches are one for each parameter. Parameters of groups that are added later
// are not concerned, so that an optimizer without parameters has an error (Err) from here on. The result ends it.
//
// Of a model that several ranks train it is for what autograd/parallel's Parameters has, and steps when the gradients were reduced, at the end of the pass, when all checkpointed regions were run again; passes in NoSync
// take no step.
func (o *Grouped) StepInBackward() (stop func()) {
	o.fail(o.ready())
	var handles []*autograd.HookHandle
	for _, g := range o.list() {
		for _, p := range g.params {
			handles = append(handles, p.RegisterPostAccumulateGradHook(func(p *autograd.Parameter) error {
				if o.err != nil {
					return o.err
				}
				defer p.ZeroGrad()
				return o.update(g, []*autograd.Parameter{p}, nil)
			}))
		}
	}
	return func() {
		for _, h := range handles {
			h.Remove()
		}
	}
}
