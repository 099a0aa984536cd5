package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/cistern-ml/cistern/tensor"
)

// called is what errors call a type: a program's by its name, which its author knows, and one of this library by what it is.
func called(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[optimizerJSON]():
		return "state of an optimizer"
	case reflect.TypeFor[tensor.GeneratorState]():
		return "state of a generator"
	case reflect.TypeFor[map[string]json.RawMessage]():
		return "object"
	case reflect.TypeFor[[]json.RawMessage]():
		return "list"
	}
	return t.String()
}

// inWords says what package json says of a value of another type, with the place, and without the names of Go's types.
func inWords(err error) error {
	var other *json.UnmarshalTypeError
	if !errors.As(err, &other) {
		return err
	}
	place := ""
	if other.Field != "" {
		place = other.Field + ": "
	}
	return fmt.Errorf("%sa %s, want %s", place, other.Value, wanted(other.Type))
}

// wanted is what of JSON a type takes.
func wanted(t reflect.Type) string {
	switch k := t.Kind(); {
	case k == reflect.Bool:
		return "true or false"
	case k >= reflect.Int && k <= reflect.Uintptr:
		return fmt.Sprintf("an integer of %d bits", t.Bits())
	case k == reflect.Float32, k == reflect.Float64:
		return "a number"
	case k == reflect.String:
		return "a text"
	case k == reflect.Slice, k == reflect.Array:
		return "a list"
	case k == reflect.Map, k == reflect.Struct:
		return "an object"
	}
	return "a " + t.String()
}
