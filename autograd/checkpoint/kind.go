package checkpoint

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/internal/excerpt"
)

// The kinds of this package's sections. A file has the kind of each section, so that none takes what another one wrote; behind those of
// optimizers and objects is a name, for errors.
const (
	moduleKind    = "module"
	optimizerKind = "optimizer"
	stateKind     = "state"
	generatorKind = "generator"
	valueKind     = "value"
	tensorsKind   = "tensors"
)

// KindError says that a section was given what a section of another kind wrote. It is in a *SectionError.
type KindError struct {
	Found, Wanted string // as in "StepLR" and "ReduceLROnPlateau"
}

func (e *KindError) Error() string {
	return fmt.Sprintf("it is the state of %s, not of %s", e.Found, e.Wanted)
}

// describe says of what a kind is the state.
func describe(kind string) string {
	class, name, _ := strings.Cut(kind, " ")
	switch {
	case name != "" && (class == optimizerKind || class == stateKind):
		return excerpt.Of(name)
	case class == moduleKind, class == generatorKind:
		return "a " + class
	case class == optimizerKind:
		return "an optimizer"
	case class == valueKind:
		return "a variable"
	case class == tensorsKind:
		return "tensors"
	case class == stateKind:
		return "an object"
	}
	return excerpt.Quote(kind)
}

// sameKind refuses the content of a section of another kind. A Content without a kind is for the section to check.
func sameKind(c Content, want string) error {
	found, _, _ := strings.Cut(c.Kind, " ")
	if class, _, _ := strings.Cut(want, " "); c.Kind == "" || found == class {
		return nil
	}
	return &KindError{describe(c.Kind), describe(want)}
}

// stateOf is the kind of an object: its name is what its Name says, as in "StepLR", or that of its type.
func stateOf(o any) string {
	if n, ok := o.(interface{ Name() string }); ok {
		return stateKind + " " + n.Name()
	}
	t := reflect.TypeOf(o)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return stateKind + " " + t.Name()
}

// exact refuses JSON that json.Unmarshal reads into a t by leaving a part of it out, or by making zeros of what is not there: structs with
// fields that only the one has, null for what cannot be nil, and arrays of another length. The JSON is sound, and of the type.
func exact(text []byte, t reflect.Type, path string) error {
	text = bytes.TrimSpace(text)
	null := string(text) == "null"
	switch {
	case readsItself(t), t.Kind() == reflect.Interface:
		return nil
	case null && (t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map):
		return nil
	case null:
		return inexact(path, "null, want a %v", t)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return exact(text, t.Elem(), path)
	case reflect.Struct:
		return exactFields(text, t, path)
	case reflect.Slice, reflect.Array:
		return exactElements(text, t, path)
	case reflect.Map:
		var all map[string]json.RawMessage
		if err := unmarshal(text, &all); err != nil {
			return err
		}
		for key, v := range all {
			if err := exact(v, t.Elem(), join(path, key)); err != nil {
				return err
			}
		}
	}
	return nil
}

// inexact is the error of a part of a value.
func inexact(path, format string, args ...any) error {
	if path != "" {
		path = excerpt.Of(path) + ": "
	}
	return fmt.Errorf("%s%s", path, fmt.Sprintf(format, args...))
}

func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

// readsItself reports whether a type's own method reads it.
func readsItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func exactElements(text []byte, t reflect.Type, path string) error {
	if text[0] != '[' { // bytes, as a string
		return nil
	}
	if k := t.Elem().Kind(); t.Kind() == reflect.Slice && (k <= reflect.Float64 || k == reflect.String) && !bytes.Contains(text, []byte("null")) {
		return nil // a long list of numbers
	}
	var all []json.RawMessage
	if err := unmarshal(text, &all); err != nil {
		return err
	}
	if t.Kind() == reflect.Array && len(all) != t.Len() {
		return inexact(path, "%d elements, want %d", len(all), t.Len())
	}
	for i, v := range all {
		if err := exact(v, t.Elem(), fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	return nil
}

func exactFields(text []byte, t reflect.Type, path string) error {
	var all map[string]json.RawMessage
	if err := unmarshal(text, &all); err != nil {
		return err
	}
	fields := fieldNames{known: map[string]bool{}}
	if err := fields.exact(all, t, path, true); err != nil {
		return err
	}
	for name := range all {
		if !fields.known[name] {
			return inexact(path, "the file has %s, which a %s has not", excerpt.Quote(name), called(t))
		}
	}
	return nil
}

// fieldNames are those that JSON gives to a struct and to the ones embedded in it.
type fieldNames struct {
	known  map[string]bool
	within []reflect.Type // the structs around the one that is looked at: they embed it
}

// exact checks the fields of a struct and of those embedded in it, and notes their names. Those behind an embedded pointer need not be
// there, since it may be nil.
func (n *fieldNames) exact(all map[string]json.RawMessage, t reflect.Type, path string, needed bool) error {
	if slices.Contains(n.within, t) { // structs that embed each other have no more names
		return nil
	}
	n.within = append(n.within, t)
	defer func() { n.within = n.within[:len(n.within)-1] }()
	var embedded []reflect.StructField
	for i := range t.NumField() {
		f := t.Field(i)
		name, ok := fieldName(f)
		if !ok {
			continue
		}
		if isEmbedded(f) {
			embedded = append(embedded, f)
			continue
		}
		if n.known[name] || !f.IsExported() { // JSON takes the outer field of a name
			continue
		}
		n.known[name] = true
		v, there := all[name]
		switch {
		case ignored(f):
		case there:
			if err := exact(v, f.Type, join(path, name)); err != nil {
				return err
			}
		case needed && !optional(f):
			return inexact(path, "the file has no %q, which a %s has", excerpt.Of(name), called(t))
		}
	}
	for _, f := range embedded {
		of, pointer := f.Type, f.Type.Kind() == reflect.Pointer
		if pointer {
			of = of.Elem()
		}
		if err := n.exact(all, of, path, needed && !pointer); err != nil {
			return err
		}
	}
	return nil
}

// isEmbedded reports whether JSON has the fields of a field among those of the struct around it.
func isEmbedded(f reflect.StructField) bool {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return f.Anonymous && name == "" && t.Kind() == reflect.Struct
}

// optional reports whether JSON leaves a field out when it is empty.
func optional(f reflect.StructField) bool {
	_, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	for option := range strings.SplitSeq(options, ",") {
		if option == "omitempty" || option == "omitzero" {
			return true
		}
	}
	return false
}
