package safetensors

import (
	"context"

	format "github.com/cistern-ml/cistern/internal/safetensors"
	"github.com/cistern-ml/cistern/tensor"
)

// ReadOption changes what Read and ReadInto read.
type ReadOption func(*reading)

// reading is one call of Read or ReadInto.
type reading struct {
	call     string
	dtype    tensor.DType
	from, to int // rows
	rows     bool
}

// As converts the elements to a type, in host memory: the device needs no room for both.
func As(dt tensor.DType) ReadOption { return func(r *reading) { r.dtype = dt } }

// Rows reads from:to of the first dimension alone, and from the file no more than that.
func Rows(from, to int) ReadOption {
	return func(r *reading) { r.from, r.to, r.rows = from, to, true }
}

// Read makes a tensor under e, on any device, of the one in the file of this name, with the type and the shape that it has there unless
// options say otherwise. The caller releases it. Before the first tensor a file with a checksum is read through; see Unverified.
//
// A name that there is not is a *NameError, a type that package tensor has not is a *TypeError, rows that there are not are an
// *ArgumentError, a file that is damaged is a *FormatError, and after Close it is ErrClosed. With an error nothing is kept.
func (f *File) Read(e tensor.Exec, name string, opts ...ReadOption) (*tensor.Tensor, error) {
	r := readingOf("Read", opts)
	if e.Stream() == nil {
		return nil, absent(r.call)
	}
	p, done, err := f.use(r.call, name)
	if err != nil {
		return nil, err
	}
	defer done()
	shape, err := r.shape(p.entry)
	if err != nil {
		return nil, err
	}
	if r.dtype == 0 {
		r.dtype = p.entry.DType
	}
	t, err := tensor.Empty(e, r.dtype, shape...)
	if err != nil {
		return nil, located(p.part.name, name, err)
	}
	if err := f.fill(t, p, r); err != nil {
		t.Release()
		return nil, err
	}
	return t, nil
}

// ReadInto sets a tensor of the same shape, on any device and of any type, to the one in the file of this name, as Read does. If it fails
// on the way t has been changed in part.
func (f *File) ReadInto(t *tensor.Tensor, name string, opts ...ReadOption) error {
	r := readingOf("ReadInto", opts)
	if t.Released() {
		return &tensor.ReleasedError{Op: "safetensors.ReadInto", Nil: t == nil}
	}
	if r.dtype != 0 && r.dtype != t.DType() {
		return argumentErr(r.call, "As(%v) and a tensor of %v", r.dtype, t.DType())
	}
	p, done, err := f.use(r.call, name)
	if err != nil {
		return err
	}
	defer done()
	shape, err := r.shape(p.entry)
	if err != nil {
		return err
	}
	if !t.Shape().Equal(shape) {
		return &tensor.ShapeError{Op: "safetensors.ReadInto", Shapes: []tensor.Shape{t.Shape().Clone(), shape}, Detail: "the tensor and the file must have the same"}
	}
	return f.fill(t, p, r)
}

func readingOf(call string, opts []ReadOption) *reading {
	r := &reading{call: call}
	for _, o := range opts {
		if o != nil {
			o(r)
		}
	}
	return r
}

// shape is that of what is read.
func (r *reading) shape(e *format.Entry) (tensor.Shape, error) {
	shape := tensor.Shape(e.Shape).Clone()
	if !r.rows {
		return shape, nil
	}
	if len(shape) == 0 || r.from < 0 || r.to < r.from || r.to > shape[0] {
		return nil, argumentErr(r.call, "rows %d:%d of a tensor of shape %v", r.from, r.to, shape)
	}
	shape[0] = r.to - r.from
	return shape, nil
}

// fill reads the elements.
func (f *File) fill(t *tensor.Tensor, p place, r *reading) error {
	if !f.unverified {
		if err := p.part.verify(context.Background()); err != nil {
			return err
		}
	}
	first := 0
	if r.rows && p.entry.Shape[0] > 0 {
		first = r.from * (p.entry.Len() / p.entry.Shape[0])
	}
	return located(p.part.name, p.entry.Name, p.entry.Fill(t, p.part.in, p.part.header.Start(), first))
}
