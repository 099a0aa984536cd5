package autograd

import "github.com/cistern-ml/cistern/tensor"

// Helpers for forward functions and rules that take several steps: they make sure that every temporary is released, also
// when a step fails.

// after applies f to t and releases t.
func after(t *tensor.Tensor, f func(*tensor.Tensor) (*tensor.Tensor, error)) (*tensor.Tensor, error) {
	defer t.Release()
	return f(t)
}

// work is a computation with temporaries. A step that fails gives a nil tensor, which makes the steps that use it fail as
// well: operations of package tensor refuse nil, and so do the functions of this package that are used as steps. The first
// error is the one that counts. Each computation ends with result, which releases the temporaries.
type work struct {
	temps []*tensor.Tensor
	err   error
}

// do takes over the result of a step.
func (w *work) do(t *tensor.Tensor, err error) *tensor.Tensor {
	if err != nil {
		w.fail(err)
		return nil
	}
	w.temps = append(w.temps, t)
	return t
}

// scrap is do for a step whose result is read once, by an element-wise step that may write over it.
func (w *work) scrap(t *tensor.Tensor, err error) *tensor.Tensor {
	t = w.do(t, err)
	if t == nil {
		return nil
	}
	return w.do(t.Donate(), nil)
}

// fail notes the first error.
func (w *work) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// result releases the temporaries and passes the last step's result on, or the first error.
func (w *work) result(t *tensor.Tensor, err error) (*tensor.Tensor, error) {
	for _, tmp := range w.temps {
		tmp.Release()
	}
	if err != nil {
		w.fail(err)
	}
	if w.err != nil {
		t.Release()
		return nil, w.err
	}
	return t, nil
}

// release is result for a computation that changed a tensor of the caller's: it releases the temporaries and tells the first error.
func (w *work) release(err error) error {
	_, err = w.result(nil, err)
	return err
}

// widened is t in float32 if its type has two bytes, else another handle on t. What is computed in several steps is computed in that,
// and rounded once.
func widened(t *tensor.Tensor) (*tensor.Tensor, error) {
	if t.DType().Size() == 2 {
		return t.To(tensor.Float32)
	}
	return t.To(t.DType())
}

// zero is a scalar 0 of t's type, which broadcasts to anything.
func zero(t *tensor.Tensor) (*tensor.Tensor, error) {
	if t == nil {
		return nil, tensor.ErrReleased
	}
	return tensor.Scalar(t.Exec(), 0, t.DType())
}

// keepWhere is t where mask holds, and 0 elsewhere, also where t is infinite or NaN.
func keepWhere(mask, t *tensor.Tensor) (*tensor.Tensor, error) {
	z, err := zero(t)
	if err != nil {
		return nil, err
	}
	defer z.Release()
	return tensor.Where(mask, t, z)
}

// zeroWhere is 0 where mask holds, and t elsewhere.
func zeroWhere(mask, t *tensor.Tensor) (*tensor.Tensor, error) {
	z, err := zero(t)
	if err != nil {
		return nil, err
	}
	defer z.Release()
	return tensor.Where(mask, z, t)
}

// inOwn is after, for a step that is written where it is used: it passes the step's error on.
func inOwn(t *tensor.Tensor, err error) func(f func(*tensor.Tensor) (*tensor.Tensor, error)) (*tensor.Tensor, error) {
	return func(f func(*tensor.Tensor) (*tensor.Tensor, error)) (*tensor.Tensor, error) {
		if err != nil {
			return nil, err
		}
		return after(t, f)
	}
}

// changed makes a tensor and changes it in place, one step after the other: a computation in one tensor.
func changed(f func() (*tensor.Tensor, error), changes ...func(*tensor.Tensor) error) (*tensor.Tensor, error) {
	t, err := f()
	if err != nil {
		return nil, err
	}
	for _, change := range changes {
		if err := change(t); err != nil {
			t.Release()
			return nil, err
		}
	}
	return t, nil
}

// multiplied multiplies a tensor by u in place, and divided divides it.
func multiplied(u *tensor.Tensor) func(*tensor.Tensor) error {
	return func(t *tensor.Tensor) error { return t.MulInPlace(u) }
}

func divided(u *tensor.Tensor) func(*tensor.Tensor) error {
	return func(t *tensor.Tensor) error { return t.DivInPlace(u) }
}

// scaledBy multiplies a tensor by a number in place.
func scaledBy(s float64) func(*tensor.Tensor) error {
	return func(t *tensor.Tensor) error { return t.MulScalarInPlace(s) }
}
