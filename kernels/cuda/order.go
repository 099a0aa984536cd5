package cuda

import (
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Tril and Triu.

func orderRows() []op.Row {
	return []op.Row{sized(op.Tril, triangle), sized(op.Triu, triangle)}
}

// triangle makes the Func of Tril and Triu. The third operand of the loop is no memory: it counts columns up and rows down.
func triangle(suffix string) op.Func {
	k := triangleKernel(suffix)
	return func(c *op.Call) error {
		t := takeTask()
		defer tasks.Put(t)
		right := op.View{DType: dtype.Uint8, NDim: c.Out[0].NDim}
		right.Strides[right.NDim-2], right.Strides[right.NDim-1] = -1, 1 // column - row, of each element
		t.loop.Begin(&c.Out[0])
		t.loop.Add(&c.In[0])
		t.loop.Add(&right)
		t.loop.Finish()
		if t.loop.Total == 0 {
			return nil
		}
		if t.loop.Total >= maxLoop {
			return op.Errorf(c.Op, op.ErrCall, "%d elements are too many", t.loop.Total) // halves would have to move the diagonal
		}
		upper := int32(0)
		if c.Op == op.Triu {
			upper = 1
		}
		t.loop.walk(&t.params)
		t.params.Ptr(t.loop.Ptr[0]).Ptr(t.loop.Ptr[1]).Int64(int64(t.loop.Ptr[2])).Int64(c.I[0]).Int32(upper)
		return t.launch(c, k, blocks(t.loop.Total, threads*steps))
	}
}

// Kernels that two operations share, by the size of an element.
var triangleKernel, indexSelectKernel = shared("move", "triangle_"), shared("move", "index_select_")

// shared makes a function that gives each kernel of a family one object.
func shared(module, prefix string) func(suffix string) *kernel {
	// Filled while package variables are made, by one goroutine.
	made := map[string]*kernel{}
	return func(suffix string) *kernel {
		if made[suffix] == nil {
			made[suffix] = named(module, prefix+suffix)
		}
		return made[suffix]
	}
}
