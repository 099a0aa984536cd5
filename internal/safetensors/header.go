package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/tensor"
)

const (
	metadataKey = "__metadata__"
	maxHeader   = 100 << 20 // bytes; the format's limit
)

// Checkpoint is what the metadata of a checkpoint have under FormatKey.
const (
	FormatKey  = "format"
	Checkpoint = "cistern-checkpoint"
)

// Entry is what a header says of a tensor.
type Entry struct {
	Name  string
	DType tensor.DType // 0 for a type that the tensor package has not
	Shape []int
	Type  string // as the format calls it
	Begin int64  // where its data begins, counted from the end of the header
	Bytes int64  // of its data
}

// Len is the number of elements.
func (e *Entry) Len() int { return tensor.Shape(e.Shape).Len() }

// Unreadable is the error of reading a tensor whose type the tensor package has not, nil for all others.
func (e *Entry) Unreadable() error {
	if e.DType != 0 {
		return nil
	}
	return &Error{Tensor: e.Name, Detail: fmt.Sprintf("a type that there is not here: %q", excerpt.Of(e.Type))}
}

// Header is what a file says of itself before its data.
type Header struct {
	Entries  []Entry           // in the order of the data
	Metadata map[string]string // without the checksum
	Size     int64             // bytes of data

	raw []byte // length and JSON, with zeros for the checksum
	sum string // the checksum; empty for a file without one
}

// HasChecksum reports whether the file has a checksum.
func (h *Header) HasChecksum() bool { return h.sum != "" }

// Checksum is the checksum in hexadecimal digits, empty for a file without one.
func (h *Header) Checksum() string { return h.sum }

// IsCheckpoint reports whether the file is one of package autograd/checkpoint.
func (h *Header) IsCheckpoint() bool { return h.Metadata[FormatKey] == Checkpoint }

// Len is the bytes of the whole file.
func (h *Header) Len() int64 { return h.Start() + h.Size }

// Start is where the data begins.
func (h *Header) Start() int64 { return int64(len(h.raw)) }

// Same reports whether two headers are the same bytes.
func (h *Header) Same(o *Header) bool { return h.sum == o.sum && bytes.Equal(h.raw, o.raw) }

// described is an entry as JSON has it. Offsets count from the end of the header.
type described struct {
	DType   string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// describedBy reads an entry. Errors are in the words of the format.
func describedBy(name string, message json.RawMessage) (d described, err error) {
	fields, err := object(message)
	if err != nil {
		return d, &Error{Tensor: name, Detail: err.Error()}
	}
	var offsets []int64
	for _, f := range []struct {
		name, wanted string
		to           any
	}{
		{"dtype", "a text", &d.DType},
		{"shape", fmt.Sprintf("a list of sizes from 0 to %d", math.MaxInt), &d.Shape},
		{"data_offsets", offsetsWanted, &offsets},
	} {
		m := fields[f.name]
		null := bytes.HasSuffix(m, []byte("null")) || m != nil && m[0] == '[' && bytes.Contains(m, []byte("null")) // would be 0
		if m == nil || null || json.Unmarshal(m, f.to) != nil {
			return d, &Error{Tensor: name, Detail: f.name, Wanted: f.wanted, Found: cmp.Or(string(m), "nothing")}
		}
	}
	if len(offsets) != len(d.Offsets) {
		return d, &Error{Tensor: name, Detail: "data_offsets", Wanted: offsetsWanted, Found: string(fields["data_offsets"])}
	}
	d.Offsets = [2]int64(offsets)
	return d, nil
}

var offsetsWanted = fmt.Sprintf("two numbers of bytes from 0 to %d", int64(math.MaxInt64))

// ReadHeader reads the header and checks that the tensors lie one after the other, without gaps, each as long as its shape and type
// say. It takes memory for what is there, whatever the length says.
func ReadHeader(r io.Reader) (*Header, error) {
	raw := make([]byte, 8)
	if n, err := io.ReadFull(r, raw); err != nil {
		return nil, ended(err, "the length of the header", n, 8)
	}
	if bytes.HasPrefix(raw, []byte("PK\x03\x04")) { // as a length it would be more than a file has
		return nil, unsound("it is a zip archive, as torch.save writes: write it with safetensors.torch.save_file in Python")
	}
	size := binary.LittleEndian.Uint64(raw)
	if size > maxHeader {
		return nil, &Error{Detail: "the length of the header", Wanted: fmt.Sprintf("at most %d", maxHeader), Found: fmt.Sprint(size)}
	}
	text, err := io.ReadAll(io.LimitReader(r, int64(size)))
	if err != nil || uint64(len(text)) < size {
		return nil, ended(err, "the header", len(text), int(size))
	}
	h := &Header{raw: append(raw, text...)}
	fields, err := object(text)
	if err != nil {
		return nil, unsound("the header: %v", err)
	}
	if h.Metadata, err = texts(fields[metadataKey]); err != nil {
		return nil, unsound("the metadata: %v", err)
	}
	delete(fields, metadataKey)
	if err := h.describe(fields); err != nil {
		return nil, err
	}
	return h, h.takeChecksum()
}

// ended is the error of a file that ends early, or of a reader that fails.
func ended(err error, what string, got, want int) error {
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return fmt.Errorf("reading %s: %w", what, err)
	}
	return &Error{Detail: "it ends within " + what, Wanted: fmt.Sprintf("%d bytes", want), Found: fmt.Sprintf("%d", got)}
}

