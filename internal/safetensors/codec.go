package safetensors

import (
	"encoding/binary"
	"io"
	"slices"

	"github.com/cistern-ml/cistern/internal/rawbytes"
	"github.com/cistern-ml/cistern/tensor"
)

// codec is what a file and a tensor have to do with elements of one type. Elements in host memory are slices of the Go type, as any.
type codec struct {
	read     func(r io.Reader, n, first int) (data any, got int, err error) // first is how many elements are sure to be there
	write    func(w io.Writer, data any) error
	download func(t *tensor.Tensor) (any, error)
	upload   func(t *tensor.Tensor, data any) error
	make     func(e tensor.Exec, data any, shape []int) (*tensor.Tensor, error)
}

var codecs = map[tensor.DType]codec{
	tensor.Float32:  codecOf[float32](),
	tensor.Float64:  codecOf[float64](),
	tensor.Float16:  codecOf[tensor.Float16Bits](),
	tensor.BFloat16: codecOf[tensor.BFloat16Bits](),
	tensor.Int64:    codecOf[int64](),
	tensor.Int32:    codecOf[int32](),
	tensor.Uint8:    codecOf[uint8](),
	tensor.Bool:     bools(),
}

func codecOf[T interface {
	tensor.Element
	rawbytes.Number
}]() codec {
	c := moves[T]()
	c.read = func(r io.Reader, n, first int) (any, int, error) { return readPieces(r, n, first, rawbytes.Of[T]) }
	c.write = func(w io.Writer, data any) error {
		b := rawbytes.Of(data.([]T))
		if bigEndian && len(b) > 0 {
			b = swapped(slices.Clone(b), len(b)/len(data.([]T)))
		}
		_, err := w.Write(b)
		return err
	}
	return c
}

// bools are a byte each: any but 0 is true.
func bools() codec {
	c := moves[bool]()
	c.read = func(r io.Reader, n, first int) (any, int, error) {
		data, got, err := readPieces(r, n, first, rawbytes.Of[uint8])
		flags := make([]bool, len(data))
		for i, b := range data {
			flags[i] = b != 0
		}
		return flags, got, err
	}
	c.write = func(w io.Writer, data any) error {
		b := make([]byte, len(data.([]bool)))
		for i, v := range data.([]bool) {
			if v {
				b[i] = 1
			}
		}
		_, err := w.Write(b)
		return err
	}
	return c
}

func moves[T tensor.Element]() codec {
	return codec{
		download: func(t *tensor.Tensor) (any, error) { return tensor.ToSlice[T](t) },
		upload:   func(t *tensor.Tensor, data any) error { return tensor.CopyFromSlice(t, data.([]T)) },
		make: func(e tensor.Exec, data any, shape []int) (*tensor.Tensor, error) {
			return tensor.FromSlice(e, data.([]T), append([]int{}, shape...)...)
		},
	}
}

// The elements that are read first, and the most that are read at a time. Each piece is as long as all before it, so that a header
// that claims more than there is takes no memory, and what is there is copied once on average.
const firstPiece, mostPiece = 1 << 9, 1 << 20

// readPieces reads n elements, or as many as there are, and says how many. Memory for the first ones is taken at once.
func readPieces[T any](r io.Reader, n, first int, bytesOf func([]T) []byte) ([]T, int, error) {
	data := make([]T, 0, first)
	for at := 0; at < n; {
		more := min(n-at, max(at, firstPiece), mostPiece)
		if at+more > cap(data) {
			data = slices.Grow(data, min(n-at, max(at, firstPiece)))
		}
		data = data[:at+more]
		b := bytesOf(data[at:])
		size := len(b) / more
		got, err := io.ReadFull(r, b)
		if bigEndian {
			swapped(b, size)
		}
		if err != nil {
			return nil, at + got/size, err
		}
		at += more
	}
	return data, n, nil
}

// bigEndian says that the machine has the first byte of a number last in files.
var bigEndian = binary.NativeEndian.Uint16([]byte{1, 0}) != 1

// swapped turns the bytes of each number of a size around.
func swapped(b []byte, size int) []byte {
	for i := 0; size > 1 && i+size <= len(b); i += size {
		slices.Reverse(b[i : i+size])
	}
	return b
}
