package cuda

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// The cells of recurrent layers: one thread for each unit of each row. Neighbouring threads have neighbouring units, so that
// each gate is read and written in one run.

func cellRows() []op.Row {
	var rows []op.Row
	for _, id := range []op.ID{op.LSTMCell, op.LSTMCellGrad, op.GRUCell, op.GRUCellGrad} {
		rows = append(rows, typedRow(id, func(d dtype.DType) op.Func {
			return cell(named("cell", id.String()+"_"+suffixes[d]))
		}))
	}
	return rows
}

// cell makes the Func of a cell. Its views go in the order of the call, each as an address and the distance of its rows.
func cell(k *kernel) op.Func {
	return func(c *op.Call) error {
		state := &c.Out[len(c.Out)-1]
		rows, units := state.Shape[0], state.Shape[1]
		if rows*units == 0 {
			return nil
		}
		// A thread finds its row by a division in 32 bits.
		if rows*units >= maxLoop {
			return op.Errorf(c.Op, op.ErrCall, "%d rows of %d units are too many", rows, units)
		}
		t := takeTask()
		defer tasks.Put(t)
		d := divisor(units)
		t.params.Int32(int32(rows*units)).Words(pair(d[0], d[1]), uint64(d[2]))
		// Gates lie side by side in rows of a multiple of units: a view's rows may be farther apart than it is wide.
		for _, views := range [][]op.View{c.Out, c.In} {
			for i := range views {
				t.params.Words(uint64(views[i].Ptr), uint64(views[i].Strides[0]))
			}
		}
		return t.launch(c, k, device.Dim3{X: uint32((rows*units + threads - 1) / threads)})
	}
}
