package cpu

import (
	"github.com/cistern-ml/cistern/kernels/op"
)

// NLL and NLLGrad. Both read one element a row, so they run on the caller's goroutine alone, except that NLLGrad first
// fills its output with zeros.

// nll makes the Func of NLL. All classes are checked before anything is written.
func nll[T float](l accessor[T]) op.Func {
	return func(c *op.Call) error {
		dst, a, classes := &c.Out[0], &c.In[0], &c.In[1]
		if err := checkClasses(c, a.Shape[1]); err != nil {
			return err
		}
		s := takeScratch()
		defer scratches.Put(s)
		v := scratchBuffer[T](s, 0, 1)
		for n := range dst.Shape[0] {
			v[0] = 0
			if class := int64At(classes, n); class != c.I[0] {
				l.load(v, offset(a.Ptr, n*a.Strides[0]+int(class)*a.Strides[1], l.size), 1)
				v[0] = -v[0]
			}
			l.store(offset(dst.Ptr, n*dst.Strides[0], l.size), 1, v)
		}
		return nil
	}
}

// nllGrad makes the Func of NLLGrad.
func nllGrad[T float](l accessor[T]) op.Func {
	zero := nullary(l, func(dst []T, _ *op.Call) { clear(dst) })
	return func(c *op.Call) error {
		dst, a, classes := &c.Out[0], &c.In[0], &c.In[1]
		if err := checkClasses(c, dst.Shape[1]); err != nil {
			return err
		}
		if err := zero(c); err != nil {
			return err
		}
		s := takeScratch()
		defer scratches.Put(s)
		v := scratchBuffer[T](s, 0, 1)
		for n := range dst.Shape[0] {
			class := int64At(classes, n)
			if class == c.I[0] {
				continue
			}
			l.load(v, offset(a.Ptr, n*a.Strides[0], l.size), 1)
			v[0] = -v[0]
			l.store(offset(dst.Ptr, n*dst.Strides[0]+int(class)*dst.Strides[1], l.size), 1, v)
		}
		return nil
	}
}

// checkClasses refuses a class outside 0..count-1 that is not the ignore index.
func checkClasses(c *op.Call, count int) error { return checkClassesOf(c, &c.In[1], count) }

func checkClassesOf(c *op.Call, classes *op.View, count int) error {
	for n := range classes.Shape[0] {
		if class := int64At(classes, n); class != c.I[0] && (class < 0 || class >= int64(count)) {
			return op.Errorf(c.Op, op.ErrIndex, "class %d of row %d %s", class, n, op.Outside(int64(count), "there are no classes"))
		}
	}
	return nil
}

// int64At is element i of a view of one dimension of Int64.
func int64At(v *op.View, i int) int64 {
	return slice[int64](offset(v.Ptr, i*v.Strides[0], 8), 1)[0]
}
