package checkpoint

import (
	"encoding/binary"
	"io"

	"github.com/cistern-ml/cistern/tensor"
)

// codec writes and reads the elements of one type.
type codec struct {
	write func(w io.Writer, t *tensor.Tensor) error
	read  func(r io.Reader, e tensor.Exec, shape []int) (*tensor.Tensor, error)
}

var codecs = map[tensor.DType]codec{
	tensor.Float32:  codecOf[float32](),
	tensor.Float64:  codecOf[float64](),
	tensor.Float16:  codecOf[tensor.Float16Bits](),
	tensor.BFloat16: codecOf[tensor.BFloat16Bits](),
	tensor.Int64:    codecOf[int64](),
	tensor.Int32:    codecOf[int32](),
	tensor.Uint8:    codecOf[uint8](),
	tensor.Bool:     codecOf[bool](),
}

// pieceLen is the elements that are read at a time, so that a header that claims more than there is takes no memory.
const pieceLen = 1 << 20

func codecOf[T tensor.Element]() codec {
	return codec{write: writeAs[T], read: readAs[T]}
}

func writeAs[T tensor.Element](w io.Writer, t *tensor.Tensor) error {
	data, err := tensor.ToSlice[T](t)
	if err != nil {
		return err
	}
	return binary.Write(w, binary.LittleEndian, data)
}

func readAs[T tensor.Element](r io.Reader, e tensor.Exec, shape []int) (*tensor.Tensor, error) {
	n := tensor.Shape(shape).Len()
	var data []T
	for len(data) < n {
		piece := make([]T, min(n-len(data), pieceLen))
		if err := binary.Read(r, binary.LittleEndian, piece); err != nil {
			return nil, malformed("it ends within the first %d of %d elements: %v", len(data)+len(piece), n, err)
		}
		data = append(data, piece...)
	}
	if shape == nil {
		shape = []int{}
	}
	return tensor.FromSlice(e, data, shape...)
}
