package cuda

import (
	"math"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// castTensors is TENSORS in src/cast_many.cu: more than optimizers have in a launch, because there are but two addresses for each.
const castTensors = 128

func castManyRows() []op.Row {
	return []op.Row{typedRow(op.CastMany, func(d dtype.DType) op.Func {
		return castMany(named("cast_many", "cast_many_"+suffixes[d]))
	})}
}

// castMany makes the Func of CastMany: as few launches as tables allow.
func castMany(k *kernel) op.Func {
	return func(c *op.Call) error {
		t := takeTask()
		defer tasks.Put(t)
		for i := 0; i < len(c.Out); {
			next, grid := castTable(c, &t.params, i)
			i = next
			if grid == 0 { // nothing but empty tensors
				t.params.Reset()
				continue
			}
			if err := t.launch(c, k, device.Dim3{X: uint32(grid)}); err != nil {
				return err
			}
		}
		return nil
	}
}

// castTable appends a Casts with the tensors from i on, as many as fit. It returns the first that did not fit, and the blocks.
func castTable(c *op.Call, p *device.Params, i int) (next, grid int) {
	const firsts = (castTensors + 2) / 2
	var w [1 + firsts + 3*castTensors]uint64
	lengths := w[1+firsts:]
	count := 0
	for ; i < len(c.Out) && count < castTensors; i++ {
		length := c.Out[i].Len()
		pieces := (length + pieceLen - 1) / pieceLen
		if length == 0 {
			continue // it takes no place
		}
		if count > 0 && grid+pieces > math.MaxInt32 {
			break
		}
		put32(w[1:], count, uint32(grid))
		lengths[count] = uint64(length)
		lengths[castTensors+count] = uint64(c.Out[i].Ptr)
		lengths[2*castTensors+count] = uint64(c.In[i].Ptr)
		grid += pieces
		count++
	}
	put32(w[1:], count, uint32(grid)) // where the last one ends
	w[0] = uint64(count)
	p.Words(w[:]...)
	return i, grid
}
