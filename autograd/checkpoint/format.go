package checkpoint

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/cistern-ml/cistern/tensor"
)

// The safetensors format: 8 bytes with the length of the header, little-endian; the header, JSON; the elements of the tensors one
// after the other, in row-major order, little-endian.

// FormatError says that what was read is not a checkpoint, or not a whole one.
type FormatError struct {
	Detail string
}

func (e *FormatError) Error() string { return "checkpoint: not a sound checkpoint: " + e.Detail }

func malformed(format string, args ...any) error { return &FormatError{fmt.Sprintf(format, args...)} }

// entry is what the header says of a tensor. Offsets count from the end of the header.
type entry struct {
	DType   string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

var typeNames = map[tensor.DType]string{
	tensor.Float32: "F32", tensor.Float64: "F64", tensor.Float16: "F16", tensor.BFloat16: "BF16",
	tensor.Int64: "I64", tensor.Int32: "I32", tensor.Uint8: "U8", tensor.Bool: "BOOL",
}

const (
	metadataKey = "__metadata__"
	maxHeader   = 100 << 20 // bytes; the format's limit
)

// writeFile writes tensors and metadata. The tensors are in the order of their names.
func writeFile(ctx context.Context, w io.Writer, tensors map[string]*tensor.Tensor, metadata map[string]string) error {
	names := slices.Sorted(maps.Keys(tensors))
	header := map[string]any{metadataKey: metadata}
	at := int64(0)
	for _, name := range names {
		t := tensors[name]
		end := at + int64(t.Len())*int64(t.DType().Size())
		header[name] = entry{typeNames[t.DType()], append([]int{}, t.Shape()...), [2]int64{at, end}}
		at = end
	}
	text, err := json.Marshal(header)
	if err != nil {
		return err
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	if len(text) > maxHeader {
		return fmt.Errorf("a header of %d bytes; the format allows %d", len(text), maxHeader)
	}
	if _, err := w.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)); err != nil {
		return err
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := codecs[tensors[name].DType()].write(w, tensors[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// readFile reads what writeFile wrote, to its end. The caller releases the tensors, which are made under e.
func readFile(ctx context.Context, r io.Reader, e tensor.Exec) (tensors map[string]*tensor.Tensor, metadata map[string]string, err error) {
	entries, metadata, err := readHeader(r)
	if err != nil {
		return nil, nil, err
	}
	tensors = make(map[string]*tensor.Tensor, len(entries))
	defer func() {
		if err != nil {
			release(tensors)
		}
	}()
	for _, name := range inOrder(entries) {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		d := entries[name]
		t, err := codecs[typeNamed(d.DType)].read(r, e, d.Shape)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		tensors[name] = t
	}
	if n, _ := io.ReadFull(r, make([]byte, 1)); n > 0 {
		return nil, nil, malformed("there is more after the last tensor")
	}
	return tensors, metadata, nil
}

func release(tensors map[string]*tensor.Tensor) {
	for _, t := range tensors {
		t.Release()
	}
}

// readHeader reads the header and checks that the tensors lie one after the other, each as long as its shape and type say.
func readHeader(r io.Reader) (map[string]entry, map[string]string, error) {
	var size uint64
	if err := binary.Read(r, binary.LittleEndian, &size); err != nil {
		return nil, nil, malformed("it is shorter than 8 bytes")
	}
	if size > maxHeader {
		return nil, nil, malformed("a header of %d bytes", size)
	}
	text, err := io.ReadAll(io.LimitReader(r, int64(size)))
	if err != nil || uint64(len(text)) < size {
		return nil, nil, malformed("it ends after %d of %d bytes of its header", len(text), size)
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, nil, malformed("its header: %v", err)
	}
	metadata := map[string]string{}
	if m, ok := raw[metadataKey]; ok {
		if err := json.Unmarshal(m, &metadata); err != nil {
			return nil, nil, malformed("its metadata: %v", err)
		}
	}
	delete(raw, metadataKey)
	entries := make(map[string]entry, len(raw))
	for name, m := range raw {
		var d entry
		if err := json.Unmarshal(m, &d); err != nil {
			return nil, nil, malformed("%s: %v", name, err)
		}
		entries[name] = d
	}
	return entries, metadata, inLine(entries)
}

func inLine(entries map[string]entry) error {
	at := int64(0)
	for _, name := range inOrder(entries) {
		d := entries[name]
		size, ok := bytesOf(d)
		if !ok || d.Offsets[0] != at || d.Offsets[1]-at != size {
			return malformed("%s %s%v is at %v; expected from %d on", name, d.DType, d.Shape, d.Offsets, at)
		}
		at += size
	}
	return nil
}

// bytesOf is the size of a tensor, unless type or shape are none or it does not fit a number.
func bytesOf(d entry) (int64, bool) {
	dt := typeNamed(d.DType)
	if dt == 0 || len(d.Shape) > tensor.MaxDims {
		return 0, false
	}
	size := int64(dt.Size())
	for _, n := range d.Shape {
		if n < 0 || n > 0 && size > (1<<62)/int64(n) {
			return 0, false
		}
		size *= int64(n)
	}
	return size, true
}

func typeNamed(name string) tensor.DType {
	for dt, n := range typeNames {
		if n == name {
			return dt
		}
	}
	return 0
}

// inOrder is the names by the places of their data.
func inOrder(entries map[string]entry) []string {
	return slices.SortedFunc(maps.Keys(entries), func(a, b string) int {
		x, y := entries[a].Offsets, entries[b].Offsets
		return slices.Compare(x[:], y[:])
	})
}
