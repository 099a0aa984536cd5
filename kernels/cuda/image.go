package cuda

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"sync"
	"weak"
)

// A driver compiles all of a PTX text when it is loaded, which takes seconds for some of the modules here, and programs use a few
// kernels of each. So what is loaded is one kernel: an image cuts its module's text.

// image is the text of a module.
type image struct {
	head      string            // version, target, size of addresses
	variables []string          // declarations outside of kernels, a line each
	entries   map[string]string // kernels, by name
}

const (
	entryStart = ".visible .entry "
	entryEnd   = "\n}\n"
)

// read cuts the text of a module, as gen writes it.
func read(text string) (*image, error) {
	im := &image{entries: map[string]string{}}
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
func (im *image) outside(text string, top bool) {
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

// kernel is the PTX of one kernel, with the variables that it names.
func (im *image) kernel(name string) ([]byte, error) {
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

// cut are the images in use. They are large, are wanted when kernels are loaded, and go when the collector wants their memory.
var (
	cutMu sync.Mutex
	cut   = map[string]weak.Pointer[image]{}
)

// imageOf is a module's image.
func imageOf(module string) (*image, error) {
	cutMu.Lock()
	defer cutMu.Unlock()
	if im := cut[module].Value(); im != nil {
		return im, nil
	}
	text, err := textOf(module)
	if err != nil {
		return nil, err
	}
	im, err := read(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", module, err)
	}
	cut[module] = weak.Make(im)
	return im, nil
}

// textOf is the PTX of a module.
func textOf(module string) ([]byte, error) {
	packed, err := images.ReadFile(fmt.Sprintf("ptx/%s.ptx.gz", module))
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
