package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// halving is a Cast between Float32 and half precision of elements that lie side by side, which takes one pass and no scratch memory. It is
// a job over elements.
type halving struct {
	loop
	half dtype.DType
	back bool // to Float32
}

var halvings = sync.Pool{New: func() any { return new(halving) }}

// convertHalf does such a Cast, and reports whether c is one.
func convertHalf(c *op.Call) bool {
	from, to := c.In[0].DType, c.Out[0].DType
	back := to == dtype.Float32 && isHalf(from)
	if !back && !(from == dtype.Float32 && isHalf(to)) {
		return false
	}
	h := halvings.Get().(*halving)
	defer halvings.Put(h)
	h.set(&c.Out[0], c.In[:1])
	if h.Total > 0 && !(h.full[0] && h.full[1]) {
		return false
	}
	if h.half, h.back = to, back; back {
		h.half = from
	}
	split(h.Total, elementGrain, h)
	return true
}

func isHalf(d dtype.DType) bool { return d == dtype.Float16 || d == dtype.BFloat16 }

func (h *halving) run(lo, hi int) {
	to, from := offset(h.Ptr[0], lo, h.Size[0]), offset(h.Ptr[1], lo, h.Size[1])
	if h.back {
		widen(slice[float32](to, hi-lo), slice[uint16](from, hi-lo), h.half)
	} else {
		narrowTo(slice[uint16](to, hi-lo), slice[float32](from, hi-lo), h.half)
	}
}
