package autograd

import (
	"slices"

	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// Hook is called with a gradient on its way through backward. It may return another one of the same shape and type, which takes
// its place and which the graph takes over, or nil to leave it. The gradient is borrowed, and others may have the same memory: a hook that
// changes it in place ends the pass with ErrInPlace. A hook takes a handle of its own (Retain) if it wants to keep it. Operations on it run under the graph's Exec; what they make is the
// hook's to release.
// A nil Hook is none.
type Hook func(grad *tensor.Tensor) (*tensor.Tensor, error)

// HookHandle takes a hook away again.
type HookHandle struct {
	from *hooks
	hook *registered
}

type registered struct {
	f         Hook
	variables VariableHook // instead of f
	post      func(p *Parameter) error
}

// hooks are in the order of registration.
type hooks struct{ list []*registered }

func (h *hooks) add(r registered) *HookHandle {
	h.list = append(h.list, &r)
	return &HookHandle{from: h, hook: &r}
}

// Remove takes the hook away. It may be called at any time, also by the hook itself, and again. A nil handle has none.
func (h *HookHandle) Remove() {
	if h == nil || h.from == nil {
		return
	}
	h.from.list = slices.DeleteFunc(slices.Clone(h.from.list), func(r *registered) bool { return r == h.hook })
}

// RegisterHook makes every backward pass call f with the variable's gradient, once, when all of it has arrived: before the rules
// of the operation that made the variable see it, before RetainGrad keeps it, and for leaves before it is added to what earlier
// passes left. Hooks are called in the order of registration, each with what the one before returned. An error of f ends the
// pass. v must require a gradient. If v is changed in place later, f still sees the gradient of what v was.
func (v *Variable) RegisterHook(f Hook) *HookHandle {
	if v == nil || v.g == nil || f == nil {
		return nil
	}
	v = v.now()
	if v.g.err == nil && !v.requires {
		v.g.Fail(gradError("RegisterHook of a variable that does not require a gradient"))
	}
	return v.hooks.add(registered{f: f})
}

// RegisterHook makes every backward pass call f with the gradient that this pass has for the parameter, before it is added to
// Grad. A parameter that is used in several checkpointed regions gets its gradient in as many parts. See Variable.RegisterHook.
func (p *Parameter) RegisterHook(f Hook) *HookHandle {
	if p == nil || f == nil {
		return nil
	}
	return p.hooks.add(registered{f: f})
}

// RegisterPostAccumulateGradHook makes every backward pass call f when it has added its gradient to the parameter's Grad
// (torch.Tensor.register_post_accumulate_grad_hook). Then no operation that runs later in the pass reads the parameter for the
// gradients of what this one depends on: f may take an optimizer's step for this parameter, and ZeroGrad, so that gradients live
// no longer than they must. The parameter must not be used in a checkpointed region and elsewhere, or in two of them, where its
// gradient comes in parts. Of a parameter that several ranks train it is called when the gradient is that of all (autograd/parallel).
func (p *Parameter) RegisterPostAccumulateGradHook(f func(p *Parameter) error) *HookHandle {
	if p == nil || f == nil {
		return nil
	}
	return p.after.add(registered{post: f})
}

// hooked passes the gradient in v.buf through the hooks.
func (b *backward) hooked(v *Variable, hs *hooks) error {
	for _, r := range hs.list {
		if r.variables != nil {
			if err := b.hookedBy(r, v); err != nil {
				return err
			}
			continue
		}
		lent, version := b.g.lend(v.buf.t), v.buf.t.Version()
		t, err := r.f(lent)
		if err == nil {
			err = b.g.open("Backward")
		}
		if err == nil {
			err = v.untouched(v.buf.t, version)
		}
		if t == lent {
			t = nil
		}
		if err != nil {
			t.Release()
			return err
		}
		if t == nil {
			continue
		}
		if t, err = b.replacement(v, t); err != nil {
			return err
		}
		b.g.ledger.drop(v.buf)
		v.buf = b.g.ledger.add(t)
	}
	return nil
}

// untouched refuses a hook that has written over the gradient of v: that of another variable may lie in the same memory.
func (v *Variable) untouched(grad *tensor.Tensor, version uint32) error {
	if grad.Version() == version {
		return nil
	}
	return called("hook", &InPlaceError{Operand: v.operand(), Detail: "a hook changed its gradient in place, which others may share; return another one instead"})
}

// replacement takes over what a hook has returned.
func (b *backward) replacement(v *Variable, t *tensor.Tensor) (*tensor.Tensor, error) {
	const name = "hook"
	have := Operand{t.DType(), t.Shape().Clone()}
	switch {
	case t.Released():
		return nil, &tensor.ReleasedError{Op: name}
	case !have.Shape.Equal(v.Shape()):
		t.Release()
		return nil, &tensor.ShapeError{Op: name, Shapes: []tensor.Shape{have.Shape, v.Shape().Clone()},
			Detail: "a hook must return a gradient of the variable's shape"}
	case have.DType != v.dtype:
		t.Release()
		return nil, &tensor.DTypeError{Op: name, DTypes: []tensor.DType{have.DType, v.dtype},
			Detail: "a hook must return a gradient of the variable's type"}
	}
	return b.g.own(name, t)
}

// HasHooks reports whether p has hooks of RegisterHook or RegisterVariableHook. It is for packages of this module, which alone can write the key.
func HasHooks(_ training.Key, p *Parameter) bool { return p != nil && len(p.hooks.list) > 0 }

// HasPostHooks reports whether p has hooks of RegisterPostAccumulateGradHook. It is for packages of this module, which alone can write the key.
func HasPostHooks(_ training.Key, p *Parameter) bool { return p != nil && len(p.after.list) > 0 }

// CallPostHooks calls them at the end of a backward pass over g, for who has given p the gradient that a sink has taken.
func CallPostHooks(_ training.Key, g *Graph, p *Parameter) error {
	if g == nil || p == nil || len(p.after.list) == 0 {
		return nil
	}
	return (&backward{g: g}).accumulated(p)
}

// accumulated calls the hooks of a parameter whose gradient has been added up. They may work on the parameter's stream.
func (b *backward) accumulated(p *Parameter) error {
	if err := b.g.lead(); err != nil {
		return err
	}
	for _, r := range p.after.list {
		if err := r.post(p); err != nil {
			return err
		}
		if err := b.g.open("Backward"); err != nil {
			return err
		}
	}
	return b.g.followAll()
}
