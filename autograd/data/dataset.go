package data

import (
	"sync"

	"github.com/cistern-ml/cistern/tensor"
)

// Dataset is a number of examples, each an input and a target, of which it makes whole batches. A Source makes its examples one by one.
type Dataset interface {
	// Len is the number of examples.
	Len() int
	// Batch makes tensors under e of the inputs and of the targets of the examples with the given numbers, in that order. The
	// caller owns them, also beside an error. The targets may be nil, for data without. index must not be changed. With workers
	// several goroutines call it at the same time, and e has a stream of the loader's.
	Batch(e tensor.Exec, index []int64) (inputs, targets *tensor.Tensor, err error)
}

// Tensors is a data set of tensors whose first dimension counts the examples. targets may be nil. The tensors stay the
// caller's and must live as long as the data set is used. Examples are selected where the tensors are, and then brought to
// the device of the batch.
func Tensors(inputs, targets *tensor.Tensor) Dataset { return tensors{inputs, targets} }

type tensors struct{ inputs, targets *tensor.Tensor }

func (d tensors) Len() int { return d.inputs.Dim(0) }

func (d tensors) Batch(e tensor.Exec, index []int64) (x, y *tensor.Tensor, err error) {
	if err := d.check(); err != nil {
		return nil, nil, err
	}
	if x, err = pick(e, d.inputs, index); err != nil || d.targets == nil {
		return x, nil, err
	}
	if y, err = pick(e, d.targets, index); err != nil {
		x.Release()
		return nil, nil, err
	}
	return x, y, nil
}

// check returns what is wrong with the tensors before an example is asked for.
func (d tensors) check() error {
	if d.inputs == nil {
		return argumentErr("there are no inputs: the tensor is nil")
	}
	for name, t := range map[string]*tensor.Tensor{"inputs": d.inputs, "targets": d.targets} {
		if t != nil && t.NDim() == 0 {
			return argumentErr("a tensor without dimensions, a scalar or a zero value, has no examples as %s", name)
		}
	}
	if d.targets != nil && d.targets.Dim(0) != d.Len() {
		return argumentErr("%d inputs and %d targets", d.Len(), d.targets.Dim(0))
	}
	return nil
}

// pick selects examples of t on t's device, under e if that is e's device too.
func pick(e tensor.Exec, t *tensor.Tensor, index []int64) (*tensor.Tensor, error) {
	if t.Device() == e.Device() {
		if err := order(t.Exec().Stream(), e.Stream()); err != nil {
			return nil, err
		}
		t = t.On(e)
		defer t.Release()
	}
	at, err := tensor.FromSlice(t.Exec().Owned(), index)
	if err != nil {
		return nil, err
	}
	defer at.Release()
	rows, err := t.IndexSelect(0, at)
	if err != nil || rows.Exec() == e {
		return rows, err
	}
	defer rows.Release()
	return rows.ToDevice(e)
}

// Slices is a data set of Go slices in row-major order: each example is inputShape elements of inputs and targetShape elements
// of targets. An empty shape is a scalar. The slices are not copied, and must not change while batches are made. It fails if
// the lengths do not fit.
func Slices[X, Y tensor.Element](inputs []X, inputShape []int, targets []Y, targetShape []int) (Dataset, error) {
	d := &sliceSet[X, Y]{x: rows[X]{data: inputs, shape: inputShape}, y: rows[Y]{data: targets, shape: targetShape}}
	n, err := d.x.count()
	if err != nil {
		return nil, err
	}
	m, err := d.y.count()
	if err != nil {
		return nil, err
	}
	if n != m {
		return nil, argumentErr("%d inputs and %d targets", n, m)
	}
	d.n = n
	return d, nil
}

type sliceSet[X, Y tensor.Element] struct {
	n  int
	mu sync.Mutex // guards the buffers of x and y
	x  rows[X]
	y  rows[Y]
}

// rows are examples in a slice, and a buffer in which batches are put together.
type rows[T tensor.Element] struct {
	data   []T
	shape  tensor.Shape
	buffer []T
}

func (r *rows[T]) count() (int, error) {
	width := r.shape.Len()
	if width == 0 || len(r.data)%width != 0 {
		return 0, argumentErr("%d elements are not a number of examples of shape %s", len(r.data), r.shape)
	}
	return len(r.data) / width, nil
}

func (r *rows[T]) batch(e tensor.Exec, index []int64) (*tensor.Tensor, error) {
	width := r.shape.Len()
	r.buffer = r.buffer[:0]
	for _, i := range index {
		r.buffer = append(r.buffer, r.data[int(i)*width:(int(i)+1)*width]...)
	}
	return tensor.FromSlice(e, r.buffer, append([]int{len(index)}, r.shape...)...)
}

func (d *sliceSet[X, Y]) Len() int { return d.n }

func (d *sliceSet[X, Y]) Batch(e tensor.Exec, index []int64) (x, y *tensor.Tensor, err error) {
	for _, i := range index {
		if i < 0 || i >= int64(d.n) {
			return nil, nil, argumentErr("example %d of %d", i, d.n)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if x, err = d.x.batch(e, index); err != nil {
		return nil, nil, err
	}
	if y, err = d.y.batch(e, index); err != nil {
		x.Release()
		return nil, nil, err
	}
	return x, y, nil
}
