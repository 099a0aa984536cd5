package nn

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/tensor"
)

// Cloner is a module with something of its own that a copy may not share: a cache, a function that captures the module's parts, a lock that
// others hold. Clone calls Cloned on the copy, once the copy is complete but for that, with the module that it is a copy of; those of parts come
// first. An error is Clone's, which then releases the copy's parameters; what Cloned has made besides it releases itself.
type Cloner interface {
	Module
	Cloned(from Module) error
}

// Clone makes a copy of m with parameters and buffers of its own (copy.deepcopy of a PyTorch module): for an average of weights, a target network,
// or layers that start alike. Values are copied on their device, stream and allocator with their types; whether they require gradients stays,
// gradients and their hooks are not copied. What is shared in m is shared in the copy. A module that To has not reached gives one that To makes
// anew. Modes, names and hooks of modules are copied.
//
// Fields that hold parts and parameters, exported or registered, slices and maps of them, and structs that these are in, are copied; a field that holds
// something else is assigned, so that both modules point to the same: as with the assignment of a struct in Go. Locks of package sync are new and
// free. What another model has, in a field with the tag `nn:"-"`, stays shared. A module with other things that may not be shared is a Cloner.
// The memory is that of m's parameters and buffers once more; nobody may train, move or change m meanwhile.
//
// Errors are those of Check, an *ArgumentError for a nil m and for a part or parameter that is held where Clone does not see it, with its path, and
// those of the device: then nothing is kept.
func Clone[M Module](m M) (M, error) {
	var none M
	if absent(m) {
		return none, argumentErr("Clone", "the module is nil")
	}
	if err := Check(m); err != nil {
		return none, err
	}
	c := &cloning{model: m, copies: map[any]any{}, parts: map[any]bool{}, registered: map[any]bool{}}
	c.survey()
	done := false
	defer func() {
		if !done { // also after a panic of a Cloner's
			c.release()
		}
	}()
	if err := c.parameters(); err != nil {
		return none, err
	}
	copied := m
	c.replace(reflect.ValueOf(&copied).Elem(), reflect.ValueOf(&m).Elem())
	if err := c.finish(copied); err != nil {
		return none, err
	}
	done = true
	return copied, nil
}

// cloning is one call of Clone.
type cloning struct {
	model      Module
	parts      map[any]bool // identities of the model's modules
	registered map[any]bool // pointers to fields that are registered
	copies     map[any]any  // from pointers of the model to those of the copy, of the same types
	made       []*autograd.Parameter
	bases      []*Base // of the copy
}

// survey notes which modules are the model's own, and which of their fields are registered.
func (c *cloning) survey() {
	walk(c.model, "", func(_ string, m Module) {
		if w, ok := m.(*CheckpointModule); ok {
			m = w.inner()
		}
		if id := identity(m); id != nil {
			c.parts[id] = true
		}
		if b := baseOf(m); b != nil {
			for field := range b.registered() {
				c.registered[field] = true
			}
		}
	})
}

// parameters copies parameters and buffers.
func (c *cloning) parameters() error {
	for _, n := range everything(c.model) {
		p, err := n.Parameter.Clone()
		if err != nil {
			return errors.WithMessagef(err, "nn: Clone: parameter %s", excerpt.Of(n.Name))
		}
		c.made = append(c.made, p)
		c.copies[n.Parameter] = p
	}
	return c.hidden()
}

// hidden copies the parameters that are computed, and on no list.
func (c *cloning) hidden() (err error) {
	walk(c.model, "", func(_ string, m Module) {
		q, ok := m.(*parametrized)
		if !ok || err != nil || c.copies[q.weight] != nil {
			return
		}
		p, failed := q.weight.Clone()
		if err = failed; err == nil {
			c.made = append(c.made, p)
			c.copies[q.weight] = p
		}
	})
	return err
}

func (c *cloning) release() {
	for _, p := range c.made {
		p.Release()
	}
}

