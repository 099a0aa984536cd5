package nn

import "iter"

// NamedModules goes over m and all modules in it, each before its own and once, with the first path that leads to it; that of m is empty
// (named_modules). As in PyTorch, lists and maps of modules are modules too, of names such as "blocks".
func NamedModules(m Module) iter.Seq2[string, Module] {
	return func(yield func(string, Module) bool) {
		if absent(m) {
			return
		}
		seen, on := map[any]bool{}, true
		walk(m, "", func(path string, m Module) {
			id := identity(m)
			if !on || id != nil && seen[id] {
				return
			}
			seen[id] = true
			on = yield(path, m)
		})
	}
}

// Modules goes over m and all modules in it, as NamedModules does, without the paths (modules).
//
//	for m := range nn.Modules(model) {
//		if d, ok := m.(*nn.DropoutLayer); ok { ... }
//	}
func Modules(m Module) iter.Seq[Module] {
	return func(yield func(Module) bool) {
		for _, m := range NamedModules(m) {
			if !yield(m) {
				return
			}
		}
	}
}

// NamedChildren goes over the parts of m, each once, with its name, and not over theirs (named_children).
func NamedChildren(m Module) iter.Seq2[string, Module] {
	return func(yield func(string, Module) bool) {
		seen := map[any]bool{}
		for _, p := range partsOf(m) {
			id := identity(p.Module)
			if id != nil && seen[id] {
				continue
			}
			seen[id] = true
			if !yield(p.Name, p.Module) {
				return
			}
		}
	}
}

// Children goes over the parts of m, as NamedChildren does, without their names (children).
func Children(m Module) iter.Seq[Module] {
	return func(yield func(Module) bool) {
		for _, m := range NamedChildren(m) {
			if !yield(m) {
				return
			}
		}
	}
}
