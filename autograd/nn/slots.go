package nn

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/excerpt"
)

// A module registers the fields that its parameters, buffers and parts are in, not what they hold at the time: lists are read off the
// fields when they are asked for. So an assignment to a field replaces, or shares, for all that a module does:
//
//	decoder.Weight = encoder.Weight
//
// What was in the field before is no longer the module's, and the program releases it.

// slot is the place of a parameter or buffer.
type slot struct {
	name     string
	field    **autograd.Parameter
	value    bool // the field is nobody's: the parameter was registered
	buffer   bool
	unsaved  bool // of a buffer: it is in no file
	required bool // nil is a mistake, and not what is missing by intention
}

// partSlot is the place of a part: a field, or a value that stays.
type partSlot struct {
	name  string
	value Module
	field place // nil for a value
}

// place is a field that was registered.
type place interface {
	module(name string) Module // what is there now
	address() any              // the pointer to the field

	moved(to map[any]any) place // the same of another module, by pointers to fields; nil if it is not there
}

// fieldPlace is the field of a module.
type fieldPlace[M Module] struct{ field *M }

func (p fieldPlace[M]) module(name string) Module { return orRefused(*p.field, "part "+name) }
func (p fieldPlace[M]) address() any              { return p.field }

func (p fieldPlace[M]) moved(to map[any]any) place {
	if field, ok := to[p.field].(*M); ok {
		return fieldPlace[M]{field}
	}
	return nil
}

// listPlace is the field of a slice of modules.
type listPlace[M Module] struct{ field *[]M }

func (p listPlace[M]) address() any { return p.field }

func (p listPlace[M]) module(name string) Module {
	l := &groupModule{kind: "ModuleList"}
	for i, m := range *p.field {
		number := strconv.Itoa(i)
		l.parts = append(l.parts, partSlot{name: number, value: orRefused(m, "part "+name+"."+number)})
	}
	return l
}

func (p listPlace[M]) moved(to map[any]any) place {
	if field, ok := to[p.field].(*[]M); ok {
		return listPlace[M]{field}
	}
	return nil
}

// module is what is there now.
func (p *partSlot) module() Module {
	if p.field == nil {
		return p.value
	}
	return p.field.module(p.name)
}

// claim takes a name for something that is registered. The first one that it refuses is the mistake that is reported.
func (b *Base) claim(name string) bool {
	detail := ""
	switch {
	case name == "":
		detail = "a name may not be empty"
	case strings.Contains(name, "."):
		detail = "a name has no dots, which separate the names of a path; RegisterList registers the elements of a slice"
	case b.taken(name):
		detail = "the module has something of this name already"
	default:
		return true
	}
	b.mistaken(&NameError{Name: name, Detail: detail})
	return false
}

func (b *Base) taken(name string) bool {
	for i := range b.own {
		if b.own[i].name == name {
			return true
		}
	}
	for i := range b.parts {
		if b.parts[i].name == name {
			return true
		}
	}
	return false
}

// mistaken keeps the first mistake of a registration, until a use of the module can report it.
func (b *Base) mistaken(err error) {
	if b.wrong == nil {
		b.wrong = err
	}
}

// mistake is what is wrong with the registration of b, nil for nothing.
func (b *Base) mistake() error {
	if b == nil {
		return argumentErr("module", "its Base is a nil pointer: embed nn.Base")
	}
	if b.wrong == nil && b.self != nil && b.self != b {
		return argumentErr("module", "it is a copy of another one, whose fields are registered; make each by its constructor")
	}
	return b.wrong
}

// ofField is what all that register fields begin with. A copy of the module would list the fields of the one that it was copied from.
func (b *Base) ofField(name string, missing bool) bool {
	if b == nil {
		return false
	}
	if missing {
		b.mistaken(argumentErr(excerpt.Quote(name), "the pointer to the field is nil"))
	}
	if missing || !b.claim(name) {
		return false
	}
	b.self = b
	return true
}

// Register makes m a part under a name, for names and an order that are not those of exported fields: what is registered is listed first, in the order
// of registration, and under that name alone. It is for parts that stay what they are: of one in a field that may be assigned to, register the field,
// with RegisterField. A part that was registered under the name before is replaced in its place, as in PyTorch. A nil m, and one that b is a part
// of, make a part that cannot be used: To and Forward are an *ArgumentError. A name that is empty, has a dot, or is that of a field or of something
// that is no part is a *NameError of To and of all else that reports errors.
func (b *Base) Register(name string, m Module) {
	if b == nil {
		return
	}
	m = introduced(orRefused(m, "part "+name))
	if contains(m, b) {
		m = refused(argumentErr("part "+name, "the module would be a part of itself"))
	}
	at := slices.IndexFunc(b.parts, func(p partSlot) bool { return p.name == name && p.field == nil })
	if at >= 0 {
		b.parts[at].value = m
		return
	}
	if b.claim(name) {
		b.parts = append(b.parts, partSlot{name: name, value: m})
	}
}

