package checkpoint

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/tensor"
)

// ValueError says that a value cannot be a section, since JSON would lose a part of it. It is in a *SectionError.
type ValueError struct {
	Path   string // fields from the value to the part, as in "best.loss"; empty for the value itself
	Type   string // of the part
	Detail string // what to do
}

func (e *ValueError) Error() string {
	where := ""
	if e.Path != "" {
		where = e.Path + ": "
	}
	return fmt.Sprintf("%sJSON does not keep a %s: %s", where, e.Type, e.Detail)
}

// instead is what to use for the types that are handles of something else.
var instead = map[reflect.Type]string{
	reflect.TypeFor[tensor.Tensor]():      "its section is checkpoint.Tensor, that of several is checkpoint.Tensors",
	reflect.TypeFor[tensor.Generator]():   "its section is checkpoint.Generator",
	reflect.TypeFor[autograd.Parameter](): "the section of a module's parameters is checkpoint.Module",
	reflect.TypeFor[autograd.Variable]():  "it is the graph's; a number of it is what Item returns",
}

// lossy looks for what JSON would lose. It decides by types, so that what is refused does not depend on what the value is at the moment.
type lossy struct{ seen map[place]bool }

// place is a type, and whether what is of it has an address.
type place struct {
	t           reflect.Type
	addressable bool
}

// kept is an error for values of which JSON would lose something. What is in a value is looked at if it is finite: those that contain
// themselves are not.
func kept(v reflect.Value, finite bool) error {
	l := lossy{map[place]bool{}}
	if err := l.check(v.Type(), "", true); err != nil || !finite {
		return err
	}
	return l.held(v, "", false)
}

// check refuses types. Behind what has no address JSON does not call the methods of the pointer.
func (l lossy) check(t reflect.Type, path string, addressable bool) error {
	if err := handle(t, path); err != nil || ownJSON(t, addressable) || l.seen[place{t, addressable}] {
		return err
	}
	l.seen[place{t, addressable}] = true
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.UnsafePointer, reflect.Complex64, reflect.Complex128:
		return &ValueError{path, t.String(), "it cannot be in a file; tag the field `json:\"-\"` if it need not be"}
	case reflect.Pointer, reflect.Slice:
		return l.check(t.Elem(), path, true)
	case reflect.Array:
		return l.check(t.Elem(), path, addressable)
	case reflect.Map:
		return l.check(t.Elem(), path, false)
	case reflect.Struct:
		return l.fields(t, path, addressable)
	}
	return nil
}

func (l lossy) fields(t reflect.Type, path string, addressable bool) error {
	if err := distinct(t, path); err != nil {
		return err
	}
	for i := range t.NumField() {
		f := t.Field(i)
		at := strings.TrimPrefix(path+"."+f.Name, ".")
		if ignored(f) {
			continue
		}
		if !f.IsExported() && !(f.Anonymous && f.Type.Kind() == reflect.Struct) {
			return &ValueError{at, f.Type.String(), fmt.Sprintf("the field is not exported; export it, tag it `json:\"-\"` if it need not be kept, "+
				"or give %s the methods MarshalJSON and UnmarshalJSON", t)}
		}
		if embedded := flattened(f); embedded != nil && ownJSON(f.Type, addressable) { // JSON takes its fields, and asks no methods
			if err := l.fields(embedded, at, addressable); err != nil {
				return err
			}
		}
		if err := l.check(f.Type, at, addressable); err != nil {
			return err
		}
	}
	return nil
}

// handle refuses what has a section of its own kind.
func handle(t reflect.Type, path string) error {
	base := t
	if t.Kind() == reflect.Pointer {
		base = t.Elem()
	}
	detail, found := instead[base]
	switch {
	case found:
	case t.Implements(reflect.TypeFor[nn.Module]()) || reflect.PointerTo(base).Implements(reflect.TypeFor[nn.Module]()):
		detail = "the section of a module is checkpoint.Module"
	case t.Implements(reflect.TypeFor[StateOptimizer]()) || reflect.PointerTo(base).Implements(reflect.TypeFor[StateOptimizer]()):
		detail = "the section of an optimizer is checkpoint.Optimizer"
	case base == reflect.TypeFor[optim.Schedule](), base == reflect.TypeFor[optim.PlateauSchedule]():
		detail = "the section of a schedule is checkpoint.State"
	default:
		return nil
	}
	return &ValueError{path, t.String(), detail}
}

// ignored reports whether a field need not be kept: its tag says so, or it is a lock, which has nothing to keep.
func ignored(f reflect.StructField) bool {
	return f.Tag.Get("json") == "-" || f.Type == reflect.TypeFor[sync.Mutex]() || f.Type == reflect.TypeFor[sync.RWMutex]()
}

// ownJSON reports whether a type says itself what it is in JSON.
func ownJSON(t reflect.Type, addressable bool) bool {
	has := func(t reflect.Type) bool {
		return t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
	}
	return t.Kind() != reflect.Interface && (has(t) || addressable && has(reflect.PointerTo(t)))
}

// merge sets to to what was read, but for the fields that are not in JSON: those stay as they are.
func merge(to, read reflect.Value) {
	if to.Kind() != reflect.Struct || ownJSON(to.Type(), true) {
		to.Set(read)
		return
	}
	for i := range to.NumField() {
		f := to.Type().Field(i)
		if !ignored(f) && (f.IsExported() || f.Anonymous && f.Type.Kind() == reflect.Struct) {
			merge(to.Field(i), read.Field(i))
		}
	}
}
