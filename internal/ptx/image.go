// Package ptx cuts kernels out of PTX modules. A driver compiles all of a text when it is loaded, which takes seconds for some of
// those of kernels/cuda, and programs use a few kernels of each: so what they load is one kernel.
package ptx

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Image is the text of a module, as clang writes it.
type Image struct {
	head      string            // version, target, size of addresses
	variables []string          // declarations outside of kernels, a line each
	entries   map[string]string // kernels, by name
}

const (
	entryStart = ".visible .entry "
	entryEnd   = "\n}\n"
)

// Read cuts the text of a module.
func Read(text string) (*Image, error) {
	im := &Image{entries: map[string]string{}}
	first := strings.Index(text, entryStart)
	if first < 0 {
		return nil, fmt.Errorf("no kernels in %d bytes of PTX", len(text))
	}
	im.outside(text[:first], true)
	for rest := text[first:]; rest != ""; {
		end := strings.Index(rest, entryEnd)
		open := strings.IndexByte(rest, '(')
		if end < 0 || open < 0 {
			return nil, fmt.Errorf("a kernel without an end in PTX, at %.40q", rest)
		}
		end += len(entryEnd)
		im.entries[strings.TrimSpace(rest[len(entryStart):open])] = rest[:end]
		next := strings.Index(rest[end:], entryStart)
		if next < 0 {
			im.outside(rest[end:], false)
			break
		}
		im.outside(rest[end:end+next], false)
		rest = rest[end+next:]
	}
	return im, nil
}

// outside takes what stands between kernels: directives at the top, variables anywhere, comments.
func (im *Image) outside(text string, top bool) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "//")
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case strings.HasSuffix(line, ";"):
			im.variables = append(im.variables, line)
		case top:
			im.head += line + "\n"
		}
	}
}

// Names are the names of the kernels, in order.
func (im *Image) Names() []string { return slices.Sorted(maps.Keys(im.entries)) }

// Kernel is the PTX of one kernel, with the variables that it names.
func (im *Image) Kernel(name string) ([]byte, error) {
	entry, ok := im.entries[name]
	if !ok {
		return nil, fmt.Errorf("no kernel %s in the module's PTX", name)
	}
	var b bytes.Buffer
	b.WriteString(im.head)
	for _, v := range im.variables {
		if strings.Contains(entry, variableName(v)) {
			b.WriteString(v + "\n")
		}
	}
	b.WriteString(entry)
	return b.Bytes(), nil
}

// variableName is the name in a declaration like ".weak .shared .align 16 .b8 name[1024];".
func variableName(declaration string) string {
	declaration, _, _ = strings.Cut(declaration, "=")
	declaration, _, _ = strings.Cut(declaration, "[")
	words := strings.Fields(strings.TrimSuffix(declaration, ";"))
	return words[len(words)-1]
}
