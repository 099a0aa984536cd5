package checkpoint

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/cistern-ml/cistern/internal/excerpt"
)

// JSON has no NaN and no infinities. A value with such numbers is written with zeros in their places, and a list of them before it:
//
//	{"cistern.nonfinite": [{"path": ["best"], "value": "+Inf"}], "value": {"best": 0, "epoch": 3}}
//
// A value that begins so itself is written with an empty list before it.

// annotated is such a value.
type annotated struct {
	Numbers []nonFinite     `json:"cistern.nonfinite"`
	Value   json.RawMessage `json:"value"`
}

const annotatedStart = `{"cistern.nonfinite":`

// nonFinite is where a number belongs, in names of fields, keys and indices, and which.
type nonFinite struct {
	Path  []string `json:"path"`
	Value string   `json:"value"`
}

// encode is json.Marshal for all numbers, and refuses what could not be read again.
func encode[T any](v T) ([]byte, error) {
	text, err := json.Marshal(&v) // by address: fields' methods may be those of pointers
	var unsupported *json.UnsupportedValueError
	if errors.As(err, &unsupported) {
		text, err = encodeNonFinite(v, err)
	} else if bytes.HasPrefix(text, []byte(annotatedStart)) {
		text, err = json.Marshal(annotated{[]nonFinite{}, text})
	}
	if lost := kept(reflect.ValueOf(&v).Elem(), err == nil); lost != nil {
		return nil, lost
	}
	if err != nil {
		return nil, err
	}
	if _, err := decode[T](text); err != nil {
		return nil, fmt.Errorf("it could not be read again: %w", err)
	}
	return text, nil
}

// encodeNonFinite is encode for a value that JSON does not take, for the given reason.
func encodeNonFinite[T any](v T, err error) ([]byte, error) {
	again, failed := annotate(v)
	if failed != nil {
		return nil, fmt.Errorf("%w (%v)", err, failed)
	}
	back, failed := decode[T](again)
	if failed == nil {
		var same []byte
		if same, failed = annotate(back); failed == nil && !sameValue(same, again) {
			failed = fmt.Errorf("a %T that JSON does not keep as it is", v)
		}
	}
	if failed != nil {
		return nil, fmt.Errorf("%w (it could not be read again: %v)", err, failed)
	}
	return again, nil
}

// sameValue reports whether two texts are the same value: a struct in an interface comes back as a map, whose keys are sorted, and the
// list of numbers is in the order of the fields. What of other numbers an interface does not keep is seen by lossy.
func sameValue(a, b []byte) bool {
	var parts [2]struct {
		Numbers []nonFinite `json:"cistern.nonfinite"`
		Value   any         `json:"value"`
	}
	for i, text := range [][]byte{a, b} {
		if json.Unmarshal(text, &parts[i]) != nil {
			return false
		}
		slices.SortFunc(parts[i].Numbers, func(x, y nonFinite) int { return slices.Compare(x.Path, y.Path) })
	}
	return reflect.DeepEqual(parts[0], parts[1])
}

func annotate[T any](v T) ([]byte, error) {
	stripped := reflect.New(reflect.TypeFor[T]()).Elem()
	stripped.Set(reflect.ValueOf(&v).Elem())
	s := stripper{}
	if err := s.strip(stripped, nil); err != nil {
		return nil, err
	}
	inner, err := json.Marshal(stripped.Addr().Interface())
	if err != nil {
		return nil, err
	}
	return json.Marshal(annotated{s.found, inner})
}

// decode is the reverse of encode.
func decode[T any](text []byte) (v T, err error) {
	if !bytes.HasPrefix(text, []byte(annotatedStart)) {
		return v, unmarshalExact(text, &v)
	}
	var a annotated
	if err := json.Unmarshal(text, &a); err != nil {
		return v, malformed("a %T: %v", v, err)
	}
	if err := unmarshalExact(a.Value, &v); err != nil {
		return v, err
	}
	return v, a.putAll(&v)
}

// unmarshalExact is unmarshal of exactly what v has.
func unmarshalExact(text []byte, v any) error {
	if err := unmarshal(text, v); err != nil {
		return err
	}
	if err := exact(text, reflect.TypeOf(v).Elem(), ""); err != nil {
		return fmt.Errorf("what the file has is no %s: %w", called(reflect.TypeOf(v).Elem()), err)
	}
	return nil
}

// unmarshal is json.Unmarshal. JSON that is sound, but of another type, is no fault of the file.
func unmarshal(text []byte, v any) error {
	err := json.Unmarshal(text, v)
	switch {
	case err == nil:
		return nil
	case json.Valid(text):
		return fmt.Errorf("what the file has is no %s: %w", called(reflect.TypeOf(v).Elem()), inWords(err))
	}
	return malformed("a %s: %v", called(reflect.TypeOf(v).Elem()), err)
}

// putAll sets the numbers of the list.
func (a *annotated) putAll(v any) error {
	var plain any
	if err := unmarshal(a.Value, &plain); err != nil {
		return err
	}
	t := reflect.TypeOf(v).Elem()
	for _, n := range a.Numbers {
		x, err := strconv.ParseFloat(n.Value, 64)
		if err != nil || !math.IsNaN(x) && !math.IsInf(x, 0) {
			return malformed("a %v: %q is neither NaN nor infinite", t, excerpt.Of(n.Value))
		}
		at := strings.Join(n.Path, "/")
		err = put(reflect.ValueOf(v).Elem(), n.Path, x)
		switch {
		case err == nil:
		case put(reflect.ValueOf(&plain).Elem(), n.Path, x) == nil: // it is there, but the type has another place for it, or none
			return fmt.Errorf("what the file has is no %v: no number at %s: %w", t, excerpt.Of(at), err)
		default:
			return malformed("a %v: no number at %s: %v", t, at, err)
		}
	}
	return nil
}

