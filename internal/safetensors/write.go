package safetensors

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"unicode/utf8"

	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/tensor"
)

// Named is a tensor under its name.
type Named struct {
	Name   string
	Tensor *tensor.Tensor
}

// Item is a tensor to write.
type Item struct {
	Name  string
	DType tensor.DType
	Shape []int
	// Open is the tensor, and what gives it back. It is called for every time that the elements are written.
	Open func() (t *tensor.Tensor, done func(), err error)
}

// ItemOf is a tensor that there is.
func ItemOf(name string, t *tensor.Tensor) Item {
	return Item{name, t.DType(), t.Shape(), func() (*tensor.Tensor, func(), error) { return t, func() {}, nil }}
}

func itemsOf(tensors []Named) []Item {
	items := make([]Item, len(tensors))
	for i, n := range tensors {
		items[i] = ItemOf(n.Name, n.Tensor)
	}
	return items
}

// Write is WriteItems of tensors that there are.
func Write(ctx context.Context, w io.Writer, tensors []Named, metadata map[string]string) error {
	return WriteItems(ctx, w, itemsOf(tensors), metadata)
}

// WriteItems writes tensors, in the given order, and metadata. It copies one piece of a tensor at a time to the host, each twice: once for the
// checksum, which comes before the data. If ctx is done it ends with its error, with w partly written.
func WriteItems(ctx context.Context, w io.Writer, tensors []Item, metadata map[string]string) error {
	header, at, err := headerOf(tensors, metadata)
	if err != nil {
		return err
	}
	want, err := body(ctx, io.Discard, header, tensors)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 1<<20)
	if err := writeAll(out, header[:at], []byte(digits(want)), header[at+len(noSum):]); err != nil {
		return err
	}
	got, err := body(ctx, out, header, tensors)
	if err == nil && got != want {
		err = errors.New("a tensor was changed while it was written")
	}
	if err != nil {
		return err
	}
	return out.Flush()
}

// File is a new file.
type File interface {
	io.Writer
	io.WriterAt
}

// WriteFile is Write to a file that is empty. It copies each tensor once, and puts the checksum in at the end.
func WriteFile(ctx context.Context, f File, tensors []Named, metadata map[string]string) error {
	return WriteItemsFile(ctx, f, itemsOf(tensors), metadata)
}

// WriteItemsFile is WriteFile of items.
func WriteItemsFile(ctx context.Context, f File, tensors []Item, metadata map[string]string) error {
	header, at, err := headerOf(tensors, metadata)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(f, 1<<20)
	if _, err := out.Write(header); err != nil {
		return err
	}
	sum, err := body(ctx, out, header, tensors)
	if err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(digits(sum)), int64(at))
	return err
}

func writeAll(w io.Writer, parts ...[]byte) error {
	for _, b := range parts {
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// body writes the data, and returns the checksum of the file.
func body(ctx context.Context, w io.Writer, header []byte, tensors []Item) (uint32, error) {
	sum := crc32.Update(0, castagnoli, header)
	both := io.MultiWriter((*summing)(&sum), w)
	for _, n := range tensors {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if err := n.write(ctx, both); err != nil {
			return 0, fmt.Errorf("tensor %q: %w", excerpt.Of(n.Name), err)
		}
	}
	return sum, nil
}

// write writes the elements.
func (n *Item) write(ctx context.Context, w io.Writer) error {
	t, done, err := n.Open()
	if err != nil {
		return err
	}
	defer done()
	if t.DType() != n.DType || !t.Shape().Equal(n.Shape) {
		return &Error{Detail: "what was made", Wanted: fmt.Sprintf("%v%v", n.DType, n.Shape), Found: fmt.Sprintf("%v%v", t.DType(), t.Shape())}
	}
	c := codecs[n.DType]
	return Pieces(t, n.DType.Size(), func(piece *tensor.Tensor, _ int) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		data, err := c.download(piece)
		if err != nil {
			return err
		}
		return c.write(w, data)
	})
}

// headerOf is the length and the header, with zeros at the place of the checksum, and that place.
func headerOf(tensors []Item, metadata map[string]string) (header []byte, at int, err error) {
	fields := make(map[string]any, len(tensors)+1)
	end := int64(0)
	for _, n := range tensors {
		if err := nameable(n.Name, fields); err != nil {
			return nil, 0, err
		}
		begin := end
		size, ok := sizeOf(n.Shape, 8*int64(n.DType.Size()))
		if !ok {
			return nil, 0, &Error{Tensor: n.Name, Detail: fmt.Sprintf("there is no such tensor: %v%v", n.DType, n.Shape)}
		}
		end += size
		fields[n.Name] = described{formatNames[n.DType], append([]int{}, n.Shape...), [2]int64{begin, end}}
	}
	all := maps.Clone(metadata)
	if all == nil {
		all = map[string]string{}
	}
	all[kindKey], all[sumKey] = kind, noSum
	fields[metadataKey] = all
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, 0, err
	}
	for len(text)%8 != 0 { // blanks, as the format asks
		text = append(text, ' ')
	}
	if len(text) > maxHeader {
		return nil, 0, &Error{Detail: "the length of the header", Wanted: fmt.Sprintf("at most %d", maxHeader), Found: fmt.Sprint(len(text))}
	}
	header = append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	if at = place(header, noSum); at < 0 {
		return nil, 0, errors.New("a name among the metadata is that of the checksum")
	}
	return header, at, nil
}

// nameable refuses names that could not be read again.
func nameable(name string, taken map[string]any) error {
	switch _, twice := taken[name]; {
	case twice:
		return &Error{Tensor: name, Detail: "two are called so"}
	case name == metadataKey:
		return &Error{Tensor: name, Detail: "the format has this name for metadata"}
	case !utf8.ValidString(name):
		return &Error{Tensor: name, Detail: "the name is not UTF-8"}
	}
	return nil
}