// replace puts copies of what is the model's into to, which has been assigned from.
func (c *cloning) replace(to, from reflect.Value) {
	if from.CanAddr() {
		c.copies[from.Addr().Interface()] = to.Addr().Interface()
	}
	switch from.Type() {
	case baseType:
		c.replaceBase(to.Addr().Interface().(*Base))
		return
	case reflect.TypeFor[sync.Mutex](), reflect.TypeFor[sync.RWMutex]():
		to.SetZero()
		return
	}
	switch from.Kind() {
	case reflect.Struct:
		for i := range from.NumField() {
			c.replace(open(to.Field(i)), open(from.Field(i)))
		}
	case reflect.Array:
		for i := range from.Len() {
			c.replace(to.Index(i), from.Index(i))
		}
	case reflect.Pointer:
		c.replacePointer(to, from)
	case reflect.Slice:
		c.replaceSlice(to, from)
	case reflect.Map:
		c.replaceMap(to, from)
	case reflect.Interface:
		if held := from.Elem(); held.IsValid() && copiable(held.Kind()) {
			to.Set(c.replaced(held))
		}
	}
}

// copiable are the kinds in which there may be something to replace.
func copiable(k reflect.Kind) bool {
	switch k {
	case reflect.Struct, reflect.Array, reflect.Pointer, reflect.Slice, reflect.Map:
		return true
	}
	return false
}

// replaced is a copy of a value that has no address.
func (c *cloning) replaced(v reflect.Value) reflect.Value {
	from, to := reflect.New(v.Type()).Elem(), reflect.New(v.Type()).Elem()
	from.Set(v)
	to.Set(v)
	c.replace(to, from)
	return to
}

func (c *cloning) replacePointer(to, from reflect.Value) {
	if from.IsNil() {
		return
	}
	if done, ok := c.copies[from.Interface()]; ok {
		to.Set(reflect.ValueOf(done).Convert(to.Type()))
		return
	}
	if !c.touches(from, map[any]bool{}) {
		return
	}
	made := reflect.New(from.Type().Elem())
	made.Elem().Set(from.Elem())
	c.copies[from.Interface()] = made.Convert(from.Type()).Interface()
	to.Set(made.Convert(to.Type()))
	c.replace(made.Elem(), from.Elem())
}

func (c *cloning) replaceSlice(to, from reflect.Value) {
	if !c.touches(from, map[any]bool{}) {
		return
	}
	to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
	reflect.Copy(to, from)
	for i := range from.Len() {
		c.replace(to.Index(i), from.Index(i))
	}
}

func (c *cloning) replaceMap(to, from reflect.Value) {
	if !c.touches(from, map[any]bool{}) {
		return
	}
	to.Set(reflect.MakeMapWithSize(from.Type(), from.Len()))
	for it := from.MapRange(); it.Next(); {
		to.SetMapIndex(c.replaced(it.Key()), c.replaced(it.Value()))
	}
}

// replaceBase does the same with what is registered in a Base. Pointers to fields wait for the copies of all fields (finish).
func (c *cloning) replaceBase(b *Base) {
	b.own, b.parts = slices.Clone(b.own), slices.Clone(b.parts)
	b.hooks = b.hooks.clone()
	b.parametrized = slices.Clone(b.parametrized)
	for i, q := range b.parametrized {
		b.parametrized[i] = c.replacedModule(q).(*parametrized)
	}
	c.bases = append(c.bases, b)
	for i := range b.parts {
		if p := &b.parts[i]; p.field == nil {
			p.value = c.replacedModule(p.value)
		}
	}
	if b.outer != nil {
		b.outer = c.replacedModule(b.outer)
	}
}

func (c *cloning) replacedModule(m Module) Module {
	return c.replaced(reflect.ValueOf(m)).Interface().(Module)
}

