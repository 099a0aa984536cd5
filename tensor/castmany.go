package tensor

import "github.com/cistern-ml/cistern/kernels/op"

// CastMany converts float32 tensors without gaps to a type of half precision, all of them in one launch for as many as a kernel takes: the weights of a model.
// The results have their memory formats, are in the order of ts, and e's. If it fails there are none.
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
		to, err := allocAs(name, e, dt, &t.layout)
		if err != nil {
			c.recycle()
			return casts, err
		}
		casts = append(casts, to)
		out, in := to.layout.run(), t.layout.run()
		c.out(to, &out)
		c.in(t, &in)
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
	case !t.layout.formatted():
		return shapeErr(name, []Shape{t.Shape()}, "has gaps or lies in no memory format: Contiguous makes a copy that does not")
	}
	return nil
}
