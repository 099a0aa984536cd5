package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/safetensors"
	"github.com/cistern-ml/cistern/tensor"
)

// loading is one call of Read.
type loading struct {
	c        *Checkpoint
	file     string      // for errors
	home     tensor.Exec // host memory for what is read
	contents map[string]Content
	changes  []Change // those that are prepared, in the order of the sections
}

// read reads the whole file and gives each section what is its own.
func (l *loading) read(ctx context.Context, r io.Reader) error {
	f, err := safetensors.NewReader(r)
	if err != nil {
		return located(l.file, "", err)
	}
	if err := l.split(f); err != nil {
		return located(l.file, "", err)
	}
	for range f.Entries {
		if err := ctx.Err(); err != nil {
			return located(l.file, "", err)
		}
		values, err := f.Next()
		if err != nil {
			return located(l.file, "", err)
		}
		section, name, _ := strings.Cut(values.Name, ".")
		t, err := values.Tensor(l.home)
		if err != nil {
			return located(l.file, section, fmt.Errorf("%s: %w", excerpt.Of(name), err))
		}
		content := l.contents[section]
		content.Tensors[name], content.order = t, append(content.order, name)
		l.contents[section] = content
	}
	if err := f.Finish(); err != nil {
		return located(l.file, "", err)
	}
	return l.known()
}

// split makes an empty Content for each section that the file has.
func (l *loading) split(f *safetensors.Reader) error {
	if !f.IsCheckpoint() {
		return &FormatError{Detail: "the format that its metadata name (a model alone, as nn.Save writes it, is loaded by nn.Load)",
			Wanted: safetensors.Checkpoint, Found: excerpt.Quote(f.Metadata[safetensors.FormatKey])}
	}
	switch got := f.Metadata[versionKey]; {
	case got != version && got != unsummed:
		return &FormatError{Detail: "its version", Wanted: version, Found: excerpt.Quote(got)}
	case got == version && !f.HasChecksum():
		return malformed("it has no checksum")
	}
	l.contents = map[string]Content{}
	for key, text := range f.Metadata {
		if name, ok := strings.CutPrefix(key, sectionKey); ok {
			l.contents[name] = Content{JSON: json.RawMessage(text), Kind: f.Metadata[kindKey+name], Tensors: map[string]*tensor.Tensor{}}
		}
	}
	for _, e := range f.Entries {
		section, _, _ := strings.Cut(e.Name, ".")
		if _, ok := l.contents[section]; !ok {
			return &FormatError{Tensor: e.Name, Detail: "it is of no section"}
		}
	}
	return nil
}

// known refuses files whose sections are others.
func (l *loading) known() error {
	for _, name := range l.c.names {
		if _, ok := l.contents[name]; !ok {
			return &MismatchError{File: l.file, Section: name, Detail: "the file has no such section"}
		}
	}
	for name := range l.contents {
		if l.c.sections[name] == nil {
			return &MismatchError{File: l.file, Section: name, Detail: "the file has this section, the program has not"}
		}
	}
	return nil
}

func (l *loading) prepare() error {
	for _, name := range l.c.names {
		change, err := l.c.sections[name].Prepare(l.contents[name])
		if err != nil {
			return located(l.file, name, err)
		}
		l.changes = append(l.changes, change)
	}
	return nil
}

// apply makes all changes, or none.
func (l *loading) apply() error {
	under := -1 // the change that is being made
	defer func() {
		_ = l.undo(under) // after a panic
	}()
	for i, change := range l.changes {
		if change.Apply == nil {
			continue
		}
		under = i
		err := change.Apply()
		under = -1
		if err != nil {
			err = located(l.file, l.c.names[i], err)
			if undone := l.undo(i); undone != nil {
				return &PartialError{l.file, errors.Join(err, undone)}
			}
			return err
		}
	}
	return nil
}

// undo takes back the changes up to the one that failed, the last one first, also if one of them panics.
func (l *loading) undo(failed int) (err error) {
	if failed < 0 {
		return nil
	}
	defer func() { err = errors.Join(err, l.undo(failed-1)) }()
	if undo := l.changes[failed].Undo; undo != nil {
		return located(l.file, l.c.names[failed], undo())
	}
	return nil
}

// release gives everything back: changes in the order of the sections, then what was read, whatever panics.
func (l *loading) release() {
	for _, content := range l.contents {
		for _, t := range content.Tensors {
			defer t.Release()
		}
	}
	for _, change := range slices.Backward(l.changes) {
		if change.Close != nil {
			defer change.Close()
		}
	}
}
