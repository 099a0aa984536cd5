package nn

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/cistern-ml/cistern/autograd"
)

// A module need not register its exported fields: what they hold is found each time that a list is asked for. It is listed after what was
// registered, which is left out, in the order of the fields, and slots.go has the rest. The package documentation has the rules for users.

// contents are parameters, buffers and parts under their names.
type contents struct {
	own   []slot
	parts []partSlot
}

// found is what a module has, and what a look at its fields has told besides.
type found struct {
	contents
	hidden []hiddenField
	wrong  error
}

// hiddenField is something in a field that nobody may read, and that the model must therefore have from elsewhere.
type hiddenField struct {
	name string
	what any // a parameter, or the identity of a module
	kind string
}

// finder looks at the fields of one module.
type finder struct {
	found
	base  *Base
	taken map[any]bool // what is registered: pointers to fields, and values
	tag   fieldTag     // of the field that is looked at
}

// fieldTag is what the tag of a field says.
type fieldTag struct {
	name            string
	buffer, unsaved bool
}

var (
	parameterType = reflect.TypeFor[*autograd.Parameter]()
	moduleType    = reflect.TypeFor[Module]()
	baseType      = reflect.TypeFor[Base]()
)

// contentsOf is what m has: b, its Base, knows what was registered.
func contentsOf(m Module, b *Base) *found {
	f := &finder{base: b, taken: b.registered()}
	f.own, f.parts = slices.Clone(b.own), slices.Clone(b.parts)
	v := reflect.ValueOf(m)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[bare]() {
		f.fields(v)
	}
	f.parametrizations()
	f.twice()
	return &f.found
}

// registered is what need not be found. A registered value is left out wherever it is, a registered field only there.
func (b *Base) registered() map[any]bool {
	taken := make(map[any]bool, len(b.own)+len(b.parts))
	for i := range b.own {
		s := &b.own[i]
		if taken[s.field] = true; s.value {
			taken[*s.field] = true
		}
	}
	for i := range b.parts {
		switch p := &b.parts[i]; {
		case p.field != nil:
			taken[p.field.address()] = true
		case isPointer(p.value):
			taken[p.value] = true
		}
	}
	return taken
}

func (f *finder) fields(v reflect.Value) {
	for i := range v.NumField() {
		field, held := v.Type().Field(i), open(v.Field(i))
		tag := field.Tag.Get("nn")
		f.tag = fieldTag{}
		switch {
		case tag == "-", field.Type == baseType, field.Type == reflect.PointerTo(baseType):
		case field.Anonymous && f.promotes(held):
			f.fields(reflect.Indirect(held))
		case !field.IsExported():
			f.hide(field.Name, held)
		case strings.Contains(tag, "."):
			f.mistaken(&NameError{Name: tag, Detail: "a name has no dots; it is the tag of the field " + field.Name})
		case !f.readTag(field, tag):
		default:
			f.add(&f.contents, cmp.Or(f.tag.name, fieldName(field.Name)), held, maxNested)
		}
	}
}

// readTag reads "name", "name,buffer" and "name,nonpersistent" into f.tag. It reports whether that can be.
func (f *finder) readTag(field reflect.StructField, tag string) bool {
	name, option, given := strings.Cut(tag, ",")
	f.tag = fieldTag{name: name, buffer: given, unsaved: option == "nonpersistent"}
	switch {
	case given && option != "buffer" && option != "nonpersistent":
		f.mistaken(argumentErr("field "+field.Name, "its tag %q has the option %q; there are buffer and nonpersistent", tag, option))
	case given && !ofParameter(field.Type):
		f.mistaken(argumentErr("field "+field.Name, "its tag %q is for parameters; the field is a %s", tag, field.Type))
	default:
		return true
	}
	return false
}

// ofParameter reports whether t is that of a parameter, or of slices, arrays or maps of them.
func ofParameter(t reflect.Type) bool {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Array || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	return t == parameterType
}

