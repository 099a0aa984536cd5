package checkpoint

import (
	"fmt"
	"reflect"
	"strings"
)

// distinct refuses structs in which two fields have one name in JSON, embedded ones counted: encoding/json writes one of them or none.
func distinct(t reflect.Type, path string) error {
	n := names{first: map[string]string{}, seen: map[reflect.Type]bool{}}
	return n.add(t, t, path, "")
}

// names is what was found so far: the Go name of the field that has a name in JSON.
type names struct {
	first map[string]string
	seen  map[reflect.Type]bool
}

// add is distinct for the fields of part, which is in whole, embedded as prefix.
func (n names) add(whole, part reflect.Type, path, prefix string) error {
	if n.seen[part] {
		return nil
	}
	n.seen[part] = true
	for i := range part.NumField() {
		f := part.Field(i)
		name, written := fieldName(f)
		if ignored(f) || !written {
			continue
		}
		at := strings.TrimPrefix(prefix+"."+f.Name, ".")
		if embedded := flattened(f); embedded != nil {
			if err := n.add(whole, embedded, path, at); err != nil {
				return err
			}
			continue
		}
		if other, taken := n.first[name]; taken {
			return &ValueError{strings.TrimPrefix(path+"."+at, "."), f.Type.String(),
				fmt.Sprintf("%s of %s has the same name in JSON, %q; tag one of them with another name", other, whole, name)}
		}
		n.first[name] = at
	}
	return nil
}

// flattened is the embedded struct whose fields JSON writes as those of the struct around it, and nil for other fields.
func flattened(f reflect.StructField) reflect.Type {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if !f.Anonymous || name != "" || t.Kind() != reflect.Struct {
		return nil
	}
	return t
}
