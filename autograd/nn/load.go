package nn

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// FormatError says that what Load read is not a file in the safetensors format, or not a sound one.
type FormatError struct {
	Detail string
}

func (e *FormatError) Error() string { return "nn: Load: not a sound safetensors file: " + e.Detail }

// MismatchError says that a file and a model do not have the same parameters.
type MismatchError struct {
	Missing    []string // in the model, not in the file
	Unexpected []string // in the file, not in the model
	Shapes     []string // of different shapes, with both
}

func (e *MismatchError) Error() string {
	var parts []string
	for _, p := range []struct {
		what  string
		names []string
	}{{"missing from the file", e.Missing}, {"not in the model", e.Unexpected}, {"of another shape", e.Shapes}} {
		if len(p.names) > 0 {
			parts = append(parts, p.what+": "+strings.Join(p.names, ", "))
		}
	}
	return "nn: Load: " + strings.Join(parts, "; ")
}

// Load sets the values of m's parameters and buffers, which To has given memory, to those that Save wrote. Values are converted
// to the types that the model has. File and model must have the same names and shapes, else nothing is changed and the error is a
// *MismatchError. If reading fails later, the parameters read so far have their new values. What the model
// shares is in the file under one of its names or several, of which the last in the file counts.
func Load(r io.Reader, m Module) error {
	if r == nil {
		return argumentErr("Load", "the reader is nil")
	}
	if err := check(m); err != nil {
		return err
	}
	in := bufio.NewReader(r)
	entries, err := readHeader(in)
	if err != nil {
		return err
	}
	named, err := match(entries, append(allNamed(m, false), allNamed(m, true)...))
	if err != nil {
		return err
	}
	for _, n := range named {
		if err := readTensor(in, entries[n.Name], n.Parameter.Tensor()); err != nil {
			return errors.WithMessagef(err, "nn: Load %s", n.Name)
		}
	}
	return nil
}

// readHeader reads the header and checks that the tensors lie one after the other, without gaps, each as long as its shape
// and type say.
func readHeader(in io.Reader) (map[string]entry, error) {
	var size uint64
	if err := binary.Read(in, binary.LittleEndian, &size); err != nil {
		return nil, &FormatError{"no length of the header: " + err.Error()}
	}
	if size > maxHeader {
		return nil, &FormatError{fmt.Sprintf("a header of %d bytes", size)}
	}
	text, err := io.ReadAll(io.LimitReader(in, int64(size)))
	if err != nil || uint64(len(text)) < size {
		return nil, &FormatError{fmt.Sprintf("%d of %d bytes of the header", len(text), size)}
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, &FormatError{err.Error()}
	}
	delete(raw, "__metadata__")
	entries := make(map[string]entry, len(raw))
	for name, message := range raw {
		var e entry
		if err := json.Unmarshal(message, &e); err != nil {
			return nil, &FormatError{name + ": " + err.Error()}
		}
		entries[name] = e
	}
	return entries, inLine(entries)
}

// inLine checks lengths and offsets.
func inLine(entries map[string]entry) error {
	at := int64(0)
	for _, name := range inOrder(entries) {
		e := entries[name]
		dt := dtypeOf(e.DType)
		if dt == 0 {
			return &FormatError{fmt.Sprintf("%s is of type %q, which this package does not have", name, e.DType)}
		}
		size, ok := sizeOf(e.Shape, dt)
		if !ok || e.Offsets[0] != at || e.Offsets[1]-e.Offsets[0] != size {
			return &FormatError{fmt.Sprintf("%s %s%v is at %v; expected from %d on", name, e.DType, e.Shape, e.Offsets, at)}
		}
		at = e.Offsets[1]
	}
	return nil
}

// sizeOf is the bytes of a tensor, unless the shape is not one or the number does not fit.
func sizeOf(shape []int, dt tensor.DType) (int64, bool) {
	size := int64(dt.Size())
	for _, d := range shape {
		if d < 0 || d > 0 && size > (1<<62)/int64(d) {
			return 0, false
		}
		size *= int64(d)
	}
	return size, true
}

func dtypeOf(name string) tensor.DType {
	for dt, n := range formatNames {
		if n == name {
			return dt
		}
	}
	return 0
}

// inOrder is the names by the places of their data; those of empty tensors come before what starts at the same place.
func inOrder(entries map[string]entry) []string {
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		x, y := entries[a].Offsets, entries[b].Offsets
		return slices.Compare(x[:], y[:])
	})
	return names
}

// match pairs entries and parameters, in the order of the data. named has each parameter under all of its names.
func match(entries map[string]entry, named []Named) ([]Named, error) {
	var bad MismatchError
	byName, found := map[string]Named{}, map[*autograd.Parameter]bool{}
	for _, n := range named {
		byName[n.Name] = n
		e, ok := entries[n.Name]
		switch {
		case !ok:
			continue
		case !n.Parameter.Shape().Equal(e.Shape):
			bad.Shapes = append(bad.Shapes, fmt.Sprintf("%s (file %v, model %v)", n.Name, tensor.Shape(e.Shape), n.Parameter.Shape()))
		case n.Parameter.Tensor() == nil:
			return nil, argumentErr("Load", "parameter %s has no memory: call To on the model first", n.Name)
		}
		found[n.Parameter] = true
	}
	for _, n := range once(named) {
		if !found[n.Parameter] {
			bad.Missing = append(bad.Missing, n.Name)
		}
	}
	var ordered []Named
	for _, name := range inOrder(entries) {
		n, ok := byName[name]
		if !ok {
			bad.Unexpected = append(bad.Unexpected, name)
		}
		ordered = append(ordered, n)
	}
	if len(bad.Missing)+len(bad.Unexpected)+len(bad.Shapes) > 0 {
		return nil, &bad
	}
	return ordered, nil
}

// readTensor reads the elements of one tensor into t.
func readTensor(in io.Reader, e entry, t *tensor.Tensor) error {
	dt := dtypeOf(e.DType)
	switch dt {
	case tensor.Float32:
		return readAs[float32](in, t, dt)
	case tensor.Float64:
		return readAs[float64](in, t, dt)
	case tensor.Float16:
		return readAs[tensor.Float16Bits](in, t, dt)
	case tensor.BFloat16:
		return readAs[tensor.BFloat16Bits](in, t, dt)
	case tensor.Int64:
		return readAs[int64](in, t, dt)
	case tensor.Int32:
		return readAs[int32](in, t, dt)
	case tensor.Uint8:
		return readAs[uint8](in, t, dt)
	}
	return readAs[bool](in, t, dt)
}

// readAs reads elements of type dt, which is T's, and converts them to t's if that is another.
func readAs[T tensor.Element](in io.Reader, t *tensor.Tensor, dt tensor.DType) error {
	data := make([]T, t.Len())
	if err := binary.Read(in, binary.LittleEndian, data); err != nil {
		return &FormatError{"the data ends early: " + err.Error()}
	}
	if dt == t.DType() {
		return tensor.CopyFromSlice(t, data)
	}
	src, err := tensor.FromSlice(t.Exec(), data, t.Shape()...)
	if err != nil {
		return err
	}
	defer src.Release()
	return t.CopyFrom(src)
}
