package nn

import (
	"slices"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/tensor"
)

// ForwardPreHook is called before each forward pass of m, with its input: the first one, of modules with several. It may return another variable of the
// same graph, shape and type, which takes the input's place wherever the module uses it, or nil to leave it. See ForwardHook.
type ForwardPreHook func(m Module, x *autograd.Variable) (*autograd.Variable, error)

// ForwardHook is called after each forward pass of m, with its input and its result. It may return another variable of the same graph, which takes the
// result's place, or nil to leave it. An error is the graph's, and names module and hook. Values that it is to
// keep for longer than the call it copies, or keeps with Variable.Keep. What it makes and does not return ends with the module's scope.
type ForwardHook func(m Module, x, y *autograd.Variable) (*autograd.Variable, error)

// BackwardHook is called by a backward pass with a gradient: see autograd.Hook for what it may do with it.
type BackwardHook func(m Module, grad *tensor.Tensor) (*tensor.Tensor, error)

// HookHandle takes a hook away again.
type HookHandle struct {
	from *moduleHooks
	hook *moduleHook
}

// Remove takes the hook away. It may be called at any time, also by the hook itself, and again. A nil handle has none.
func (h *HookHandle) Remove() {
	if h == nil || h.from == nil {
		return
	}
	h.from.list = slices.DeleteFunc(slices.Clone(h.from.list), func(k *moduleHook) bool { return k == h.hook })
}

// moduleHooks are in the order of registration.
type moduleHooks struct {
	list  []*moduleHook
	count int // of all that were ever registered
}

// moduleHook has one of the functions.
type moduleHook struct {
	number          int // as errors call it, from 0
	pre             ForwardPreHook
	post            ForwardHook
	gradOut, gradIn BackwardHook
}

// RegisterForwardPreHook makes every forward pass of m call f before it (register_forward_pre_hook). Hooks are called in the order of registration, each
// with what the one before has returned, where a pass enters the module's Scope or Scopes, which all layers of this package have: so a module of
// the program's own without them has no hooks that are called. Modules that Sequential or TransformerBlock would compute in one pass with
// their neighbour are computed alone while they have hooks. A checkpointed module runs its hooks when it runs again.
//
// The error is an *ArgumentError for a nil f, and for a module that does not embed Base, nil among them. Clone copies hooks.
func RegisterForwardPreHook(m Module, f ForwardPreHook) (*HookHandle, error) {
	return register(m, "RegisterForwardPreHook", f == nil, moduleHook{pre: f})
}

// RegisterForwardHook makes every forward pass of m call f after it (register_forward_hook): see RegisterForwardPreHook. In methods with several
// results, as RNNLayer.ForwardState, y is the first one. One that Scopes runs in a program's own module cannot be replaced: to return another is an
// error.
func RegisterForwardHook(m Module, f ForwardHook) (*HookHandle, error) {
	return register(m, "RegisterForwardHook", f == nil, moduleHook{post: f})
}

// RegisterFullBackwardPreHook makes every backward pass call f with the gradient of m's result, when all of it has arrived and before it goes on
// into m (register_full_backward_pre_hook). f may replace it. It is not called where no gradient flows. See RegisterForwardPreHook.
func RegisterFullBackwardPreHook(m Module, f BackwardHook) (*HookHandle, error) {
	return register(m, "RegisterFullBackwardPreHook", f == nil, moduleHook{gradOut: f})
}

// RegisterFullBackwardHook makes every backward pass call f with the gradient of m's input, as far as it came through m
// (register_full_backward_hook, whose grad_output a hook of RegisterFullBackwardPreHook sees). f may replace it. It is not called for an input that
// requires no gradient. While m has such hooks its input cannot be changed in place. See RegisterForwardPreHook.
func RegisterFullBackwardHook(m Module, f BackwardHook) (*HookHandle, error) {
	return register(m, "RegisterFullBackwardHook", f == nil, moduleHook{gradIn: f})
}

func register(m Module, call string, missing bool, h moduleHook) (*HookHandle, error) {
	if c, ok := m.(*CheckpointModule); ok && c != nil {
		m = c.inner()
	}
	switch {
	case absent(m):
		return nil, argumentErr(call, "the module is nil")
	case missing:
		return nil, argumentErr(call, "the function is nil")
	}
	b := baseOf(m)
	if b == nil {
		return nil, argumentErr(call, "a %T does not embed nn.Base, whose Scope calls hooks", m)
	}
	if _, alone := m.(bare); !alone {
		introduced(m)
	}
	if b.hooks == nil {
		b.hooks = new(moduleHooks)
	}
	h.number = b.hooks.count
	b.hooks.count++
	b.hooks.list = append(slices.Clone(b.hooks.list), &h)
	return &HookHandle{from: b.hooks, hook: &h}, nil
}

