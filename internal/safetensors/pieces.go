package safetensors

import (
	"errors"
	"fmt"
	"io"

	"github.com/cistern-ml/cistern/tensor"
)

// pieceBytes is how much of a tensor is in host memory at a time, on its way between a file and a device.
const pieceBytes = 16 << 20

// Pieces calls do with parts of t that are not too long for elements of so many bytes, as vectors, in the order of the elements; first is
// where they begin. What is not contiguous is one part, of t's shape.
func Pieces(t *tensor.Tensor, size int, do func(piece *tensor.Tensor, first int) error) error {
	if !t.IsContiguous() || t.Released() {
		return do(t, 0)
	}
	flat, err := t.View(t.Len())
	if err != nil {
		return err
	}
	defer flat.Release()
	most := pieceBytes / size
	for first := 0; first < t.Len() || first == 0; first += most {
		piece, err := flat.Narrow(0, first, min(most, t.Len()-first))
		if err != nil {
			return err
		}
		err = do(piece, first)
		piece.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// Fill sets t, of any type, to elements of a file from the element first on, which the file has; start is where its data begins. Elements of
// another type are converted in host memory.
func (e *Entry) Fill(t *tensor.Tensor, r io.ReaderAt, start int64, first int) (err error) {
	if !t.IsContiguous() {
		return e.fillPacked(t, r, start, first)
	}
	var home tensor.Exec
	if t.DType() != e.DType {
		var end func() error
		if home, end, err = Home(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	return Pieces(t, max(t.DType().Size(), e.DType.Size()), func(piece *tensor.Tensor, at int) error {
		values, err := e.ReadPart(r, start, first+at, piece.Len())
		if err != nil {
			return err
		}
		return values.Put(Place{Tensor: piece}, home)
	})
}

// fillPacked is Fill for a tensor whose elements do not lie one after the other.
func (e *Entry) fillPacked(t *tensor.Tensor, r io.ReaderAt, start int64, first int) error {
	packed, err := tensor.Empty(t.Exec(), t.DType(), t.Shape()...)
	if err != nil {
		return err
	}
	defer packed.Release()
	if err := e.Fill(packed, r, start, first); err != nil {
		return err
	}
	return t.CopyFrom(packed)
}

// WrongLength is the error of a file that has not the bytes that its header asks for.
func WrongLength(want, found int64) error {
	detail := "there is more after the last tensor"
	if found < want {
		detail = "it ends early"
	}
	return &Error{Detail: detail, Wanted: fmt.Sprintf("%d bytes", want), Found: fmt.Sprint(found)}
}
