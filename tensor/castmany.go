package tensor

import "github.com/cistern-ml/cistern/kernels/op"

// CastMany converts contiguous float32 tensors to a type of half precision, all of them in one launch for as many as a kernel takes: the weights of a model.
// The results are contiguous, in the order of ts, and e's. If it fails there are none.
func (steps) CastMany(ts []*Tensor, dt DType, e Exec) (casts []*Tensor, err error) {
	const name = "CastMany"
	if err := e.valid(name); err != nil {
		return nil, err
	}
	if dt != Float16 && dt != BFloat16 {
		return nil, dtypeErr(name, "converts to half precision", dt)
	}
	for _, t := range ts {
		if err := t.castable(name, e); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			for _, c := range casts {
				c.Release()
			}
			casts = nil
		}
	}()
	c := begin(op.CastMany, e)
	c.call.I[0] = int64(len(ts))
	for _, t := range ts {
		to, err := alloc(name, e, dt, &t.layout)
		if err != nil {
			c.recycle()
			return casts, err
		}
		casts = append(casts, to)
		c.out(to, &to.layout)
		c.in(t, &t.layout)
	}
	if len(ts) == 0 {
		c.recycle()
		return nil, nil
	}
	return casts, c.run(name)
}

func (t *Tensor) castable(name string, e Exec) error {
	if err := usable(name, t); err != nil {
		return err
	}
	switch {
	case !t.exec.sameDevice(e):
		return devicesErr(name, t.exec, e)
	case t.dtype != Float32:
		return dtypeErr(name, "converts float32", t.dtype)
	case !t.IsContiguous():
		return shapeErr(name, []Shape{t.Shape()}, "is not contiguous: Contiguous makes a copy that is")
	}
	return nil
}