// hooked reports whether the module has hooks.
func (b *Base) hooked() bool { return b != nil && b.hooks != nil && len(b.hooks.list) > 0 }

// clone is a list of its own of the same hooks.
func (h *moduleHooks) clone() *moduleHooks {
	if h == nil {
		return nil
	}
	c := *h
	return &c
}

// calling runs f, the forward pass of b's module, between the module's hooks, with its parametrized parameters computed. The results are f's, of which hooks see the first one.
func (b *Base) calling(g *autograd.Graph, x *autograd.Variable, fixed bool, f func() []*autograd.Variable) (results []*autograd.Variable) {
	if b == nil {
		return f()
	}
	run := f
	f = func() []*autograd.Variable { return b.withParametrized(g, run) }
	if !b.hooked() || g.Err() != nil {
		return f()
	}
	c := &hookCall{b: b, g: g, hooks: b.hooks.list, m: b.whole()}
	in := c.before(x)
	if in == x {
		results = f()
	} else {
		results = firstOf(f, func(f func() *autograd.Variable) *autograd.Variable { return g.WithVariable(x, in, f) })
	}
	if len(results) == 0 || results[0] == nil || g.Err() != nil {
		return results
	}
	y := c.after(in, results[0])
	if fixed && y != results[0] && g.Err() == nil {
		y = g.Refuse("forward", argumentErr("Scopes", "a hook has replaced the first result, which the method has already: it can only be looked at"), x)
	}
	results[0] = y
	return results
}

// hookCall is one forward pass of a module that has hooks.
type hookCall struct {
	b     *Base
	g     *autograd.Graph
	hooks []*moduleHook
	m     Module
}

// before passes the input through the hooks.
func (c *hookCall) before(x *autograd.Variable) *autograd.Variable {
	for _, h := range c.hooks {
		if h.pre == nil {
			continue
		}
		y, err := h.pre(c.m, x)
		if err == nil && y != nil && c.g.Err() == nil && (!y.Shape().Equal(x.Shape()) || y.DType() != x.DType()) {
			err = shapeError("hook", x, "what takes the input's place has shape %v and type %v, and must have those of the input, %v", y.Shape(), y.DType(), x.DType())
		}
		if x = c.replaced("forward pre-hook", h, x, y, err); c.g.Err() != nil {
			return x
		}
	}
	if !x.RequiresGrad() || !slices.ContainsFunc(c.hooks, func(h *moduleHook) bool { return h.gradIn != nil }) {
		return x
	}
	x = x.View(x.Shape().Clone()...) // what comes through this module alone arrives here
	for _, h := range c.hooks {
		c.onGradient("full backward hook", h, x, h.gradIn)
	}
	return x
}

// after passes the result through the hooks.
func (c *hookCall) after(x, y *autograd.Variable) *autograd.Variable {
	for _, h := range c.hooks {
		if h.post == nil {
			continue
		}
		z, err := h.post(c.m, x, y)
		if y = c.replaced("forward hook", h, y, z, err); c.g.Err() != nil {
			return y
		}
	}
	if !y.RequiresGrad() || !slices.ContainsFunc(c.hooks, func(h *moduleHook) bool { return h.gradOut != nil }) {
		return y
	}
	if y == x || y.IsLeaf() {
		y = y.View(y.Shape().Clone()...)
	}
	for _, h := range c.hooks {
		c.onGradient("full backward pre-hook", h, y, h.gradOut)
	}
	return y
}

// replaced is what goes on after a hook: what it has returned, or what it was given.
func (c *hookCall) replaced(kind string, h *moduleHook, given, returned *autograd.Variable, err error) *autograd.Variable {
	if err == nil && returned != nil && returned.Graph() != c.g {
		err = autograd.ErrOtherGraph
	}
	switch {
	case err != nil:
		return c.g.Refuse("forward", wrapHook(kind, h, "", c.m, err), given) // the graph's error has the path
	case returned == nil:
		return given
	}
	return returned
}

// onGradient makes backward call f, if it is not nil, with v's gradient.
func (c *hookCall) onGradient(kind string, h *moduleHook, v *autograd.Variable, f BackwardHook) {
	if f == nil {
		return
	}
	path, m := c.g.ModulePath(), c.m
	v.RegisterHook(func(grad *tensor.Tensor) (*tensor.Tensor, error) {
		t, err := f(m, grad)
		return t, wrapHook(kind, h, path, m, err)
	})
}

// wrapHook says which hook of which module has failed.
func wrapHook(kind string, h *moduleHook, path string, m Module, err error) error {
	if err == nil {
		return nil
	}
	name := typeName(m)
	if path != "" {
		name = excerpt.Of(path) + " (" + name + ")"
	}
	return errors.WithMessagef(err, "nn: %s %d of module %s", kind, h.number, name)
}
