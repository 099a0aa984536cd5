package cpu

import (
	"github.com/cistern-ml/cistern/kernels/op"
)

// matMul makes the Func of MatMul.
func matMul[T float](l lane[T]) op.Func {
	return func(c *op.Call) error {
		dst, a, b := &c.Out[0], &c.In[0], &c.In[1]
		n := dst.NDim
		batches := 1
		for _, d := range dst.Shape[:n-2] {
			batches *= d
		}
		one := func(v *op.View, at int) float64 {
			var x [1]T
			l.load(x[:], offset(v.Ptr, at, l.size), 1)
			return float64(x[0])
		}
		for q := range batches {
			var oa, ob, oc, od int
			rest := q
			for d := n - 3; d >= 0; d-- {
				i := rest % dst.Shape[d]
				rest /= dst.Shape[d]
				oa += i * a.Strides[d]
				ob += i * b.Strides[d]
				od += i * dst.Strides[d]
				if c.F[1] != 0 {
					oc += i * c.In[2].Strides[d]
				}
			}
			for i := range dst.Shape[n-2] {
				for j := range dst.Shape[n-1] {
					var sum float64
					for k := range a.Shape[n-1] {
						sum += one(a, oa+i*a.Strides[n-2]+k*a.Strides[n-1]) * one(b, ob+k*b.Strides[n-2]+j*b.Strides[n-1])
					}
					sum *= c.F[0]
					if c.F[1] != 0 {
						cv := &c.In[2]
						sum += c.F[1] * one(cv, oc+i*cv.Strides[n-2]+j*cv.Strides[n-1])
					}
					l.store(offset(dst.Ptr, od+i*dst.Strides[n-2]+j*dst.Strides[n-1], l.size), 1, []T{T(sum)})
				}
			}
		}
		return nil
	}
}