// open is a field that may be read, whether it is exported or not: what is in the others is listed nowhere, but must not be forgotten.
func open(field reflect.Value) reflect.Value {
	if !field.CanAddr() {
		return field
	}
	return reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem()
}

// promotes reports whether the fields of an embedded struct are the module's own: those of a struct that is no module, or of the module
// whose Base it has.
func (f *finder) promotes(v reflect.Value) bool {
	if v.Kind() == reflect.Pointer && v.IsNil() || reflect.Indirect(v).Kind() != reflect.Struct || !v.CanInterface() {
		return false
	}
	m, _ := asModule(v)
	return m == nil || baseOf(m) == f.base
}

// maxNested is how deep slices in slices are looked into.
const maxNested = 8

// add lists what v has under a name. What is nil is not there.
func (f *finder) add(to *contents, name string, v reflect.Value, deep int) {
	if v.Kind() == reflect.Interface {
		if v = v.Elem(); v.IsValid() && v.Kind() != reflect.Pointer && !v.Type().Implements(moduleType) {
			return
		}
	}
	if !v.IsValid() || !v.CanInterface() || v.CanAddr() && f.taken[v.Addr().Interface()] {
		return
	}
	if p, ok := v.Interface().(*autograd.Parameter); ok {
		if p != nil && !f.taken[p] {
			if f.tag.buffer && p.RequiresGrad() { // as RegisterBuffer has it
				p.SetRequiresGrad(false)
			}
			to.own = append(to.own, slot{name: name, field: pointerTo(v, p), buffer: f.tag.buffer, unsaved: f.tag.unsaved})
		}
		return
	}
	m, is := asModule(v)
	switch {
	case m != nil && isPointer(m) && f.taken[m]:
	case m != nil:
		to.parts = append(to.parts, partSlot{name: name, value: m})
	case !is && deep > 0:
		f.addGroup(to, name, v, deep-1)
	}
}

// pointerTo is the field of a parameter, or what stands for it where there is none, as in a map.
func pointerTo(v reflect.Value, p *autograd.Parameter) **autograd.Parameter {
	if v.CanAddr() {
		if field, ok := v.Addr().Interface().(**autograd.Parameter); ok {
			return field
		}
	}
	return &p
}

// asModule is the module that v is, nil for none, and whether v could hold one.
func asModule(v reflect.Value) (m Module, is bool) {
	if v.Kind() == reflect.Struct && v.CanAddr() {
		v = v.Addr()
	}
	if !v.Type().Implements(moduleType) || v.Type() == reflect.PointerTo(baseType) {
		return nil, false
	}
	if m = v.Interface().(Module); absent(m) {
		return nil, true
	}
	return m, true
}

// addGroup lists the elements of a slice, an array or a map as a part whose names are their numbers or keys.
func (f *finder) addGroup(to *contents, name string, v reflect.Value, deep int) {
	switch v.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
	default:
		return
	}
	holds := holds(v.Type().Elem(), deep)
	if !holds && !(v.Type().Elem().Kind() == reflect.Interface) {
		return
	}
	g := &groupModule{kind: "ModuleList"}
	var in contents
	if v.Kind() == reflect.Map {
		g.kind = "ModuleDict"
		f.addMap(&in, v, deep)
	} else {
		for i := range v.Len() {
			f.add(&in, strconv.Itoa(i), v.Index(i), deep)
		}
	}
	if len(in.parts) == 0 && (len(in.own) > 0 || v.Type().Elem() == parameterType) {
		g.kind = strings.Replace(g.kind, "Module", "Parameter", 1)
	}
	if g.own, g.parts = in.own, in.parts; len(in.own)+len(in.parts) > 0 || holds && v.Len() == 0 {
		to.parts = append(to.parts, partSlot{name: name, value: g})
	}
}

