package safetensors

import (
	"context"
	"errors"
	"io"
	"maps"
	"unicode/utf8"

	"github.com/cistern-ml/cistern/internal/atomicfile"
	"github.com/cistern-ml/cistern/internal/isnil"
	format "github.com/cistern-ml/cistern/internal/safetensors"
	"github.com/cistern-ml/cistern/tensor"
)

// Entry is a tensor to write.
type Entry struct {
	Name string
	// Tensor is on any device, and stays the caller's.
	Tensor *tensor.Tensor
	// Make is for a tensor that shall not be there before its turn: where Tensor is nil, it makes one, of the type and shape that are given here,
	// which is released as soon as it is written. So a model is converted that does not fit into memory.
	Make  func() (*tensor.Tensor, error)
	DType tensor.DType
	Shape tensor.Shape
}

// Write writes tensors in their order, and metadata, which may be nil. At most 16 MiB of a tensor are in host memory at a time; each is
// copied there twice, and made twice if it has a Make, since the file begins with a checksum of all of it: WriteFile does so once. If ctx
// is done it ends with its error, and with w partly written, as with any error.
//
// The metadata say "format": "pt" unless they name a format themselves, since Hugging Face's programs refuse files that name none.
func Write(ctx context.Context, w io.Writer, tensors []Entry, metadata map[string]string) error {
	if why := isnil.Why("writer", w); why != "" {
		return argumentErr("Write", "%s", why)
	}
	items, err := itemsOf("Write", ctx, tensors, metadata)
	if err != nil {
		return err
	}
	return written(ctx, "", format.WriteItems(ctx, w, items, withFormat(metadata)))
}

// WriteFile writes a file as Write does, and each tensor once. A file that was there is replaced when the new one is whole, and else left.
func WriteFile(ctx context.Context, path string, tensors []Entry, metadata map[string]string) error {
	items, err := itemsOf("WriteFile", ctx, tensors, metadata)
	if err != nil {
		return err
	}
	return writeFile(ctx, path, items, withFormat(metadata))
}

func writeFile(ctx context.Context, path string, items []format.Item, metadata map[string]string) error {
	return written(ctx, path, atomicfile.Write(atomicfile.OS{}, path, func(f atomicfile.File) error {
		return format.WriteItemsFile(ctx, f, items, metadata)
	}))
}

// written is the error of writing.
func written(ctx context.Context, path string, err error) error {
	var unfit *format.Error
	var step *atomicfile.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &unfit):
		return &FormatError{path, unfit.Tensor, unfit.Detail, unfit.Wanted, unfit.Found}
	case errors.As(err, &step):
		return &FileError{step.Op, step.Path, step.Err}
	}
	return &FileError{"write", path, err}
}

func withFormat(metadata map[string]string) map[string]string {
	all := maps.Clone(metadata)
	if all == nil {
		all = map[string]string{}
	}
	if _, named := all[format.FormatKey]; !named {
		all[format.FormatKey] = "pt"
	}
	return all
}

// itemsOf refuses what cannot be written.
func itemsOf(call string, ctx context.Context, tensors []Entry, metadata map[string]string) ([]format.Item, error) {
	if why := isnil.Why("context", ctx); why != "" {
		return nil, argumentErr(call, "%s: give context.Background()", why)
	}
	for key, text := range metadata {
		if !utf8.ValidString(key) || !utf8.ValidString(text) {
			return nil, argumentErr(call, "the metadata %q are not UTF-8", key)
		}
	}
	items := make([]format.Item, len(tensors))
	names := make(map[string]bool, len(tensors))
	for i, t := range tensors {
		if names[t.Name] {
			return nil, &NameError{Name: t.Name, Detail: "two are called so"}
		}
		names[t.Name] = true
		switch {
		case t.Tensor != nil && !t.Tensor.Released():
			items[i] = format.ItemOf(t.Name, t.Tensor)
		case t.Tensor != nil || t.Make == nil:
			return nil, &NameError{Name: t.Name, Detail: "there is no tensor to write: it is nil or was released"}
		default:
			items[i] = format.Item{Name: t.Name, DType: t.DType, Shape: t.Shape, Open: t.open}
		}
	}
	return items, nil
}

// open makes the tensor.
func (t *Entry) open() (*tensor.Tensor, func(), error) {
	made, err := t.Make()
	if err == nil && made.Released() {
		err = &tensor.ReleasedError{Op: "Make", Nil: made == nil}
	}
	if err != nil {
		made.Release()
		return nil, nil, err
	}
	return made, made.Release, nil
}