// touches reports whether there is something of the model's in v, so that the copy must have one of its own. Modules that are not the model's
// are not looked into, nor what an interface holds that is no module, parameter, or list of these.
func (c *cloning) touches(v reflect.Value, seen map[any]bool) bool {
	switch {
	case v.CanAddr() && c.registered[v.Addr().Interface()]:
		return true
	case v.Kind() == reflect.Interface:
		return !v.IsNil() && c.touches(v.Elem(), seen)
	case !reaches(v.Type(), map[reflect.Type]bool{}):
		return false
	}
	switch v.Kind() {
	case reflect.Pointer:
		return !v.IsNil() && c.touchesPointer(v, seen)
	case reflect.Struct:
		for i := range v.NumField() {
			if c.touches(open(v.Field(i)), seen) {
				return true
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if c.touches(v.Index(i), seen) {
				return true
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if c.touches(it.Key(), seen) || c.touches(it.Value(), seen) {
				return true
			}
		}
	}
	return false
}

func (c *cloning) touchesPointer(v reflect.Value, seen map[any]bool) bool {
	if !v.CanInterface() || seen[v.Interface()] {
		return false
	}
	seen[v.Interface()] = true
	switch p := v.Interface().(type) {
	case *autograd.Parameter:
		return c.copies[p] != nil
	case *Base:
		return c.parts[p]
	case *CheckpointModule: // one that is around another one is on no list
		return c.touches(v.Elem(), seen)
	case Module:
		return c.parts[identity(p)]
	}
	return c.touches(v.Elem(), seen)
}

// reaches reports whether what is of a type may lead to modules or parameters. What packages autograd and tensor have, as variables and graphs,
// is nothing to look into.
func reaches(t reflect.Type, seen map[reflect.Type]bool) bool {
	if t == parameterType || t == baseType || t.Implements(moduleType) {
		return true
	}
	if seen[t] || t.PkgPath() == parameterType.Elem().PkgPath() || t.PkgPath() == reflect.TypeFor[tensor.Tensor]().PkgPath() {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer:
		return reaches(t.Elem(), seen)
	case reflect.Slice, reflect.Array, reflect.Map:
		return t.Elem().Kind() == reflect.Interface || reaches(t.Elem(), seen) || t.Kind() == reflect.Map && reaches(t.Key(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if reaches(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}

// finish points the copy's registrations to its own fields, lets Cloners finish theirs, and refuses a copy that is not one.
func (c *cloning) finish(copied Module) error {
	root := ""
	if b := baseOf(c.model); b != nil {
		root = b.path
	}
	for _, b := range c.bases {
		if err := c.finishBase(b); err != nil {
			return err
		}
		if b.path = strings.TrimPrefix(b.path, root); root != "" {
			b.path = strings.TrimPrefix(b.path, ".")
		}
	}
	if err := c.cloned(copied); err != nil {
		return err
	}
	return c.verify(copied)
}

func (c *cloning) finishBase(b *Base) error {
	for i := range b.own {
		s := &b.own[i]
		if s.value {
			if p, ok := c.copies[*s.field].(*autograd.Parameter); ok {
				s.field = &p
			}
			continue
		}
		field, ok := c.copies[s.field].(**autograd.Parameter)
		if !ok {
			return outOfSight(s.name)
		}
		s.field = field
	}
	for i := range b.parts {
		p := &b.parts[i]
		if p.field == nil {
			continue
		}
		if p.field = p.field.moved(c.copies); p.field == nil {
			return outOfSight(p.name)
		}
	}
	b.self, _ = c.copies[b.self].(*Base)
	return nil
}

func outOfSight(path string) error {
	return argumentErr("Clone", "%s is held where a copy of the module does not have it, as in a function or a global variable: the module that has it must be a Cloner",
		excerpt.Of(path))
}

// cloned calls the Cloners, parts before what they are in.
func (c *cloning) cloned(copied Module) error {
	type pair struct{ from, to Module }
	var pairs []pair
	walk(c.model, "", func(_ string, m Module) { pairs = append(pairs, pair{from: m}) })
	i := 0
	walk(copied, "", func(_ string, m Module) {
		if i < len(pairs) {
			pairs[i].to = m
		}
		i++
	})
	if i != len(pairs) {
		return outOfSight("a part")
	}
	done := map[any]bool{}
	for _, p := range slices.Backward(pairs) {
		if w, ok := p.to.(*CheckpointModule); ok {
			p.to, p.from = w.inner(), p.from.(*CheckpointModule).inner()
		}
		k, ok := p.to.(Cloner)
		if !ok || done[identity(k)] && identity(k) != nil {
			continue
		}
		done[identity(k)] = true
		if err := k.Cloned(p.from); err != nil {
			return errors.WithMessagef(err, "nn: Clone: Cloned of %T", k)
		}
	}
	return nil
}

// verify refuses a copy in which a part or a parameter is the model's, or is missing.
func (c *cloning) verify(copied Module) error {
	before, after := underAllNames(c.model), underAllNames(copied)
	for i, n := range before {
		if i >= len(after) || after[i].Name != n.Name || any(after[i].Parameter) != c.copies[n.Parameter] {
			return outOfSight(n.Name)
		}
	}
	if len(after) != len(before) {
		return outOfSight(after[len(before)].Name)
	}
	var err error
	walk(copied, "", func(path string, m Module) {
		if id := identity(m); err == nil && id != nil && c.parts[id] {
			err = outOfSight(cmp.Or(path, "the module"))
		}
	})
	if err == nil {
		err = Check(copied)
	}
	return err
}
