package nn

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// located is a Base as autograd sees it: what errors ask for the path.
type located Base

// PathIn is the path that To found or, before To, the names by which the modules around lead here.
func (l *located) PathIn(outer []autograd.Located) string {
	b := (*Base)(l)
	if b.path != "" {
		return b.path
	}
	for i := len(outer) - 1; i >= 0; i-- {
		o, ok := outer[i].(*located)
		if !ok {
			continue
		}
		if path := pathOf(b, (*Base)(o)); path != "" {
			return join(o.PathIn(outer[:i]), path)
		}
	}
	return ""
}

// OwnBuffers is the module's, for reports of memory.
func (l *located) OwnBuffers() []*autograd.Parameter { return (*Base)(l).OwnBuffers() }

// ModuleType is the module's type, which time lines name the outermost one by. It is empty if it is not known.
func (l *located) ModuleType() string {
	m := (*Base)(l).whole()
	if _, alone := m.(bare); alone {
		return ""
	}
	return typeName(m)
}

// pathOf is the path of b in root, empty if it is not in it.
func pathOf(b, root *Base) (found string) {
	walk(root.whole(), "", func(path string, m Module) {
		if found == "" && baseOf(m) == b {
			found = path
		}
	})
	return found
}

// remember notes the paths of m's parts, for errors. A path that is longer, because To reached the part by a larger model before, stays.
func remember(m Module) {
	seen := map[*Base]bool{}
	walk(m, "", func(path string, m Module) {
		if c, ok := m.(*CheckpointModule); ok {
			m = c.inner()
		}
		b := baseOf(m)
		if b == nil || seen[b] {
			return
		}
		seen[b] = true
		if _, alone := m.(bare); !alone {
			introduced(m)
		}
		b.reached = true
		if path != "" && !strings.HasSuffix(b.path, "."+path) {
			b.path = path
		}
	})
}

// Scope is the scope of a module's Forward: it runs f in a scope of x's graph, and errors in it have the module's path. It returns what f
// returns, and nil for a nil x. That f returns nil is an error of the graph.
//
//	func (n *Net) Forward(x *autograd.Variable) *autograd.Variable {
//		return n.Scope(x, func(g *autograd.Graph) *autograd.Variable { return n.fc2.Forward(n.fc1.Forward(x).ReLU()) })
//	}
func (b *Base) Scope(x *autograd.Variable, f func(g *autograd.Graph) *autograd.Variable) *autograd.Variable {
	g := x.Graph()
	if g == nil {
		return nil
	}
	if err := b.mistake(); err != nil {
		return g.Refuse("forward", err, x)
	}
	return g.ModuleScope((*located)(b), func() *autograd.Variable {
		if f == nil {
			return g.Refuse("forward", argumentErr("Scope", "the function is nil"), x)
		}
		if !b.hooked() && len(b.parametrized) == 0 {
			return f(g)
		}
		return b.calling(g, x, false, func() []*autograd.Variable { return []*autograd.Variable{f(g)} })[0]
	})
}

// Scopes is Scope for methods with several results, beside Forward. Assign them in f: then a nil x, for which f is not run, gives nil ones. A result
// that is nil, and none at all, is an error of the graph. After an error f runs too, and what it computes is that error.
//
//	func (e *Encoder) Encode(x *autograd.Variable) (mean, logVar *autograd.Variable) {
//		e.Scopes(x, func(g *autograd.Graph) []*autograd.Variable {
//			h := e.body.Forward(x).ReLU()
//			mean, logVar = e.mean.Forward(h), e.logVar.Forward(h)
//			return []*autograd.Variable{mean, logVar}
//		})
//		return mean, logVar
//	}
func (b *Base) Scopes(x *autograd.Variable, f func(g *autograd.Graph) []*autograd.Variable) []*autograd.Variable {
	g := x.Graph()
	if g == nil {
		return nil
	}
	if f == nil {
		g.Refuse("forward", argumentErr("Scopes", "the function is nil"), x)
		return nil
	}
	if err := b.mistake(); err != nil {
		g.Refuse("forward", err, x)
	}
	if b == nil {
		b = new(Base)
	}
	return g.ModuleScopes((*located)(b), func() []*autograd.Variable {
		results := b.calling(g, x, true, func() []*autograd.Variable { return f(g) })
		if len(results) == 0 {
			g.Refuse("forward", errors.WithMessage(autograd.ErrNilVariable, "the function of Scopes returned no results"), x)
		}
		for i, r := range results {
			if r == nil {
				results[i] = g.Refuse("forward", errors.WithMessagef(autograd.ErrNilVariable, "result %d of the function of Scopes is nil", i), x)
			}
		}
		return results
	})
}