// RegisterField makes the module in a field of b's module a part: always the one that is there, so that an assignment to the field
// replaces the part; the program releases the one before, and makes optimizers anew (package documentation, Replacing). A field that is nil when the module is used is an *ArgumentError. Names are as for Register.
//
//	nn.RegisterField(&n.Base, "head", &n.head)
func RegisterField[M Module](b *Base, name string, field *M) {
	if b.ofField(name, field == nil) {
		b.parts = append(b.parts, partSlot{name: name, field: fieldPlace[M]{field}})
	}
}

// RegisterList makes the modules in a slice parts, under the name, a dot and their number: "layers.0" and so on (PyTorch's ModuleList).
// It is RegisterField for slices: the list is that of the slice in the field when it is asked for.
func RegisterList[M Module](b *Base, name string, field *[]M) {
	if b.ofField(name, field == nil) {
		b.parts = append(b.parts, partSlot{name: name, field: listPlace[M]{field}})
	}
}

// RegisterParameter makes p a parameter of the module itself, under its name, and returns it. It replaces one that was registered so before. It is for
// parameters that stay what they are: of one in a field that may be assigned to, register the field, with RegisterParameterField.
func (b *Base) RegisterParameter(p *autograd.Parameter) *autograd.Parameter {
	b.addValue(p, false)
	return p
}

// RegisterParameterField makes the parameter in a field of the module a parameter of it: always the one that is there; the program
// releases one that it replaces. A nil one is not
// listed (PyTorch's None). It is listed, saved and loaded under this name, whatever its own is. Names are as for Register.
//
//	n.RegisterParameterField("scale", &n.scale)
func (b *Base) RegisterParameterField(name string, field **autograd.Parameter) {
	b.addField(slot{name: name, field: field})
}

// RegisterBuffer makes p a buffer of the module itself, and returns it. Graphs compute no gradient for it. See RegisterParameter.
func (b *Base) RegisterBuffer(p *autograd.Parameter, opts ...BufferOption) *autograd.Parameter {
	p.SetRequiresGrad(false)
	b.addValue(p, true, opts...)
	return p
}

// RegisterBufferField makes the buffer in a field of the module a buffer of it, as RegisterParameterField does with parameters.
func (b *Base) RegisterBufferField(name string, field **autograd.Parameter, opts ...BufferOption) {
	s := slot{name: name, field: field, buffer: true}
	s.apply(opts)
	b.addField(s)
}

// requires is RegisterParameterField for a parameter that the module cannot do without.
func (b *Base) requires(name string, field **autograd.Parameter) {
	b.addField(slot{name: name, field: field, required: true})
}

func (b *Base) addField(s slot) {
	if b.ofField(s.name, s.field == nil) {
		b.own = append(b.own, s)
	}
}

func (b *Base) addValue(p *autograd.Parameter, buffer bool, opts ...BufferOption) {
	switch {
	case b == nil:
		return
	case p == nil:
		b.mistaken(argumentErr("RegisterParameter", "the parameter is nil"))
		return
	}
	s := slot{name: p.Name(), field: &p, value: true, buffer: buffer}
	s.apply(opts)
	at := slices.IndexFunc(b.own, func(s slot) bool { return s.name == p.Name() && s.value && s.buffer == buffer })
	if at >= 0 {
		b.own[at] = s
		return
	}
	if b.claim(p.Name()) {
		b.own = append(b.own, s)
	}
}

// ownIn lists the parameters of m itself, whose Base b is, or its buffers, under their names here. What cannot be listed is a parameter
// that cannot be made, and says why.
func (b *Base) ownIn(m Module, kind contentKind) []Named {
	if err := b.mistakeIn(m); err != nil {
		if kind != ofParameters {
			return nil
		}
		return []Named{{"missing", refused(err).parameter}}
	}
	var list []Named
	for _, s := range contentsOf(m, b).own {
		switch p := *s.field; {
		case s.buffer != (kind != ofParameters), s.unsaved && kind == ofSavedBuffers:
		case p != nil:
			list = append(list, Named{s.name, p})
		case s.required:
			list = append(list, Named{s.name, refused(nilParameter(s.name)).parameter})
		}
	}
	return list
}

// partsIn lists the parts of m, whose Base b is.
func (b *Base) partsIn(m Module) []Part {
	if b == nil {
		return nil
	}
	parts := contentsOf(m, b).parts
	list := make([]Part, len(parts))
	for i := range parts {
		list[i] = Part{parts[i].name, parts[i].module()}
	}
	return list
}

// mistakeIn is what is wrong with the registration of m, whose Base b is, or with its fields, nil for nothing.
func (b *Base) mistakeIn(m Module) error {
	if err := b.mistake(); err != nil {
		return err
	}
	if _, alone := m.(bare); alone && !b.listed && len(b.own)+len(b.parts) == 0 {
		return argumentErr("module", "its Base does not know what it is embedded in, and which fields that has: return it from nn.New in its constructor")
	}
	return contentsOf(m, b).wrong
}

// nilParameter is the error of a field that must have a parameter.
func nilParameter(path string) error {
	return argumentErr("parameter "+path, "the field is nil")
}