// stripper makes zeros of numbers that JSON does not have.
type stripper struct {
	found []nonFinite
	depth int
}

// maxDepth is how deep values can be: json.Marshal refuses those that contain themselves.
const maxDepth = 1000

// strip works on a copy of v, but for what is behind pointers, in slices and in maps: that it copies.
func (s *stripper) strip(v reflect.Value, path []string) error {
	if s.depth++; s.depth > maxDepth {
		return errors.New("a value that is too deep, or contains itself")
	}
	defer func() { s.depth-- }()
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		if x := v.Float(); v.CanSet() && (math.IsNaN(x) || math.IsInf(x, 0)) {
			s.found = append(s.found, nonFinite{append([]string{}, path...), strconv.FormatFloat(x, 'g', -1, 64)})
			v.SetFloat(0)
		}
		return nil
	case reflect.Struct:
		for i := range v.NumField() {
			if name, ok := fieldName(v.Type().Field(i)); ok {
				if err := s.strip(v.Field(i), step(path, name)); err != nil {
					return err
				}
			}
		}
		return nil
	case reflect.Array:
		return s.elements(v, path)
	}
	if !v.CanSet() {
		return nil
	}
	return s.behind(v, path)
}

// behind strips what v leads to.
func (s *stripper) behind(v reflect.Value, path []string) error {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		c := reflect.New(v.Elem().Type())
		c.Elem().Set(v.Elem())
		err := s.strip(c.Elem(), path)
		if v.Kind() == reflect.Interface {
			c = c.Elem()
		}
		v.Set(c)
		return err
	case reflect.Slice:
		if v.IsNil() {
			return nil
		}
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(c, v)
		v.Set(c)
		return s.elements(c, path)
	case reflect.Map:
		return s.entries(v, path)
	}
	return nil
}

func (s *stripper) elements(v reflect.Value, path []string) error {
	for i := range v.Len() {
		if err := s.strip(v.Index(i), step(path, strconv.Itoa(i))); err != nil {
			return err
		}
	}
	return nil
}

func (s *stripper) entries(v reflect.Value, path []string) error {
	if v.IsNil() {
		return nil
	}
	c := reflect.MakeMapWithSize(v.Type(), v.Len())
	for _, key := range sortedKeys(v) {
		e := reflect.New(v.Type().Elem()).Elem()
		e.Set(v.MapIndex(key))
		if err := s.strip(e, step(path, keyName(key))); err != nil {
			return err
		}
		c.SetMapIndex(key, e)
	}
	v.Set(c)
	return nil
}

// sortedKeys makes the same list of the same value.
func sortedKeys(v reflect.Value) []reflect.Value {
	return slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(keyName(a), keyName(b)) })
}

func step(path []string, name string) []string { return append(path[:len(path):len(path)], name) }

// fieldName is what JSON calls a field, if it has it.
func fieldName(f reflect.StructField) (string, bool) {
	tag := f.Tag.Get("json")
	name, _, _ := strings.Cut(tag, ",")
	if tag == "-" || !f.IsExported() && !f.Anonymous {
		return "", false
	}
	if name == "" {
		name = f.Name
	}
	return name, true
}

// keyName is what JSON calls a key.
func keyName(key reflect.Value) string {
	if key.Kind() == reflect.String {
		return key.String()
	}
	if m, ok := key.Interface().(encoding.TextMarshaler); ok {
		text, _ := m.MarshalText()
		return string(text)
	}
	return fmt.Sprint(key.Interface())
}

// put sets the number at a path.
func put(v reflect.Value, path []string, x float64) error {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return errors.New("there is nothing")
		}
		c := reflect.New(v.Elem().Type())
		c.Elem().Set(v.Elem())
		err := put(c.Elem(), path, x)
		if v.Kind() == reflect.Interface {
			c = c.Elem()
		}
		if err == nil {
			v.Set(c)
		}
		return err
	case reflect.Float32, reflect.Float64:
		if len(path) > 0 || !v.CanSet() {
			return errors.New("the number has no parts")
		}
		v.SetFloat(x)
		return nil
	}
	if len(path) == 0 {
		return fmt.Errorf("there is a %s", v.Kind())
	}
	return putInto(v, path, x)
}

func putInto(v reflect.Value, path []string, x float64) error {
	name := path[0]
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if n, ok := fieldName(v.Type().Field(i)); ok && n == name {
				return put(v.Field(i), path[1:], x)
			}
		}
	case reflect.Slice, reflect.Array:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < v.Len() {
			return put(v.Index(i), path[1:], x)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if keyName(key) != name {
				continue
			}
			e := reflect.New(v.Type().Elem()).Elem()
			e.Set(v.MapIndex(key))
			if err := put(e, path[1:], x); err != nil {
				return err
			}
			v.SetMapIndex(key, e)
			return nil
		}
	}
	return fmt.Errorf("there is no %q", excerpt.Of(name))
}
