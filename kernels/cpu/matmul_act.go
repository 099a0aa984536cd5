package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// matMulActRow makes the row of MatMulAct from those of the product and of the activations: the product goes to pre, or to dst if
// nobody wants pre, and the activation passes over it once more while much of it is still in the cache.
func matMulActRow(all []op.Row) op.Row {
	var rows [op.Count]funcs
	for _, r := range all {
		rows[r.Op] = r.Funcs
	}
	row := op.Row{Op: op.MatMulAct}
	for _, d := range dtype.All() {
		if multiply := rows[op.MatMul][d]; multiply != nil {
			row.Funcs[d] = matMulAct(multiply, [...]op.Func{
				op.ActReLU: rows[op.ReLU][d], op.ActGELU: rows[op.GELU][d], op.ActGELUTanh: rows[op.GELUTanh][d],
			})
		}
	}
	return row
}

// actCalls are the calls that matMulAct makes of other kernels.
var actCalls = sync.Pool{New: func() any { return new(op.Call) }}

func matMulAct(multiply op.Func, activations [op.ActGELUTanh + 1]op.Func) op.Func {
	return func(c *op.Call) error {
		part := actCalls.Get().(*op.Call)
		defer func() {
			*part = op.Call{} // it holds nothing of its caller's
			actCalls.Put(part)
		}()
		*part = op.Call{Op: op.MatMul, Stream: c.Stream, Out: c.Out[len(c.Out)-1:], In: c.In, F: c.F}
		if err := multiply(part); err != nil {
			return err
		}
		activation := activations[c.I[0]]
		if activation == nil {
			if len(c.Out) == 1 {
				return nil
			}
			part.Out = c.Out[:1]
			return multiply(part)
		}
		part.Out, part.In = c.Out[:1], c.Out[len(c.Out)-1:]
		return activation(part)
	}
}
