package checkpoint

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cistern-ml/cistern/internal/atomicfile"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/internal/safetensors"
	"github.com/cistern-ml/cistern/tensor"
)

// What the metadata of a checkpoint says. The JSON of a section is under sectionKey and its name, its kind
// under kindKey.
const (
	versionKey = "version"
	version    = "2"
	unsummed   = "1" // files of this version have no checksum
	sectionKey = "section."
	kindKey    = "kind."
)

// Checkpoint lists the sections of a training state. It is for one goroutine at a time.
type Checkpoint struct {
	names    []string
	sections map[string]Section
	err      error
	sys      atomicfile.FS // nil for the operating system's
}

// New makes a Checkpoint without sections.
func New() *Checkpoint { return &Checkpoint{} }

// Add adds a section under a name that has no dot, and returns the Checkpoint. Sections are loaded in the order in which they were
// added. A wrong name is the error of all methods.
func (c *Checkpoint) Add(name string, s Section) *Checkpoint {
	if c == nil {
		c = &Checkpoint{err: &ArgumentError{"Add", nilCheckpoint}}
	}
	switch {
	case name == "" || strings.Contains(name, ".") || !utf8.ValidString(name):
		c.fail(&MismatchError{Section: excerpt.Quote(name), Detail: "the name of a section is UTF-8, not empty, and has no dot"})
	case c.sections[name] != nil:
		c.fail(&MismatchError{Section: name, Detail: "two sections are called so"})
	case isnil.Value(s):
		c.fail(&MismatchError{Section: name, Detail: isnil.Why("section", s)})
	}
	if c.sections == nil {
		c.sections = map[string]Section{}
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

const nilCheckpoint = "the checkpoint is nil: make one with New"

// ready is what is wrong before a call has done anything.
func (c *Checkpoint) ready(ctx context.Context, call string) error {
	if c == nil {
		return &ArgumentError{call, nilCheckpoint}
	}
	if why := isnil.Why("context", ctx); c.err == nil && why != "" {
		return &ArgumentError{call, why + ": give context.Background()"}
	}
	return c.err
}

// Write writes all sections to w. It waits for the device, and copies one tensor at a time to the host, each twice: the file begins
// with a checksum. If ctx is done it ends with its error, with w partly written.
func (c *Checkpoint) Write(ctx context.Context, w io.Writer) error {
	if err := c.ready(ctx, "Write"); err != nil {
		return err
	}
	if why := isnil.Why("writer", w); why != "" {
		return &ArgumentError{"Write", why}
	}
	return c.write("", func(tensors []safetensors.Named, metadata map[string]string) error {
		return safetensors.Write(ctx, w, tensors, metadata)
	})
}

// write collects what the sections have, and hands it over. file is for errors.
func (c *Checkpoint) write(file string, to func(tensors []safetensors.Named, metadata map[string]string) error) error {
	var tensors []safetensors.Named
	metadata := map[string]string{safetensors.FormatKey: safetensors.Checkpoint, versionKey: version}
	for _, name := range c.names {
		content, err := c.sections[name].Save()
		if err != nil {
			return located(file, name, err)
		}
		for _, n := range slices.Sorted(maps.Keys(content.Tensors)) {
			if content.Tensors[n].Released() {
				return located(file, name, &tensor.ReleasedError{Op: "Save of " + n})
			}
			tensors = append(tensors, safetensors.Named{Name: name + "." + n, Tensor: content.Tensors[n]})
		}
		if content.JSON == nil {
			content.JSON = json.RawMessage("null")
		}
		if !utf8.Valid(content.JSON) {
			return located(file, name, malformed("its JSON is not UTF-8"))
		}
		if !utf8.ValidString(content.Kind) {
			return located(file, name, malformed("its kind is not UTF-8"))
		}
		if content.Kind != "" {
			metadata[kindKey+name] = content.Kind
		}
		metadata[sectionKey+name] = string(content.JSON)
	}
	return located(file, "", to(tensors, metadata))
}

// Read reads what Write wrote and sets all sections, or none: the file is read whole, to host memory, and checked, and each section
// checks what it was given and takes the memory that it needs (Section.Prepare), before anything changes. If a device fails after that, what
// was changed is put back.
//
// A *FormatError is a file that is none of this package's, or was cut short or damaged; a *MismatchError one of another program; a
// *SectionError what an object does not take. They name the file if r has a Name, as files have. If ctx is done before anything has
// changed it is its error.
func (c *Checkpoint) Read(ctx context.Context, r io.Reader) (err error) {
	if err := c.ready(ctx, "Read"); err != nil {
		return err
	}
	if why := isnil.Why("reader", r); why != "" {
		return &ArgumentError{"Read", why}
	}
	home, end, err := safetensors.Home()
	if err != nil {
		return located("", "", err)
	}
	l := &loading{c: c, home: home}
	if f, ok := r.(interface{ Name() string }); ok {
		l.file = f.Name()
	}
	defer func() {
		l.release()
		if failed := end(); err == nil {
			err = located(l.file, "", failed)
		}
	}()
	if err := l.read(ctx, r); err != nil {
		return err
	}
	if err := l.prepare(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return located(l.file, "", err)
	}
	return l.apply()
}

// WriteFile writes all sections to a file. What was there is replaced when the new content is on the disk, by renaming: a program or a
// machine that stops on the way leaves the old file as it was. The folder must be writable, and has two files meanwhile; the second
// one, "NAME.cistern-0123456789abcdef.tmp", stays behind where a process is killed, and goes with the next WriteFile to NAME (not on
// Windows, nor on file systems without locks). Several processes may write at the same time: the file is that of the last one, whole.
//
// A new file has the permissions that the process gives new files, one that is replaced keeps its own, and a symbolic link stays: its target
// is replaced. An error of the file system is a *FileError.
func (c *Checkpoint) WriteFile(ctx context.Context, path string) error {
	if err := c.ready(ctx, "WriteFile"); err != nil {
		return err
	}
	sys := c.sys
	if sys == nil {
		sys = atomicfile.OS{}
	}
	err := atomicfile.Write(sys, path, func(f atomicfile.File) error {
		return c.write(path, func(tensors []safetensors.Named, metadata map[string]string) error {
			return safetensors.WriteFile(ctx, f, tensors, metadata)
		})
	})
	return filed(path, err)
}

// ReadFile is Read from a file. Reading one that makes its reader wait, such as a named pipe, ends when ctx is done; a pipe that nobody
// has opened to write may keep a goroutine until somebody does.
func (c *Checkpoint) ReadFile(ctx context.Context, path string) error {
	if err := c.ready(ctx, "ReadFile"); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return c.readStream(ctx, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return &FileError{path, "open", path, err}
	}
	defer f.Close()
	return c.Read(ctx, f)
}
