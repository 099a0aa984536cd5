// Package abi has facts about NVIDIA's libraries, taken from the headers of CUDA 11.8 and 12.4 by generate.sh: of each function
// that this module calls or emulates the widths of its arguments, the numbers of constants, the layout of structures. The tests
// beside it compare our tables and calls with them. Nothing else needs this package.
package abi

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

//go:embed facts.txt
var text string

// Argument is one argument of a function.
type Argument struct {
	Bytes   int  // that are passed
	Pointer bool // it is an address
	To      int  // bytes that it is the address of; 0 if the header does not say
}

// Field is a member of a structure.
type Field struct{ Offset, Bytes int }

// Facts are all facts, by the names in the headers; fields as "structure.field".
type Facts struct {
	Functions map[string][]Argument
	Values    map[string]int64
	Structs   map[string]int
	Fields    map[string]Field
}

// Read returns the facts.
func Read() (Facts, error) {
	f := Facts{map[string][]Argument{}, map[string]int64{}, map[string]int{}, map[string]Field{}}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		if len(words) < 3 {
			return f, fmt.Errorf("abi: %q is no fact", line)
		}
		if err := f.add(words[0], words[1], words[2:]); err != nil {
			return f, fmt.Errorf("abi: %q: %w", line, err)
		}
	}
	return f, nil
}

// add takes one line. Functions all return 4 bytes.
func (f Facts) add(kind, name string, words []string) error {
	if kind == "function" {
		arguments := make([]Argument, 0, len(words))
		for _, w := range words[1:] {
			a, err := argument(w)
			if err != nil {
				return err
			}
			arguments = append(arguments, a)
		}
		f.Functions[name] = arguments
		return nil
	}
	var n [2]int64
	for i, w := range words {
		var err error
		if n[i], err = strconv.ParseInt(w, 10, 64); err != nil {
			return err
		}
	}
	switch kind {
	case "value":
		f.Values[name] = n[0]
	case "struct":
		f.Structs[name] = int(n[0])
	case "field":
		f.Fields[name] = Field{int(n[0]), int(n[1])}
	default:
		return fmt.Errorf("unknown kind %q", kind)
	}
	return nil
}

// argument reads 4, *4 or *.
func argument(word string) (Argument, error) {
	to, pointer := strings.CutPrefix(word, "*")
	if pointer && to == "" {
		return Argument{Bytes: 8, Pointer: true}, nil
	}
	n, err := strconv.Atoi(to)
	if pointer {
		return Argument{Bytes: 8, Pointer: true, To: n}, err
	}
	return Argument{Bytes: n}, err
}
