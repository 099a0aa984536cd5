package op

import (
	"fmt"
	"strings"
)

// describedViews is how many inputs a description lists: operations on many tensors have hundreds.
const describedViews = 4

// String says in one line what the call computes, for profiles: the operation, the shapes of its inputs and of its first output, and
// that one's type, as in "matmul(64x32, 32x128) = 64x128 float32".
func (c *Call) String() string {
	var b strings.Builder
	b.WriteString(c.Op.String())
	b.WriteByte('(')
	for i := range c.In[:min(len(c.In), describedViews)] {
		if i > 0 {
			b.WriteString(", ")
		}
		c.In[i].writeShape(&b)
	}
	if more := len(c.In) - describedViews; more > 0 {
		fmt.Fprintf(&b, ", %d more", more)
	}
	b.WriteByte(')')
	if len(c.Out) > 0 {
		b.WriteString(" = ")
		c.Out[0].writeShape(&b)
		b.WriteString(" " + c.Out[0].DType.String())
	}
	return b.String()
}

// writeShape writes "64x32", and "scalar" for no dimensions.
func (v *View) writeShape(b *strings.Builder) {
	if v.NDim == 0 {
		b.WriteString("scalar")
	}
	for i, n := range v.Shape[:v.NDim] {
		if i > 0 {
			b.WriteByte('x')
		}
		fmt.Fprint(b, n)
	}
}
