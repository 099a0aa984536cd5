package safetensors

import (
	"bufio"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/tensor"
)

// Reader reads a file: its header, then its tensors one after the other.
type Reader struct {
	*Header
	in   io.Reader // adds what is read to sum
	sum  uint32
	next int // entry
}

// NewReader reads the header. A file that is not sound is an *Error here and in all methods.
func NewReader(r io.Reader) (*Reader, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	h, err := ReadHeader(in)
	if err != nil {
		return nil, err
	}
	f := &Reader{Header: h, sum: crc32.Update(0, castagnoli, h.raw)}
	f.in = io.TeeReader(in, (*summing)(&f.sum))
	return f, nil
}

// summing adds what is written to it to a checksum.
type summing uint32

func (s *summing) Write(b []byte) (int, error) {
	*s = summing(crc32.Update(uint32(*s), castagnoli, b))
	return len(b), nil
}

// Next reads the next tensor to host memory.
func (f *Reader) Next() (*Values, error) {
	if f.next == len(f.Entries) {
		return nil, io.EOF
	}
	e := f.Entries[f.next]
	if err := e.Unreadable(); err != nil {
		return nil, err
	}
	data, got, err := codecs[e.DType].read(f.in, e.Len(), 0)
	if err != nil {
		return nil, f.short(e, got, err)
	}
	f.next++
	return &Values{e, data}, nil
}

// Skip reads the rest of the tensors and keeps none.
func (f *Reader) Skip() error {
	for f.next < len(f.Entries) {
		if err := f.SkipOne(); err != nil {
			return err
		}
	}
	return nil
}

// SkipOne reads the next tensor and does not keep it.
func (f *Reader) SkipOne() error {
	if f.next == len(f.Entries) {
		return io.EOF
	}
	e := f.Entries[f.next]
	if got, err := io.CopyN(io.Discard, f.in, e.Bytes); err != nil {
		return f.short(e, int(got/max(e.Bytes/int64(max(e.Len(), 1)), 1)), err)
	}
	f.next++
	return nil
}

func (f *Reader) short(e Entry, got int, err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("reading tensor %q: %w", excerpt.Of(e.Name), err)
	}
	return &Error{Tensor: e.Name, Detail: "the file ends within it", Wanted: fmt.Sprintf("%d elements", e.Len()), Found: fmt.Sprint(got)}
}

// Finish checks, after the last tensor, that nothing follows and that the checksum, if there is one, is that of what was read.
func (f *Reader) Finish() error {
	found := digits(f.sum)
	switch n, err := io.ReadFull(f.in, make([]byte, 1)); {
	case n > 0:
		return unsound("there is more after the last tensor")
	case err != nil && err != io.EOF:
		return fmt.Errorf("reading the end: %w", err)
	case f.HasChecksum() && found != f.Header.sum:
		return &Error{Detail: "the checksum: the file is damaged", Wanted: f.Header.sum, Found: found}
	}
	return nil
}

// Values are the elements of a tensor in host memory.
type Values struct {
	Entry
	data any // a slice of the type's Go type
}

// ReadPart reads n elements of a tensor, from the element first on, of a file that has them: nothing that a header claims is trusted by
// those who call it. start is where the file's data begins.
func (e *Entry) ReadPart(r io.ReaderAt, start int64, first, n int) (*Values, error) {
	if err := e.Unreadable(); err != nil {
		return nil, err
	}
	size := int64(e.DType.Size())
	section := io.NewSectionReader(r, start+e.Begin+int64(first)*size, int64(n)*size)
	data, got, err := codecs[e.DType].read(section, n, n)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, &Error{Tensor: e.Name, Detail: "the file ends within it", Wanted: fmt.Sprintf("%d elements", n), Found: fmt.Sprint(got)}
	}
	if err != nil {
		return nil, fmt.Errorf("reading tensor %s: %w", excerpt.Quote(e.Name), err)
	}
	return &Values{Entry{Name: e.Name, DType: e.DType, Shape: []int{n}}, data}, nil
}

// Tensor makes a tensor of the values.
func (v *Values) Tensor(e tensor.Exec) (*tensor.Tensor, error) {
	return codecs[v.DType].make(e, v.data, v.Shape)
}

// set sets a tensor of the same shape and type to the values.
func (v *Values) set(t *tensor.Tensor) error { return codecs[v.DType].upload(t, v.data) }

// Of reads the values of a tensor, which it waits for.
func Of(name string, t *tensor.Tensor) (*Values, error) {
	data, err := codecs[t.DType()].download(t)
	return &Values{Entry{Name: name, DType: t.DType(), Shape: t.Shape()}, data}, err
}
