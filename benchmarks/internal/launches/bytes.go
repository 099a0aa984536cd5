package launches

import (
	"fmt"

	"github.com/cistern-ml/cistern/kernels/op"
)

// nameOf is the kind of a call: its operation, and the types that a conversion is between.
func nameOf(c *op.Call) string {
	if c.Op == op.Cast && len(c.In) == 1 && len(c.Out) == 1 {
		return fmt.Sprintf("%s %s to %s", c.Op, c.In[0].DType, c.Out[0].DType)
	}
	return c.Op.String()
}

// bytesOf is what a call moves at least: its operands and results.
func bytesOf(c *op.Call) (n int64) {
	for i := range c.Out {
		n += viewBytes(&c.Out[i])
	}
	for i := range c.In {
		b := viewBytes(&c.In[i])
		if i == 0 && c.Op == op.IndexSelect { // a table, of which only the chosen rows are read
			b = min(b, n)
		}
		n += b
	}
	return n
}

// viewBytes counts an element that a view shows several times once.
func viewBytes(v *op.View) int64 {
	n := int64(v.DType.Size())
	for d := range v.NDim {
		if v.Strides[d] != 0 || v.Shape[d] == 0 {
			n *= int64(v.Shape[d])
		}
	}
	return n
}
