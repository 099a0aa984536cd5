package op

import "github.com/cistern-ml/cistern/device/dtype"

// checkBag checks the calls of EmbeddingBag and its gradient.
func checkBag(c *Call) error {
	forward, mode := c.Op == EmbeddingBag, c.I[0]
	out, in := 1, 3
	switch {
	case mode < BagSum || mode > BagMax || mode == BagMax && !forward:
		return Errorf(c.Op, ErrCall, "mode %d", mode)
	case forward && mode != BagSum:
		out = 2
	case mode == BagMean:
		in = 4
	}
	if len(c.Out) != out || len(c.In) != in {
		return Errorf(c.Op, ErrCall, "%d outputs and %d inputs, want %d and %d", len(c.Out), len(c.In), out, in)
	}
	table, bags := &c.In[0], &c.Out[0]
	if !forward {
		table, bags = bags, table
	}
	if !floats.has(table.DType) || bags.DType != table.DType {
		return Errorf(c.Op, ErrCall, "not defined for %s and %s", table.DType, bags.DType)
	}
	if table.NDim != 2 || bags.NDim != 2 || table.Shape[1] != bags.Shape[1] || table.Shape[1] == 0 || c.In[2].Len() != bags.Shape[0] {
		return Errorf(c.Op, ErrCall, "a table %v and %d offsets do not give bags %v", table.dims(), c.In[2].Len(), bags.dims())
	}
	counts := append(pointers(c.In[1:]), pointers(c.Out[1:])...)
	for i, v := range counts {
		if v.DType != dtype.Int64 {
			return Errorf(c.Op, ErrCall, "view of shape %v is %s, want int64", v.dims(), v.DType)
		}
		want := bags.Shape[0]
		if mode == BagMax {
			want *= bags.Shape[1]
		}
		if i > 1 && v.Len() != want {
			return Errorf(c.Op, ErrCall, "%d counts or places, want %d", v.Len(), want)
		}
	}
	for _, v := range append(counts, table, bags) {
		if !v.Contiguous() {
			return Errorf(c.Op, ErrCall, "view of shape %v is not contiguous", v.dims())
		}
	}
	return nil
}
