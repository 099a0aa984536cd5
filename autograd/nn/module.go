package nn

import (
	"strconv"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
)

// Module is what has parameters and buffers: a layer, a model made of layers, a part of one. What embeds Base is a Module. How it computes
// is its own affair: its Forward has the inputs and results that it needs.
type Module interface {
	// Parameters lists the module's parameters and those of its parts, each once, always in the same order.
	Parameters() []*autograd.Parameter
	// To gives the parameters and buffers memory on dev and their first values, or moves them there: all of them, or none if it
	// fails. What is moved or converted has its old and its new memory until the last one is there.
	To(dev device.Device, opts ...Option) error
	// Release gives the memory of parameters, gradients and buffers back. To gives the module new values.
	Release()
}

// Layer is a Module with one input and one result, so that Sequential can run it, and Checkpointed run it twice.
type Layer interface {
	Module
	// Forward computes the layer's function in x's graph. Errors are the graph's.
	Forward(x *autograd.Variable) *autograd.Variable
}

// Base has what modules share. Modules embed it, and write Forward. The zero Base is a module in training without
// parameters. A module that has registered fields may not be copied.
type Base struct {
	own   []slot     // parameters and buffers, in the order of registration
	parts []partSlot // likewise
	wrong error      // the first mistake of a registration
	self  *Base      // where the Base lay when fields were registered, or it was given to New
	outer Module     // what embeds the Base, nil if nobody has said so
	eval  bool
	hooks *moduleHooks

	parametrized []*parametrized

	listed bool // there is nothing to find in fields: of modules of this package without parameters

	path    string // in the model that To was called on
	reached bool   // by To
}

// Part is a module inside another.
type Part struct {
	Name   string
	Module Module
}

// New tells a module's Base what it is embedded in, and returns the module. A constructor ends with it:
//
//	return nn.New(&Net{FC1: nn.Linear(8, 16), FC2: nn.Linear(16, 1)})
//
// So the methods of the Base (To, Parameters, Buffers, Parts, Release, String) find what is in the fields. Functions that take a module find it
// by themselves. Of a struct that embeds another module the one that is made last counts. A nil module is returned as it is.
func New[M Module](m M) M {
	if absent(m) {
		return m
	}
	if b := baseOf(m); b != nil {
		b.outer = m
		if b.self == nil {
			b.self = b
		}
	}
	return m
}

// introduced is m, whose Base knows from now on what it is embedded in, unless it did.
func introduced[M Module](m M) M {
	if b := baseOf(m); b != nil && b.outer == nil {
		b.outer = m
	}
	return m
}

// whole is what the Base is embedded in, or the Base alone if it does not know that.
func (b *Base) whole() Module {
	if b == nil || b.outer == nil || baseOf(b.outer) != b { // a copy knows only of the one that it was copied from
		return bare{b}
	}
	return b.outer
}

// Parts lists the modules in the module, as they are now. It is a copy: to change a part, assign to its field.
func (b *Base) Parts() []Part { return b.partsIn(b.whole()) }

// OwnParameters lists the parameters of the module itself, without those of its parts.
func (b *Base) OwnParameters() []*autograd.Parameter {
	return parametersOf(once(b.ownIn(b.whole(), ofParameters)))
}

// Parameters implements Module.
func (b *Base) Parameters() []*autograd.Parameter { return parametersOf(NamedParameters(b.whole())) }

// To implements Module.
func (b *Base) To(dev device.Device, opts ...Option) error { return to(b.whole(), dev, opts) }

func to(m Module, dev device.Device, opts []Option) error {
	if err := Check(m); err != nil {
		return err
	}
	if err := settle(m, dev, opts); err != nil {
		return err
	}
	remember(m)
	return nil
}

// ZeroGrad releases the gradients of all parameters of the module, those that an optimizer does not have among them.
func (b *Base) ZeroGrad() {
	for _, p := range b.Parameters() {
		p.ZeroGrad()
	}
}

// SetRequiresGrad freezes all parameters of the module, or has gradients computed for them again (requires_grad_). Buffers stay as they are.
func (b *Base) SetRequiresGrad(on bool) {
	for _, p := range b.Parameters() {
		p.SetRequiresGrad(on)
	}
}

// Release implements Module.
func (b *Base) Release() { release(b.whole()) }

