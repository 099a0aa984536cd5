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
	// To gives the parameters and buffers memory on dev and their first values, or moves them there.
	To(dev device.Device, opts ...Option) error
	// Release gives the memory of parameters, gradients and buffers back. To gives the module new values.
	Release()
}

// Base has what modules share. Modules embed it, and write Forward. The zero Base is a module in training without
// parameters.
type Base struct {
	own     []*autograd.Parameter
	buffers []*autograd.Parameter
	parts   []Part
	eval    bool
}

// Part is a module inside another.
type Part struct {
	Name   string
	Module Module
}

// Register makes m a part under a name. Parts are listed in the order of registration. A nil m, and one that b is a part of, make a
// part that cannot be used: To and Forward are an *ArgumentError.
func (b *Base) Register(name string, m Module) {
	m = orRefused(m, "part "+name)
	if contains(m, b) {
		m = refused(argumentErr("part "+name, "the module would be a part of itself"))
	}
	b.parts = append(b.parts, Part{name, m})
}

// RegisterParameter makes p a parameter of the module itself, and returns it.
func (b *Base) RegisterParameter(p *autograd.Parameter) *autograd.Parameter {
	b.own = append(b.own, p)
	return p
}

// Parts lists the registered modules.
func (b *Base) Parts() []Part { return b.parts }

// OwnParameters lists the parameters of the module itself, without those of its parts.
func (b *Base) OwnParameters() []*autograd.Parameter { return b.own }

// Parameters implements Module.
func (b *Base) Parameters() []*autograd.Parameter {
	var all []*autograd.Parameter
	seen := map[*autograd.Parameter]bool{}
	add := func(ps []*autograd.Parameter) {
		for _, p := range ps {
			if !seen[p] {
				seen[p] = true
				all = append(all, p)
			}
		}
	}
	add(b.own)
	for _, part := range b.parts {
		add(part.Module.Parameters())
	}
	return all
}

// To implements Module.
func (b *Base) To(dev device.Device, opts ...Option) error {
	return place(append(b.Parameters(), b.Buffers()...), dev, opts)
}

// Release implements Module.
func (b *Base) Release() {
	for _, p := range append(b.Parameters(), b.Buffers()...) {
		p.Release()
	}
}

// Training reports whether the module is in training mode: the mode of a new module. Dropout acts only in training.
func (b *Base) Training() bool { return !b.eval }

// SetTraining changes the mode of this module alone. Train and Eval change that of its parts as well.
func (b *Base) SetTraining(on bool) { b.eval = !on }

// Train puts m and all its parts in training mode.
func Train(m Module) { setTraining(m, true) }

// Eval puts m and all its parts in evaluation mode.
func Eval(m Module) { setTraining(m, false) }

func setTraining(m Module, on bool) {
	if t, ok := m.(interface{ SetTraining(bool) }); ok && !absent(m) {
		t.SetTraining(on)
	}
	for _, part := range partsOf(m) {
		setTraining(part.Module, on)
	}
}

func partsOf(m Module) []Part {
	if p, ok := m.(interface{ Parts() []Part }); ok && !absent(m) {
		return p.Parts()
	}
	return nil
}

// Named is a parameter with its path in a model, as in "0.weight".
type Named struct {
	Name      string
	Parameter *autograd.Parameter
}

// NamedParameters lists the parameters of m in the order of Parameters, each once, under the first path that leads to it.
// Names of modules that do not embed Base are those of their parameters.
func NamedParameters(m Module) []Named {
	var all []Named
	seen := map[*autograd.Parameter]bool{}
	walk(m, "", func(name string, p *autograd.Parameter) {
		if !seen[p] {
			seen[p] = true
			all = append(all, Named{name, p})
		}
	})
	return all
}

func walk(m Module, prefix string, visit func(name string, p *autograd.Parameter)) {
	for _, p := range ownOf(m) {
		visit(prefix+p.Name(), p)
	}
	for _, part := range partsOf(m) {
		walk(part.Module, prefix+part.Name+".", visit)
	}
}

// ownOf lists the parameters of m itself, or all that it has if it does not tell them apart.
func ownOf(m Module) []*autograd.Parameter {
	m = orRefused(m, "module")
	if o, ok := m.(interface {
		OwnParameters() []*autograd.Parameter
	}); ok {
		return o.OwnParameters()
	}
	return m.Parameters()
}

// SequentialModule runs modules one after the other. A Linear and a ReLU, GELU or GELUTanh behind it are computed in one pass.
type SequentialModule struct {
	Base
}

// Sequential makes a model of modules that run one after the other. They are named 0, 1, 2, ...
func Sequential(modules ...Module) *SequentialModule {
	s := new(SequentialModule)
	for i, m := range modules {
		s.Register(strconv.Itoa(i), m)
	}
	return s
}

// Len is the number of modules.
func (s *SequentialModule) Len() int { return len(s.parts) }

// At is module i, nil if there is none.
func (s *SequentialModule) At(i int) Module {
	if i < 0 || i >= len(s.parts) {
		return nil
	}
	return s.parts[i].Module
}

// Forward implements Module.
func (s *SequentialModule) Forward(x *autograd.Variable) *autograd.Variable {
	return s.first(len(s.parts), x)
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
		return s.parts[n-1].Module.Forward(s.first(n-1, x))
	})
}

// fusedAt returns the last two of the first n modules if they are computed in one pass, else nil.
func (s *SequentialModule) fusedAt(n int) (*LinearLayer, *FuncModule) {
	if n < 2 {
		return nil, nil
	}
	l, ok := s.parts[n-2].Module.(*LinearLayer)
	f, ok2 := s.parts[n-1].Module.(*FuncModule)
	if !ok || !ok2 || f.linear == nil {
		return nil, nil
	}
	return l, f
}