// answered is y, what a part of a module that was given x returned, or the graph's error if that is nothing: the part may be without a
// Scope, which would have found it.
func answered(x, y *autograd.Variable, part string) *autograd.Variable {
	if y != nil {
		return y
	}
	return x.Graph().Refuse("forward", errors.WithMessage(autograd.ErrNilVariable, part+": Forward returned nil"), x)
}

// layerOf is a pointer to a layer.
type layerOf[T any] interface {
	*T
	base() *Base
}

// within is Base.Scope for the layers of this package, which may be nil in somebody's field.
func within[T any, L layerOf[T]](l L, x *autograd.Variable, f func(g *autograd.Graph) *autograd.Variable) *autograd.Variable {
	if l == nil {
		return x.Graph().Refuse("forward", nilLayer[T](), x)
	}
	return l.base().Scope(x, f)
}

// nilLayer is the error of a nil pointer to a T.
func nilLayer[T any]() error {
	name := fmt.Sprintf("%T", *new(T))
	return argumentErr(strings.TrimPrefix(name, "nn."), "the layer is nil")
}

// describedLayer is what errors say of a layer.
type describedLayer interface {
	base() *Base
	String() string
}

// param is the variable of a layer's parameter, which is registered under name.
func param(g *autograd.Graph, l describedLayer, name string, p *autograd.Parameter) *autograd.Variable {
	if p.Tensor() == nil && g.Replacement(p) == nil {
		return withoutTensor(g, l, name, p)
	}
	return g.Param(p)
}

// optional is param for a parameter that may be nil, as its variable then is.
func optional(g *autograd.Graph, l describedLayer, name string, p *autograd.Parameter) *autograd.Variable {
	if p == nil {
		return nil
	}
	return param(g, l, name, p)
}

// withoutTensor refuses a parameter without a tensor, and says what may be missing.
func withoutTensor(g *autograd.Graph, l describedLayer, name string, p *autograd.Parameter) *autograd.Variable {
	if p == nil {
		return g.Refuse("param", argumentErr(l.String(), "the field of parameter %s is nil", excerpt.Of(name)))
	}
	e := &autograd.ParameterError{Name: join(g.ModulePath(), name), Shape: p.Shape(), Layer: l.String(), Detail: unset(p)}
	if !l.base().reached {
		e.Detail = notReached("layer")
	}
	return g.Refuse("param", e)
}

func notReached(what string) string {
	return fmt.Sprintf("To has not reached the %s: call To on the model and, if that was done, put the %s into an exported field there or register it (Register, RegisterField)", what, what)
}

// MissingIn is the error of a parameter without a tensor that a program's own module uses: with its path, and what may be missing.
func (l *located) MissingIn(outer []autograd.Located, p *autograd.Parameter) *autograd.ParameterError {
	b, path := (*Base)(l), l.PathIn(outer)
	e := &autograd.ParameterError{Name: join(path, p.Name()), Shape: p.Shape(), Detail: unset(p)}
	if name, ok := nameIn(ownOf(b.whole(), ofParameters), ownOf(b.whole(), ofBuffers), p); ok {
		if e.Name = join(path, name); !b.reached && e.Detail == "" {
			e.Detail = notReached("module")
		}
		return e
	}
	root, ok := l, true
	if len(outer) > 0 {
		root, ok = outer[0].(*located)
	}
	if ok { // it may be that of another part of the model
		m := (*Base)(root).whole()
		if name, ok := nameIn(allNamed(m, ofParameters), allNamed(m, ofBuffers), p); ok {
			e.Name = join(root.path, name)
			return e
		}
	}
	if e.Detail != "" {
		return e
	}
	module := "the module"
	if path != "" {
		module += " " + path
	}
	e.Detail = module + " does not list it: put it into an exported field there or register it (RegisterParameterField, RegisterBufferField)"
	return e
}

// nameIn is the name of p in lists of parameters and buffers.
func nameIn(parameters, buffers []Named, p *autograd.Parameter) (string, bool) {
	for _, n := range slices.Concat(parameters, buffers) {
		if n.Parameter == p {
			return n.Name, true
		}
	}
	return "", false
}

// shapeError refuses an input of a layer.
func shapeError(layer string, x *autograd.Variable, format string, args ...any) error {
	return &tensor.ShapeError{Op: layer, Shapes: []tensor.Shape{x.Shape().Clone()}, Detail: fmt.Sprintf(format, args...)}
}

// LocatedIn is how graphs know the module m, nil for one without a Base. It is for packages of this module, which alone can write the key.
func LocatedIn(_ training.Key, m Module) autograd.Located {
	if c, ok := m.(*CheckpointModule); ok && c != nil {
		m = c.inner()
	}
	if absent(m) {
		return nil
	}
	b := baseOf(m)
	if b == nil {
		return nil
	}
	return (*located)(b)
}
