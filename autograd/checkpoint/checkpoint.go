package checkpoint

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// What the metadata of a checkpoint says. The JSON of a section is under sectionKey and its name.
const (
	formatKey  = "format"
	format     = "cistern-checkpoint"
	versionKey = "version"
	version    = "1"
	sectionKey = "section."
)

// Checkpoint lists the sections of a training state. It is for one goroutine at a time.
type Checkpoint struct {
	names    []string
	sections map[string]Section
	err      error
}

// New makes a Checkpoint without sections.
func New() *Checkpoint { return &Checkpoint{sections: map[string]Section{}} }

// Add adds a section under a name that has no dot, and returns the Checkpoint. Sections are loaded in the order in which they were
// added. A wrong name is the error of all methods.
func (c *Checkpoint) Add(name string, s Section) *Checkpoint {
	switch {
	case name == "" || strings.Contains(name, "."):
		c.fail(fmt.Errorf("checkpoint: a section called %q; a name has no dot", name))
	case c.sections[name] != nil:
		c.fail(fmt.Errorf("checkpoint: two sections called %q", name))
	}
	c.names = append(c.names, name)
	c.sections[name] = s
	return c
}

func (c *Checkpoint) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// Write writes all sections to w. It waits for the device, and copies one tensor at a time to the host. If ctx is done it ends
// with its error, with w partly written.
func (c *Checkpoint) Write(ctx context.Context, w io.Writer) error {
	if c.err != nil {
		return c.err
	}
	if w == nil {
		return malformed("the writer is nil")
	}
	tensors := map[string]*tensor.Tensor{}
	metadata := map[string]string{formatKey: format, versionKey: version}
	for _, name := range c.names {
		content, err := c.sections[name].Save()
		if err != nil {
			return fmt.Errorf("checkpoint: %s: %w", name, err)
		}
		for n, t := range content.Tensors {
			tensors[name+"."+n] = t
		}
		if content.JSON == nil {
			content.JSON = json.RawMessage("null")
		}
		metadata[sectionKey+name] = string(content.JSON)
	}
	out := bufio.NewWriterSize(w, 1<<20)
	err := writeFile(ctx, out, tensors, metadata)
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// Read reads what Write wrote and sets all sections. The file is read whole, to host memory, and checked against what it is
// loaded into, before anything changes: a *FormatError is a file that is none of this package's, or not whole; a *MismatchError
// one of another program. If a section fails after that, those before it have been set.
func (c *Checkpoint) Read(ctx context.Context, r io.Reader) error {
	if c.err != nil {
		return c.err
	}
	if r == nil {
		return malformed("the reader is nil")
	}
	e, err := tensor.On(host.Default())
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	tensors, metadata, err := readFile(ctx, bufio.NewReaderSize(r, 1<<20), e)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	defer release(tensors)
	contents, err := c.split(tensors, metadata)
	if err != nil {
		return err
	}
	setters := make([]func() error, len(c.names))
	for i, name := range c.names {
		if setters[i], err = c.sections[name].Prepare(contents[name]); err != nil {
			var wrong *MismatchError
			if errors.As(err, &wrong) {
				return &MismatchError{Section: name, Detail: wrong.Detail}
			}
			return fmt.Errorf("checkpoint: %s: %w", name, err)
		}
	}
	for i, set := range setters {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
		if err := set(); err != nil {
			return fmt.Errorf("checkpoint: %s: %w", c.names[i], err)
		}
	}
	return nil
}

// split gives each section what is its own, and refuses files whose sections are others.
func (c *Checkpoint) split(tensors map[string]*tensor.Tensor, metadata map[string]string) (map[string]Content, error) {
	if metadata[formatKey] != format {
		return nil, malformed("its metadata name the format %q, not %q", metadata[formatKey], format)
	}
	if metadata[versionKey] != version {
		return nil, malformed("it is of version %q; this package reads %q", metadata[versionKey], version)
	}
	contents := map[string]Content{}
	for key, text := range metadata {
		if name, ok := strings.CutPrefix(key, sectionKey); ok {
			contents[name] = Content{JSON: json.RawMessage(text), Tensors: map[string]*tensor.Tensor{}}
		}
	}
	for full, t := range tensors {
		section, name, _ := strings.Cut(full, ".")
		content, ok := contents[section]
		if !ok {
			return nil, malformed("%s is of no section", full)
		}
		content.Tensors[name] = t
	}
	for _, name := range c.names {
		if _, ok := contents[name]; !ok {
			return nil, &MismatchError{name, "the file has no such section"}
		}
	}
	for name := range contents {
		if c.sections[name] == nil {
			return nil, &MismatchError{name, "the file has this section, the program has not"}
		}
	}
	return contents, nil
}

// WriteFile writes all sections to a file. What was there is replaced when the new content is on the disk, by renaming: a program
// or a machine that stops on the way leaves the old file as it was. The directory must be writable.
func (c *Checkpoint) WriteFile(ctx context.Context, path string) (err error) {
	if c.err != nil {
		return c.err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err := c.Write(ctx, f); err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return f.Chmod(0o644) }, f.Sync, f.Close,
		func() error { return os.Rename(f.Name(), path) },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
	}
	return nil
}

// ReadFile is Read from a file.
func (c *Checkpoint) ReadFile(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	defer f.Close()
	return c.Read(ctx, f)
}
