package nn

import (
	"context"
	"fmt"

	"github.com/cistern-ml/cistern/internal/excerpt"
	format "github.com/cistern-ml/cistern/internal/safetensors"
	"github.com/cistern-ml/cistern/tensor/safetensors"
)

// LoadFile is Load of a file that is open, or of a model in shards: it reads each tensor that the model has, and no others, one at a time,
// to the parameter's device. Options, and what they make an error, are those of Load. A file with a checksum is verified before anything
// changes, unless it was opened with safetensors.Unverified; its errors are those of package tensor/safetensors.
//
//	f, err := safetensors.Open("gpt2") // a folder
//	if err != nil { ... }
//	defer f.Close()
//	err = nn.LoadFile(f, model)
func LoadFile(f *safetensors.File, m Module, opts ...LoadOption) error {
	const call = "LoadFile"
	if f == nil {
		return argumentErr(call, "the file is nil")
	}
	l, end, err := newLoad(call, f.Name(), m, opts)
	if err != nil {
		return err
	}
	return l.end(l.fromFile(f), end)
}

// fromFile loads from an open file.
func (l *load) fromFile(f *safetensors.File) error {
	infos := f.Tensors()
	entries := make([]format.Entry, len(infos))
	for i, t := range infos {
		entries[i] = format.Entry{Name: t.Name, DType: t.DType, Shape: t.Shape, Type: t.Type}
	}
	pairs, err := l.match(entries, f.Metadata()[format.FormatKey] == format.Checkpoint)
	if err != nil {
		return err
	}
	if !f.Unverified() {
		if err := f.Verify(context.Background()); err != nil {
			return l.located(err)
		}
	}
	var begun []paired
	for i, p := range pairs {
		if p.Parameter == nil {
			continue
		}
		begun = append(begun, p)
		if err := l.read(f, infos[i].Name, p.place); err != nil {
			return l.undo(begun, fmt.Errorf("%s: %w", excerpt.Of(p.Name), err))
		}
	}
	return nil
}

// read puts a tensor of the file where it goes.
func (l *load) read(f *safetensors.File, name string, to format.Place) error {
	switch {
	case to.Transposed: // in host memory
		from, err := f.Read(l.home, name)
		if err != nil {
			return err
		}
		defer from.Release()
		return to.Put(name, from)
	case to.Tensor != nil:
		return f.ReadInto(to.Tensor, name)
	}
	t, err := f.Read(to.Exec, name, safetensors.As(to.DType))
	if err != nil {
		return err
	}
	if err := to.Give(t); err != nil {
		t.Release()
		return err
	}
	return nil
}
