package nn

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"io"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Models are saved in the safetensors format, which other frameworks read and which cannot carry code:
//
//	8 bytes   the length of the header, little-endian
//	header    JSON: {"0.weight": {"dtype": "F32", "shape": [256, 784], "data_offsets": [0, 802816]}, ...}
//	data      the elements of each tensor in row-major order, little-endian; offsets count from here

// entry is what the header says of a tensor.
type entry struct {
	DType   string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// formatNames are the format's names of the element types.
var formatNames = map[tensor.DType]string{
	tensor.Float32: "F32", tensor.Float64: "F64", tensor.Float16: "F16", tensor.BFloat16: "BF16",
	tensor.Int64: "I64", tensor.Int32: "I32", tensor.Uint8: "U8", tensor.Bool: "BOOL",
}

// maxHeader is the format's limit on the header, in bytes.
const maxHeader = 100 << 20

// Save writes the values of m's parameters and buffers under the names of NamedState: what is shared once, under its first name. It
// copies one at a time to the host.
func Save(w io.Writer, m Module) error {
	if w == nil {
		return argumentErr("Save", "the writer is nil")
	}
	if err := check(m); err != nil {
		return err
	}
	named := NamedState(m)
	header, err := headerOf(named)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	size := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	if _, err := out.Write(append(size, header...)); err != nil {
		return errors.Wrap(err, "nn: Save")
	}
	for _, n := range named {
		if err := writeTensor(out, n.Parameter.Tensor()); err != nil {
			return errors.Wrapf(err, "nn: Save %s", n.Name)
		}
	}
	return errors.Wrap(out.Flush(), "nn: Save")
}

// headerOf describes the parameters, one after the other. As the format asks, blanks fill the header up so that the data
// starts at a multiple of 8 bytes.
func headerOf(named []Named) ([]byte, error) {
	entries := make(map[string]entry, len(named))
	at := int64(0)
	for _, n := range named {
		t := n.Parameter.Tensor()
		if t == nil {
			return nil, errors.WithMessage(&autograd.ParameterError{Name: n.Name, Shape: n.Parameter.Shape()}, "nn: Save: "+n.Name+" has no value")
		}
		end := at + int64(t.Len())*int64(t.DType().Size())
		if _, twice := entries[n.Name]; twice {
			return nil, &NameError{Name: n.Name, Detail: "two parameters of the model have it"}
		}
		entries[n.Name] = entry{formatNames[t.DType()], append([]int{}, t.Shape()...), [2]int64{at, end}}
		at = end
	}
	header, err := json.Marshal(entries)
	for len(header)%8 != 0 {
		header = append(header, ' ')
	}
	return header, err
}

// writeTensor writes the elements of t.
func writeTensor(w io.Writer, t *tensor.Tensor) error {
	switch t.DType() {
	case tensor.Float32:
		return writeAs[float32](w, t)
	case tensor.Float64:
		return writeAs[float64](w, t)
	case tensor.Float16:
		return writeAs[tensor.Float16Bits](w, t)
	case tensor.BFloat16:
		return writeAs[tensor.BFloat16Bits](w, t)
	case tensor.Int64:
		return writeAs[int64](w, t)
	case tensor.Int32:
		return writeAs[int32](w, t)
	case tensor.Uint8:
		return writeAs[uint8](w, t)
	}
	return writeAs[bool](w, t)
}

func writeAs[T tensor.Element](w io.Writer, t *tensor.Tensor) error {
	data, err := tensor.ToSlice[T](t)
	if err != nil {
		return err
	}
	return binary.Write(w, binary.LittleEndian, data)
}