// object takes a JSON object apart. A name that is there twice is an error, as the format asks.
func object(text []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("it is not UTF-8")
	}
	if len(text) == 0 || text[0] != '{' {
		return nil, fmt.Errorf("it does not begin with {")
	}
	if !json.Valid(text) {
		return nil, fmt.Errorf("it is not JSON")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string)
		if _, twice := fields[name]; twice {
			return nil, fmt.Errorf("%q is there twice", excerpt.Of(name))
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		fields[name] = value
	}
	return fields, nil
}

// texts reads the metadata, which may be missing.
func texts(message json.RawMessage) (map[string]string, error) {
	if message == nil {
		return map[string]string{}, nil
	}
	fields, err := object(message)
	if err != nil {
		return nil, err
	}
	metadata := make(map[string]string, len(fields))
	for name, m := range fields {
		var text *string
		if err := json.Unmarshal(m, &text); err != nil || text == nil {
			return nil, fmt.Errorf("%q is not a text", excerpt.Of(name))
		}
		metadata[name] = *text
	}
	return metadata, nil
}

// describe fills in the entries.
func (h *Header) describe(fields map[string]json.RawMessage) error {
	all := make(map[string]described, len(fields))
	for name, message := range fields {
		d, err := describedBy(name, message)
		if err != nil {
			return err
		}
		all[name] = d
	}
	for _, name := range inOrder(all) {
		d := all[name]
		size, err := d.size(name)
		if err != nil {
			return err
		}
		if d.Offsets[0] != h.Size || d.Offsets[1]-d.Offsets[0] != size {
			return &Error{Tensor: name, Detail: fmt.Sprintf("the place of %s%v", d.DType, d.Shape),
				Wanted: fmt.Sprint([2]int64{h.Size, h.Size + size}), Found: fmt.Sprint(d.Offsets)}
		}
		h.Entries = append(h.Entries, Entry{name, dtypeNamed(d.DType), append([]int{}, d.Shape...), d.DType, h.Size, size})
		if h.Size += size; h.Size < 0 {
			return unsound("the data is longer than any file")
		}
	}
	return nil
}

// size is the bytes that the type and the shape ask for; of a type that nobody here has heard of, those that it takes.
func (d *described) size(name string) (int64, error) {
	bits := bitsOf(d.DType)
	if bits == 0 {
		if _, fits := sizeOf(d.Shape, 8); fits && d.Offsets[1] >= d.Offsets[0] {
			return d.Offsets[1] - d.Offsets[0], nil
		}
	}
	size, ok := sizeOf(d.Shape, bits)
	if !ok {
		return 0, &Error{Tensor: name, Detail: fmt.Sprintf("a shape that no tensor has: %v", d.Shape)}
	}
	return size, nil
}

// inOrder is the names by the places of their data; those of empty tensors come before what starts at the same place.
func inOrder(all map[string]described) []string {
	return slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		x, y := all[a].Offsets, all[b].Offsets
		if c := slices.Compare(x[:], y[:]); c != 0 {
			return c
		}
		return bytes.Compare([]byte(a), []byte(b))
	})
}