// addMap lists the elements of a map in the order of its keys.
func (f *finder) addMap(to *contents, v reflect.Value, deep int) {
	var inOrder []reflect.Value
	switch key := v.Type().Key().Kind(); {
	case key == reflect.String:
		inOrder = slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
	case reflect.Int <= key && key <= reflect.Int64:
		inOrder = slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return cmp.Compare(a.Int(), b.Int()) })
	case v.Len() > 0:
		f.mistaken(argumentErr(v.Type().String(), "the keys of a map of modules must be strings or integers, which are the names"))
	}
	for _, key := range inOrder {
		name := fmt.Sprint(key)
		if name == "" || strings.Contains(name, ".") {
			f.mistaken(&NameError{Name: name, Detail: "it is a key of a map of modules, which must be a name without dots"})
			continue
		}
		f.add(to, name, v.MapIndex(key), deep)
	}
}

// holds reports whether what is of a type can have modules or parameters in it. Of an interface only what is in it can tell.
func holds(t reflect.Type, deep int) bool {
	if t == parameterType || t.Implements(moduleType) || t.Kind() == reflect.Struct && reflect.PointerTo(t).Implements(moduleType) {
		return true
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		return deep > 0 && holds(t.Elem(), deep-1)
	}
	return false
}

// hide notes what is in a field that is not exported. A function (Func, ReLU) has nothing that could be forgotten.
func (f *finder) hide(name string, v reflect.Value) {
	var in contents
	f.add(&in, name, v, maxNested)
	f.hideAll(name, &in)
}

func (f *finder) hideAll(name string, in *contents) {
	for _, s := range in.own {
		f.hidden = append(f.hidden, hiddenField{name, *s.field, "a parameter"})
	}
	for _, p := range in.parts {
		switch m := p.value.(type) {
		case *groupModule:
			f.hideAll(name, &contents{m.own, m.parts})
		case *FuncModule:
		default:
			if id := identity(m); id != nil {
				f.hidden = append(f.hidden, hiddenField{name, id, "a module (" + typeName(m) + ")"})
			}
		}
	}
}

// twice refuses names that two fields have, or a field and something that is registered.
func (f *finder) twice() {
	seen := make(map[string]bool, len(f.own)+len(f.parts))
	note := func(name string) {
		if seen[name] {
			f.mistaken(&NameError{Name: name, Detail: "two fields have it, or a field and something that is registered: tag one (`nn:\"another\"`)"})
		}
		seen[name] = true
	}
	for i := range f.own {
		note(f.own[i].name)
	}
	for i := range f.parts {
		note(f.parts[i].name)
	}
}

func (f *found) mistaken(err error) {
	if f.wrong == nil {
		f.wrong = err
	}
}

// groupModule stands for the modules or parameters of a slice or a map.
type groupModule struct {
	Base
	kind string // PyTorch's name
}

// String is PyTorch's description.
func (g *groupModule) String() string { return Describe(g.kind, g) }

// forgotten is the error of the first field that hides something of which the model does not know.
func forgotten(m Module) (err error) {
	type hiding struct {
		path string
		m    Module
		hiddenField
	}
	var all []hiding
	reached := map[any]bool{}
	walk(m, "", func(path string, m Module) {
		if c, ok := m.(*CheckpointModule); ok {
			m = c.inner()
		}
		b := baseOf(m)
		reached[identity(m)] = true
		if b == nil {
			return
		}
		here := contentsOf(m, b)
		for _, s := range here.own {
			reached[*s.field] = true
		}
		for _, q := range b.parametrized {
			reached[q.weight] = true
		}
		for _, h := range here.hidden {
			all = append(all, hiding{path, m, h})
		}
	})
	for _, h := range all {
		if !reached[h.what] {
			return argumentErr(strings.TrimSpace("module "+h.path), "the field %s of %s holds %s that is no part of the model: export the field, register it "+
				"(RegisterField, RegisterParameterField), or tag it `nn:\"-\"` if another model has it", h.name, typeName(h.m), h.kind)
		}
	}
	return nil
}
