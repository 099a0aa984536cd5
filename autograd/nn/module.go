package nn

import (
	"strconv"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
)

// Module is a layer, or a model made of layers.
type Module interface {
	// Forward computes the module's function in x's graph. Errors are the graph's.
	Forward(x *autograd.Variable) *autograd.Variable
	// Parameters lists the module's parameters and those of its parts, each once, always in the same order.
	Parameters() []*autograd.Parameter
	// To gives the parameters and buffers memory on dev and their first values, or moves them there: all of them, or none if it
	// fails. What is moved or converted has its old and its new memory until the last one is there.
	To(dev device.Device, opts ...Option) error
	// Release gives the memory of parameters, gradients and buffers back. To gives the module new values.
	Release()
}

// Base has what modules share. Modules embed it, and write Forward. The zero Base is a module in training without
// parameters. A module that has registered fields may not be copied.
type Base struct {
	own   []slot     // parameters and buffers, in the order of registration
	parts []partSlot // likewise
	wrong error      // the first mistake of a registration
	self  *Base      // where the Base lay when fields were registered
	eval  bool

	path    string // in the model that To was called on
	reached bool   // by To
}

// Part is a module inside another.
type Part struct {
	Name   string
	Module Module
}

// Parts lists the registered modules, as they are now. It is a copy: to change a part, assign to its field.
func (b *Base) Parts() []Part {
	if b == nil {
		return nil
	}
	list := make([]Part, len(b.parts))
	for i := range b.parts {
		list[i] = Part{b.parts[i].name, b.parts[i].module()}
	}
	return list
}

// OwnParameters lists the parameters of the module itself, without those of its parts.
func (b *Base) OwnParameters() []*autograd.Parameter { return parametersOf(once(b.named(false))) }

// Parameters implements Module.
func (b *Base) Parameters() []*autograd.Parameter { return parametersOf(NamedParameters(bare{b})) }

// To implements Module.
func (b *Base) To(dev device.Device, opts ...Option) error {
	if err := Check(bare{b}); err != nil {
		return err
	}
	if err := place(once(NamedState(bare{b})), dev, opts); err != nil {
		return err
	}
	remember(bare{b})
	return nil
}

// Release implements Module.
func (b *Base) Release() {
	for _, n := range NamedState(bare{b}) {
		n.Parameter.Release()
	}
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

// SequentialModule runs modules one after the other. A Linear and a ReLU, GELU or GELUTanh behind it are computed in one pass.
type SequentialModule struct {
	Base
}

// Sequential makes a model of modules that run one after the other. They are named 0, 1, 2, ...
func Sequential(modules ...Module) *SequentialModule {
	s := new(SequentialModule)
	s.parts = make([]partSlot, len(modules))
	for i, m := range modules { // that cannot have s as a part, which is new, nor two of one name: nothing to look for
		name := strconv.Itoa(i)
		s.parts[i] = partSlot{name: name, value: orRefused(m, "part "+name)}
	}
	return s
}

// Len is the number of modules.
func (s *SequentialModule) Len() int {
	if s == nil {
		return 0
	}
	return len(s.parts)
}

// At is module i, nil if there is none.
func (s *SequentialModule) At(i int) Module {
	if i < 0 || i >= s.Len() {
		return nil
	}
	return s.parts[i].module()
}

// Set puts m in the place of module i. It is an *ArgumentError if there is no module i, if m is nil, and if s is a part of m; then nothing
// is changed. The program releases the one before, and makes optimizers anew (package documentation, Replacing).
func (s *SequentialModule) Set(i int, m Module) error {
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
	s.parts[i] = partSlot{name: s.parts[i].name, value: m}
	return nil
}

// Forward implements Module.
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
		return answered(x, s.parts[n-1].module().Forward(s.first(n-1, x)), "module "+s.parts[n-1].name)
	})
}

// fusedAt returns the last two of the first n modules if they are computed in one pass, else nil.
func (s *SequentialModule) fusedAt(n int) (*LinearLayer, *FuncModule) {
	if n < 2 {
		return nil, nil
	}
	l, ok := s.parts[n-2].module().(*LinearLayer)
	f, ok2 := s.parts[n-1].module().(*FuncModule)
	if !ok || !ok2 || f.linear == nil {
		return nil, nil
	}
	return l, f
}
