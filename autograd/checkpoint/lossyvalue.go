package checkpoint

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cistern-ml/cistern/internal/excerpt"
)

// held looks for what JSON would lose of a value whose type it keeps: what interfaces hold, strings that are no UTF-8, keys that become
// one, and numbers in an interface, inAny, that are no float64.
func (l lossy) held(v reflect.Value, path string, inAny bool) error {
	if ownJSON(v.Type(), v.CanAddr()) {
		return own(v, path, inAny)
	}
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return nil
		}
		if err := l.check(v.Elem().Type(), path, false); err != nil {
			return err
		}
		return l.held(v.Elem(), path, true)
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return l.held(v.Elem(), path, inAny)
	case reflect.Slice, reflect.Array, reflect.Map:
		return l.heldBy(v, path, inAny)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); !ignored(f) {
				if err := l.held(v.Field(i), strings.TrimPrefix(path+"."+f.Name, "."), inAny); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return scalar(v, path, inAny)
}

func (l lossy) heldBy(v reflect.Value, path string, inAny bool) error {
	if v.Kind() == reflect.Map {
		return l.heldByMap(v, path, inAny)
	}
	k := v.Type().Elem().Kind()
	if k >= reflect.Float32 && k <= reflect.Float64 || !inAny && k <= reflect.Float64 { // a long list of numbers, all of which are kept
		return nil
	}
	for i := range v.Len() {
		if err := l.held(v.Index(i), fmt.Sprintf("%s[%d]", path, i), inAny); err != nil {
			return err
		}
	}
	return nil
}

func (l lossy) heldByMap(v reflect.Value, path string, inAny bool) error {
	names := make(map[string]bool, v.Len())
	for _, key := range sortedKeys(v) {
		name := keyName(key)
		if !utf8.ValidString(name) {
			return &ValueError{path, v.Type().String(), "the key " + excerpt.Quote(name) + " is not UTF-8"}
		}
		if names[name] {
			return &ValueError{path, v.Type().String(), "two keys are both " + excerpt.Quote(name) + " as text"}
		}
		names[name] = true
		if err := l.held(v.MapIndex(key), strings.TrimPrefix(path+"."+excerpt.Of(name), "."), inAny); err != nil {
			return err
		}
	}
	return nil
}

// scalar refuses strings that are no UTF-8, and integers that would come back as another float64.
func scalar(v reflect.Value, path string, inAny bool) error {
	switch {
	case v.Kind() == reflect.String && !utf8.ValidString(v.String()):
		return &ValueError{path, v.Type().String(), excerpt.Quote(v.String()) + " is not UTF-8; a []byte keeps all bytes"}
	case !inAny:
		return nil
	case v.CanInt(), v.CanUint(), v.Type() == reflect.TypeFor[json.Number]():
		if n := fmt.Sprint(v); n != "" && !sameAsFloat(n) {
			return &ValueError{path, v.Type().String(), n + " in an interface comes back as the next float64; give the variable or field the type " +
				v.Type().String()}
		}
	}
	return nil
}

// own is held for a type that says itself what it is in JSON.
func own(v reflect.Value, path string, inAny bool) error {
	if v.Kind() == reflect.Pointer && v.IsNil() || !v.CanInterface() {
		return nil
	}
	if v.CanAddr() {
		v = v.Addr()
	}
	text, err := json.Marshal(v.Interface())
	if err != nil {
		return nil // as encode says
	}
	t := reflect.Indirect(v).Type()
	if !utf8.Valid(text) || notText(v) {
		return &ValueError{path, t.String(), "what its method writes is not UTF-8"}
	}
	if n := notFloat(text); inAny && n != "" {
		return &ValueError{path, t.String(), excerpt.Of(n) + " in an interface comes back as another float64; give the variable or field the type " +
			t.String()}
	}
	return besides(v, path, text)
}

// notText reports whether encoding/json would mend what a method MarshalText returns.
func notText(v reflect.Value) bool {
	if _, first := v.Interface().(json.Marshaler); first {
		return false
	}
	m, ok := v.Interface().(encoding.TextMarshaler)
	if !ok {
		return false
	}
	text, err := m.MarshalText()
	return err == nil && !utf8.Valid(text)
}

// besides refuses structs whose methods are those of an embedded field, and forget the fields beside it.
func besides(v reflect.Value, path string, text []byte) error {
	v = reflect.Indirect(v)
	if v.Kind() != reflect.Struct || !promotes(v.Type()) {
		return nil
	}
	back := reflect.New(v.Type())
	if json.Unmarshal(text, back.Interface()) != nil {
		return nil // as encode says
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if ignored(f) || !f.IsExported() {
			continue
		}
		before, err := json.Marshal(v.Field(i).Interface())
		after, failed := json.Marshal(back.Elem().Field(i).Interface())
		if err == nil && failed == nil && string(before) != string(after) {
			return &ValueError{strings.TrimPrefix(path+"."+f.Name, "."), f.Type.String(), fmt.Sprintf("the methods for JSON of %s forget it, as "+
				"those of an embedded field do; give the embedded field a name, or %s methods of its own", v.Type(), v.Type())}
		}
	}
	return nil
}

// promotes reports whether a struct's methods for JSON may be those of an embedded field.
func promotes(t reflect.Type) bool {
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous && (f.Type.Kind() == reflect.Interface || ownJSON(f.Type, true)) {
			return true
		}
	}
	return false
}

// notFloat is the first number of a text in JSON that a float64 does not keep, or "".
func notFloat(text []byte) string {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return ""
		}
		if n, ok := token.(json.Number); ok && !sameAsFloat(n.String()) {
			return n.String()
		}
	}
}

// sameAsFloat reports whether a decimal number is a float64's: its value, or the shortest that means it.
func sameAsFloat(n string) bool {
	x, err := strconv.ParseFloat(n, 64)
	if err != nil {
		return false
	}
	if x == 0 { // a number that is not, and too small
		mantissa, _, _ := strings.Cut(strings.ToLower(n), "e")
		return !strings.ContainsAny(mantissa, "123456789")
	}
	want, ok := new(big.Rat).SetString(n)
	if !ok {
		return false
	}
	shortest, _ := new(big.Rat).SetString(strconv.FormatFloat(x, 'g', -1, 64))
	return want.Cmp(shortest) == 0 || want.Cmp(new(big.Rat).SetFloat64(x)) == 0
}
