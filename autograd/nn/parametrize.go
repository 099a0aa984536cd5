package nn

import (
	"fmt"
	"slices"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// Parametrization says how a parameter of a module is computed from others, its originals, in each forward pass (torch.nn.utils.parametrize). It
// is a Module, which may have parameters and buffers of its own, and which Train and Eval reach.
type Parametrization interface {
	Module
	// Originals are the shapes of the originals of a parameter.
	Originals(shape tensor.Shape) ([]tensor.Shape, error)
	// Invert makes originals of which Compute makes w, or what is near to it: new tensors on w's device, of w's type (right_inverse).
	Invert(w *tensor.Tensor) ([]*tensor.Tensor, error)
	// Compute computes the parameter, of its shape, in the originals' graph.
	Compute(originals []*autograd.Variable) *autograd.Variable
}

// parametrized is a parameter that is computed (ParametrizationList).
type parametrized struct {
	Base
	name      string
	weight    *autograd.Parameter `nn:"-"` // which the module asks for, without memory
	computed  Parametrization
	originals []*autograd.Parameter
}

// Parametrize makes the parameter of m that is called name the result of p, whose originals are trained, listed and saved in its place, under PyTorch's
// names: parametrizations.weight.original, or original0, original1, ... if there are several, and parametrizations.weight.0 for what p has itself.
// Scope and Scopes compute it once in each forward pass, which all layers of this package have: elsewhere the parameter has no value. If m has memory
// the originals get theirs from p.Invert now, else To does so. Make optimizers afterwards.
//
// Errors are an *ArgumentError for a module that does not embed Base, a name that is not that of a parameter of m itself, and one that is
// parametrized already, those of p, and those of the device: then nothing is changed. A parameter that m shares with another module must not be
// parametrized: the other one would not see it.
func Parametrize(m Module, name string, p Parametrization) error {
	const call = "Parametrize"
	b, weight, err := parameterNamed(call, m, name)
	if err != nil {
		return err
	}
	if absent(p) {
		return argumentErr(call, "the parametrization is nil")
	}
	shapes, err := p.Originals(weight.Shape().Clone())
	if err != nil {
		return errors.WithMessagef(err, "nn: %s: %s", call, excerpt.Of(name))
	}
	q := &parametrized{name: name, weight: weight, computed: p}
	q.listed = true
	for i, s := range shapes {
		o := autograd.DeclareParameter(originalName(i, len(shapes)), nil, s...)
		o.SetRequiresGrad(weight.RequiresGrad())
		q.originals = append(q.originals, q.RegisterParameter(o))
	}
	q.Register("0", p)
	if err := q.mistake(); err != nil {
		return err
	}
	if w := weight.Tensor(); w != nil {
		e := w.Exec()
		opts := []Option{WithStream(e.Stream()), WithAllocator(e.Allocator()), DType(w.DType())}
		if err := settle(q, e.Device(), opts); err != nil {
			return errors.WithMessagef(err, "nn: %s: %s", call, excerpt.Of(name))
		}
		weight.Release()
	}
	from := make([]string, len(q.originals))
	for i, o := range q.originals {
		from[i] = "parametrizations." + name + "." + o.Name()
	}
	autograd.MarkComputed(training.Key{}, weight, from)
	b.parametrized = append(slices.Clone(b.parametrized), q)
	return nil
}

func originalName(i, n int) string {
	if n == 1 {
		return "original"
	}
	return fmt.Sprintf("original%d", i)
}

// parameterNamed finds a parameter of m itself that is not parametrized.
func parameterNamed(call string, m Module, name string) (*Base, *autograd.Parameter, error) {
	if c, ok := m.(*CheckpointModule); ok && c != nil {
		m = c.inner()
	}
	if absent(m) {
		return nil, nil, argumentErr(call, "the module is nil")
	}
	b := baseOf(m)
	if b == nil {
		return nil, nil, argumentErr(call, "a %T does not embed nn.Base, whose Scope computes parameters", m)
	}
	if err := b.mistakeIn(m); err != nil {
		return nil, nil, err
	}
	if _, alone := m.(bare); !alone {
		introduced(m)
	}
	if b.parametrizedAs(name) != nil {
		return nil, nil, argumentErr(call, "parameter %s is parametrized already", excerpt.Quote(name))
	}
	for _, n := range b.ownIn(m, ofParameters) {
		if n.Name == name {
			return b, n.Parameter, n.Parameter.Err()
		}
	}
	return nil, nil, argumentErr(call, "the module has no parameter %s of its own", excerpt.Quote(name))
}

func (b *Base) parametrizedAs(name string) *parametrized {
	for _, q := range b.parametrized {
		if q.name == name {
			return q
		}
	}
	return nil
}

// RemoveParametrization gives the parameter of m that is called name the value that it has now, as Compute computes it in the module's mode, and makes
// it a parameter of m again (remove_parametrizations). The originals are released. Make optimizers afterwards. A name that is not parametrized is an
// *ArgumentError; after an error nothing is changed. Without memory To gives the parameter a first value of its initializer.
func RemoveParametrization(m Module, name string) error {
	const call = "RemoveParametrization"
	if c, ok := m.(*CheckpointModule); ok && c != nil {
		m = c.inner()
	}
	if absent(m) || baseOf(m) == nil || baseOf(m).parametrizedAs(name) == nil {
		return argumentErr(call, "the module has no parametrized parameter %s", excerpt.Quote(name))
	}
	b := baseOf(m)
	q := b.parametrizedAs(name)
	if t := q.originals[0].Tensor(); t != nil {
		if err := q.bake(t.Exec()); err != nil {
			return errors.WithMessagef(err, "nn: %s: %s", call, excerpt.Of(name))
		}
	}
	q.weight.SetRequiresGrad(q.originals[0].RequiresGrad())
	autograd.MarkComputed(training.Key{}, q.weight, nil)
	b.parametrized = slices.DeleteFunc(slices.Clone(b.parametrized), func(k *parametrized) bool { return k == q })
	release(q)
	return nil
}

// bake gives the parameter its value.
func (q *parametrized) bake(e tensor.Exec) error {
	g := autograd.NewGraph(e.Device(), autograd.NoGrad(), autograd.WithStream(e.Stream()), autograd.WithAllocator(e.Allocator()))
	defer g.Release()
	lent, err := q.compute(g).Tensor()
	if err != nil {
		return err
	}
	w, err := lent.Clone()
	if err != nil {
		return err
	}
	own := w.On(e)
	w.Release()
	if err := q.weight.SetTensor(own); err != nil {
		own.Release()
		return err
	}
	return nil
}

// compute computes the parameter.
func (q *parametrized) compute(g *autograd.Graph) *autograd.Variable {
	return g.ModuleScope((*located)(&q.Base), func() *autograd.Variable {
		originals := make([]*autograd.Variable, len(q.originals))
		for i, p := range q.originals {
			originals[i] = param(g, q, p.Name(), p)
		}
		if g.Err() != nil {
			return originals[0]
		}
		return q.computed.Compute(originals)
	})
}

// String is PyTorch's description.
func (q *parametrized) String() string { return Describe("ParametrizationList", q) }

// withParametrized runs f with what is computed in the place of the module's parametrized parameters.
func (b *Base) withParametrized(g *autograd.Graph, f func() []*autograd.Variable) (results []*autograd.Variable) {
	if len(b.parametrized) == 0 || g.Err() != nil {
		return f()
	}
	with := make(map[*autograd.Parameter]*autograd.Variable, len(b.parametrized))
	for _, q := range b.parametrized {
		with[q.weight] = q.compute(g)
	}
	return firstOf(f, func(f func() *autograd.Variable) *autograd.Variable { return g.WithParameters(with, f) })
}

// firstOf runs f by way of run, which is for functions of one result: it sees the first one. If it does not run f, after an error, f is run then.
func firstOf(f func() []*autograd.Variable, run func(f func() *autograd.Variable) *autograd.Variable) (results []*autograd.Variable) {
	ran := false
	y := run(func() *autograd.Variable {
		ran = true
		if results = f(); len(results) == 0 {
			return nil
		}
		return results[0]
	})
	if !ran {
		return f()
	}
	if len(results) > 0 {
		results[0] = y
	}
	return results
}

// maker makes the first value of a parameter that has no initializer.
type maker func(e tensor.Exec, gen *tensor.Generator, dt tensor.DType) (*tensor.Tensor, error)

// makers are those of one call of To.
type makers struct {
	of    map[*autograd.Parameter]maker
	spare []*tensor.Tensor // what was made together with something else, until it is asked for
}

// makersOf finds those of m. What they have left must be released.
func makersOf(m Module) *makers {
	ms := &makers{of: map[*autograd.Parameter]maker{}}
	walk(m, "", func(_ string, m Module) {
		q, ok := m.(*parametrized)
		if !ok {
			return
		}
		ms.together(q.originals, q.invert)
		if s, ok := q.computed.(*spectralNorm); ok {
			ms.together([]*autograd.Parameter{s.u, s.v}, func(e tensor.Exec, gen *tensor.Generator, dt tensor.DType) ([]*tensor.Tensor, error) {
				return s.begin(e, gen, dt, q.originals[0].Tensor())
			})
		}
	})
	return ms
}

// together are makers of parameters whose values make makes all at once.
func (ms *makers) together(ps []*autograd.Parameter, make func(e tensor.Exec, gen *tensor.Generator, dt tensor.DType) ([]*tensor.Tensor, error)) {
	at, kept := len(ms.spare), false
	ms.spare = append(ms.spare, slices.Repeat([]*tensor.Tensor{nil}, len(ps))...)
	for i, p := range ps {
		ms.of[p] = func(e tensor.Exec, gen *tensor.Generator, dt tensor.DType) (*tensor.Tensor, error) {
			if !kept {
				made, err := make(e, gen, dt)
				if err == nil && len(made) != len(ps) {
					err = argumentErr("Invert", "it has made %d tensors, and there are %d originals", len(made), len(ps))
				}
				if err != nil {
					for _, t := range made {
						t.Release()
					}
					return nil, err
				}
				kept = true
				copy(ms.spare[at:], made)
			}
			t := ms.spare[at+i]
			ms.spare[at+i] = nil
			return t, nil
		}
	}
}

func (ms *makers) release() {
	for _, t := range ms.spare {
		t.Release()
	}
}

// invert makes the originals of the value that the parameter has, or would start with.
func (q *parametrized) invert(e tensor.Exec, gen *tensor.Generator, dt tensor.DType) ([]*tensor.Tensor, error) {
	if q.weight.Tensor() == nil {
		defer q.weight.Release()
	}
	if err := q.weight.Materialize(e, gen, dt); err != nil {
		return nil, err
	}
	return q.computed.Invert(q.weight.Tensor())
}

// parametrizations takes the parametrized parameters of a module off the list of its own, and puts them on that of its parts.
func (f *finder) parametrizations() {
	if len(f.base.parametrized) == 0 {
		return
	}
	g := &groupModule{kind: "ModuleDict"}
	for _, q := range f.base.parametrized {
		at := slices.IndexFunc(f.own, func(s slot) bool { return s.name == q.name && !s.buffer })
		if at < 0 || *f.own[at].field != q.weight {
			f.mistaken(argumentErr("parameter "+q.name, "its field has been assigned to since it was parametrized: call RemoveParametrization before"))
			continue
		}
		f.own = slices.Delete(f.own, at, at+1)
		g.parts = append(g.parts, partSlot{name: q.name, value: q})
	}
	f.parts = append(f.parts, partSlot{name: "parametrizations", value: g})
}
