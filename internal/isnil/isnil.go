// Package isnil finds arguments that are not there: a nil interface, and one that holds a nil pointer, such as the file that os.Open
// returns beside an error, which is not equal to nil.
package isnil

import (
	"fmt"
	"reflect"
)

// Value reports whether v is nil, or a nil pointer.
func Value(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}

// Why says for an error what is wrong with an argument, as in "the reader is a nil *os.File". It is empty for one that is there.
func Why(what string, v any) string {
	switch {
	case v == nil:
		return "the " + what + " is nil"
	case Value(v):
		return fmt.Sprintf("the %s is a nil %T", what, v)
	}
	return ""
}
