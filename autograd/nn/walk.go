package nn

import (
	"slices"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/autograd"
)

// Named is a parameter with its path in a model, as in "0.weight".
type Named struct {
	Name      string
	Parameter *autograd.Parameter
}

// NamedParameters lists the parameters of m in the order of Parameters, each once, under the first path that leads to it.
// Names of modules that do not embed Base are those of their parameters. It is a list, and not a sequence as NamedModules is, since programs count, index and
// keep it.
func NamedParameters(m Module) []Named { return once(allNamed(m, ofParameters)) }

// NamedBuffers lists the buffers of m with their paths, as NamedParameters does the parameters.
func NamedBuffers(m Module) []Named { return once(allNamed(m, ofBuffers)) }

// NamedState lists the parameters and buffers of m that Save writes, all but those that are NonPersistent, each once, under the first path that
// leads to it.
func NamedState(m Module) []Named {
	return append(NamedParameters(m), once(allNamed(m, ofSavedBuffers))...)
}

// AllNamedState is NamedState with each parameter and buffer under all of its names: what Save writes, and PyTorch's state_dict.
func AllNamedState(m Module) []Named {
	return append(allNamed(m, ofParameters), allNamed(m, ofSavedBuffers)...)
}

// everything lists parameters and buffers, also those that are NonPersistent, each once.
func everything(m Module) []Named { return once(underAllNames(m)) }

// underAllNames lists the same under all of their names.
func underAllNames(m Module) []Named {
	return append(allNamed(m, ofParameters), allNamed(m, ofBuffers)...)
}

// contentKind is what a list of a module has.
type contentKind int

const (
	ofParameters contentKind = iota
	ofBuffers
	ofSavedBuffers // without those that are NonPersistent
)

// allNamed lists parameters, or buffers, under all paths that lead to them.
func allNamed(m Module, kind contentKind) []Named {
	var all []Named
	walk(m, "", func(path string, m Module) {
		for _, n := range ownOf(m, kind) {
			all = append(all, Named{join(path, n.Name), n.Parameter})
		}
	})
	return all
}

// once leaves the first path of each parameter.
func once(all []Named) []Named {
	seen := make(map[*autograd.Parameter]bool, len(all))
	return slices.DeleteFunc(all, func(n Named) bool {
		before := seen[n.Parameter]
		seen[n.Parameter] = true
		return before
	})
}

// join is a path and a name that goes on from there.
func join(path, name string) string {
	switch "" {
	case path:
		return name
	case name:
		return path
	}
	return path + "." + name
}

// walk visits m and its parts, each before its own; a module with several paths is visited on each. One that is in itself is visited as
// a module that cannot be used.
func walk(m Module, path string, visit func(path string, m Module)) {
	walkIn(m, path, map[any]bool{}, visit)
}

// walkIn is walk for a module that is in those that around has.
func walkIn(m Module, path string, around map[any]bool, visit func(path string, m Module)) {
	where := "part " + path
	if path == "" {
		where = "model"
	}
	m = orRefused(m, where)
	switch id := identity(m); {
	case id == nil:
	case around[id]:
		u := refused(argumentErr(where, "the module is a part of itself"))
		u.cyclic = true
		m = u
	default:
		around[id] = true
		defer delete(around, id)
	}
	visit(path, m)
	for _, part := range partsOf(m) {
		walkIn(part.Module, join(path, part.Name), around, visit)
	}
}

// identity is what makes a module the same as another one, nil for values that are no pointers and cannot be a part of themselves.
func identity(m Module) any {
	if b := baseOf(m); b != nil {
		return b
	}
	if isPointer(m) {
		return m
	}
	return nil
}

// baseOf is the Base that m embeds, nil if it embeds none.
func baseOf(m Module) *Base {
	if o, ok := m.(interface{ base() *Base }); ok {
		return o.base()
	}
	return nil
}

// Check returns what is wrong with the making, the fields or the registration of m or of a part of it, with the path: an *ArgumentError or a
// *NameError. A field that is not exported and holds a module or a parameter which the model does not have from elsewhere is such a mistake. To, Save, Load and package checkpoint ask it; nothing is computed, and m need not have memory.
func Check(m Module) (err error) {
	walk(m, "", func(path string, m Module) {
		if err == nil {
			err = checkOne(path, m)
		}
	})
	if err != nil {
		return err
	}
	return forgotten(m)
}

func checkOne(path string, m Module) error {
	if c, ok := m.(*CheckpointModule); ok { // it stands for the module in it, which is not visited
		m = c.inner()
	}
	if u, ok := m.(unusable); ok {
		return u.err
	}
	o, ok := m.(interface{ base() *Base })
	if !ok {
		return nil
	}
	b := o.base()
	var name *NameError
	switch err := b.mistakeIn(m); {
	case errors.As(err, &name):
		return &NameError{Module: path, Name: name.Name, Detail: name.Detail}
	case err != nil && path != "":
		return errors.WithMessage(err, "nn: module "+path)
	case err != nil:
		return err
	}
	for _, s := range b.own {
		if s.required && *s.field == nil {
			return nilParameter(join(path, s.name))
		}
	}
	return nil
}

// partsOf lists the parts of m, none if it does not tell.
func partsOf(m Module) []Part {
	if absent(m) {
		return nil
	}
	switch p := m.(type) {
	case interface{ partsIn(m Module) []Part }:
		return p.partsIn(m)
	case interface{ Parts() []Part }:
		return p.Parts()
	}
	return nil
}

// ownOf lists the parameters, or buffers, of m itself; of a module that does not tell its parameters from those of its parts, all.
func ownOf(m Module, kind contentKind) []Named {
	m = orRefused(m, "module")
	if o, ok := m.(interface {
		ownIn(m Module, kind contentKind) []Named
	}); ok {
		return o.ownIn(m, kind)
	}
	if kind != ofParameters {
		if o, ok := m.(interface {
			OwnBuffers() []*autograd.Parameter
		}); ok {
			return byOwnName(o.OwnBuffers())
		}
		return nil
	}
	if o, ok := m.(interface {
		OwnParameters() []*autograd.Parameter
	}); ok {
		return byOwnName(o.OwnParameters())
	}
	return byOwnName(m.Parameters())
}

func byOwnName(ps []*autograd.Parameter) []Named {
	list := make([]Named, len(ps))
	for i, p := range ps {
		list[i] = Named{p.Name(), p}
	}
	return list
}

// parametersOf drops the names.
func parametersOf(list []Named) []*autograd.Parameter {
	var ps []*autograd.Parameter
	for _, n := range list {
		ps = append(ps, n.Parameter)
	}
	return ps
}

// bare is a Base as a module, for what walks over modules.
type bare struct{ *Base }
