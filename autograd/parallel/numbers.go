package parallel

import (
	"github.com/cistern-ml/cistern/tensor"
)

// Gather returns the numbers of all ranks, a list for each, on all of them: losses, times, counts. All ranks give as many. It waits for the others.
func (d *DataParallel) Gather(own ...float64) ([][]float64, error) {
	const op = "Gather"
	switch {
	case d == nil || d.comm == nil:
		return nil, &Error{Op: op, Rank: -1, Detail: "the DataParallel was not made by Data"}
	case d.closed:
		return nil, d.mistake(op, "the DataParallel is closed")
	case d.broken != nil:
		return nil, d.broken
	}
	all, err := d.gatherFloats(op, own)
	if err != nil {
		return nil, d.fatal(op, err)
	}
	lists := make([][]float64, d.comm.Size())
	for i := range lists {
		lists[i] = all[i*len(own) : (i+1)*len(own)]
	}
	return lists, nil
}

func (d *DataParallel) gatherFloats(op string, own []float64) ([]float64, error) {
	if len(own) == 0 {
		return nil, nil
	}
	src, err := tensor.FromSlice(d.side, own, len(own))
	if err != nil {
		return nil, err
	}
	defer src.Release()
	dst, err := tensor.Empty(d.side, tensor.Float64, len(own)*d.comm.Size())
	if err != nil {
		return nil, err
	}
	defer dst.Release()
	if err := d.allGather(op, dst, src); err != nil {
		return nil, err
	}
	return tensor.ToSlice[float64](dst)
}
