package apifuzz

import (
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
)

// target is a function or method that is called.
type target struct {
	name string       // "tensor.Zeros", "(*tensor.Tensor).Add", "(device.Stream).Fill"
	recv reflect.Type // of methods, else nil
	fn   func(recv reflect.Value) reflect.Value
	sig  reflect.Type // without the receiver
}

// targets are all functions and methods, in the order of their names.
func targets() []target {
	all := map[string]target{}
	for name, f := range functions {
		v := reflect.ValueOf(f)
		all[name] = target{name: name, fn: func(reflect.Value) reflect.Value { return v }, sig: v.Type()}
	}
	for _, t := range types {
		if t.Kind() != reflect.Interface {
			t = reflect.PointerTo(t)
		}
		for i := range t.NumMethod() {
			m := t.Method(i)
			if !m.IsExported() {
				continue
			}
			name := "(" + typeName(t) + ")." + m.Name
			all[name] = target{name: name, recv: t, fn: func(recv reflect.Value) reflect.Value { return recv.Method(i) }, sig: signature(t, m)}
		}
	}
	var list []target
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[name])
	}
	return list
}

// signature is the type of a method value. The methods of interface types have no receiver.
func signature(t reflect.Type, m reflect.Method) reflect.Type {
	if t.Kind() == reflect.Interface {
		return m.Type
	}
	var in, out []reflect.Type
	for i := 1; i < m.Type.NumIn(); i++ {
		in = append(in, m.Type.In(i))
	}
	for i := range m.Type.NumOut() {
		out = append(out, m.Type.Out(i))
	}
	return reflect.FuncOf(in, out, m.Type.IsVariadic())
}

// typeName is t's name as a program writes it, with short names of packages also in type arguments.
func typeName(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		return "*" + typeName(t.Elem())
	}
	s := t.String()
	if i := strings.IndexByte(s, '['); i > 0 && t.Name() != "" {
		return s[:i+1] + path.Base(s[i+1:])
	}
	return s
}

// makers are the functions whose first result can serve where a value of type t is needed.
func makers(t reflect.Type) []target {
	if found, ok := madeBy[t]; ok {
		return found
	}
	var found []target
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		f := reflect.TypeOf(functions[name])
		if excluded[name] == "" && f.NumOut() > 0 && f.Out(0) != errorType && fits(f.Out(0), t) {
			v := reflect.ValueOf(functions[name])
			found = append(found, target{name: name, fn: func(reflect.Value) reflect.Value { return v }, sig: f})
		}
	}
	madeBy[t] = found
	return found
}

var madeBy = map[reflect.Type][]target{}

// fits reports whether a result is what is needed: the type itself, or for an interface with methods what implements it.
func fits(result, need reflect.Type) bool {
	return result == need || need.Kind() == reflect.Interface && need.NumMethod() > 0 && result.Implements(need)
}

var errorType = reflect.TypeFor[error]()