func release(m Module) {
	for _, n := range everything(m) {
		n.Parameter.Release()
	}
	walk(m, "", func(_ string, m Module) {
		b := baseOf(m)
		if b == nil || b.wrong == nil || b.self != nil && b.self != b {
			return
		}
		for _, s := range contentsOf(m, b).own { // a mistake is what is listed instead of them
			(*s.field).Release()
		}
	})
}

// Training reports whether the module is in training mode: the mode of a new module. Dropout acts only in training.
func (b *Base) Training() bool { return b == nil || !b.eval }

// SetTraining changes the mode of this module alone. Train and Eval change that of its parts as well.
func (b *Base) SetTraining(on bool) {
	if b != nil {
		b.eval = !on
	}
}

// Train puts m and all its parts in training mode.
func Train(m Module) { setTraining(m, true) }

// Eval puts m and all its parts in evaluation mode.
func Eval(m Module) { setTraining(m, false) }

func setTraining(m Module, on bool) {
	walk(m, "", func(_ string, m Module) {
		if t, ok := m.(interface{ SetTraining(bool) }); ok {
			t.SetTraining(on)
		}
	})
}

// SequentialModule runs layers one after the other. A Linear and a ReLU, GELU or GELUTanh behind it are computed in one pass.
type SequentialModule struct {
	Base
}

// Sequential makes a model of layers that run one after the other. They are named 0, 1, 2, ...
func Sequential(layers ...Layer) *SequentialModule {
	s := new(SequentialModule)
	s.listed = true
	s.parts = make([]partSlot, len(layers))
	for i, m := range layers { // that cannot have s as a part, which is new, nor two of one name: nothing to look for
		name := strconv.Itoa(i)
		s.parts[i] = partSlot{name: name, value: introduced(orRefused(m, "part "+name))}
	}
	return s
}

// Len is the number of layers.
func (s *SequentialModule) Len() int {
	if s == nil {
		return 0
	}
	return len(s.parts)
}

// At is layer i, nil if there is none.
func (s *SequentialModule) At(i int) Layer {
	if i < 0 || i >= s.Len() {
		return nil
	}
	return s.layer(i)
}

// layer is layer i. Register may have given the model a part that is none.
func (s *SequentialModule) layer(i int) Layer {
	m := s.parts[i].module()
	if l, ok := m.(Layer); ok {
		return l
	}
	return refused(argumentErr("part "+s.parts[i].name, "a %T has no Forward with one input, which Sequential runs", m))
}

// Set puts m in the place of layer i. It is an *ArgumentError if there is no layer i, if m is nil, and if s is a part of m; then nothing
// is changed. The program releases the one before, and makes optimizers anew (package documentation, Replacing).
func (s *SequentialModule) Set(i int, m Layer) error {
	switch {
	case s == nil:
		return argumentErr("Sequential", "the model is nil")
	case i < 0 || i >= len(s.parts):
		return argumentErr("Sequential", "there is no module %d, of %d", i, len(s.parts))
	case absent(m):
		return argumentErr("Sequential", "module %d would be nil", i)
	case contains(m, &s.Base):
		return argumentErr("Sequential", "module %d would have the model itself as a part", i)
	}
	s.parts[i] = partSlot{name: s.parts[i].name, value: introduced(m)}
	return nil
}

// Forward implements Layer.
func (s *SequentialModule) Forward(x *autograd.Variable) *autograd.Variable {
	return within(s, x, func(*autograd.Graph) *autograd.Variable { return s.first(len(s.parts), x) })
}

// first runs the first n modules. The scope of module n holds its input, the result of those before it: so the input is freed
// when the module has run, unless it was saved for backward.
func (s *SequentialModule) first(n int, x *autograd.Variable) *autograd.Variable {
	if n == 0 || x == nil {
		return x
	}
	return x.Graph().Scope(func() *autograd.Variable {
		if l, f := s.fusedAt(n); l != nil {
			return l.forward(s.first(n-2, x), f.linear)
		}
		return answered(x, s.layer(n-1).Forward(s.first(n-1, x)), "module "+s.parts[n-1].name)
	})
}

// fusedAt returns the last two of the first n modules if they are computed in one pass, else nil.
func (s *SequentialModule) fusedAt(n int) (*LinearLayer, *FuncModule) {
	if n < 2 {
		return nil, nil
	}
	l, ok := s.parts[n-2].module().(*LinearLayer)
	f, ok2 := s.parts[n-1].module().(*FuncModule)
	if !ok || !ok2 || f.linear == nil || l.hooked() || f.hooked() {
		return nil, nil
	}
	return l, f
}
