package cuda

import (
	"math"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/cistern-ml/cistern/tensor/dtype"
)

// The optimizers, AmpUnscale and AmpUpdateScale.

// The limits of a launch over many tensors: TENSORS and PIECE in src/optim.cu.
const (
	tableTensors = 64
	pieceLen     = 4096
)

// Flags of optimizers.
const (
	flagFirst = 1 << iota
	flagMaximize
	flagNesterov
)

func optimRows() []op.Row {
	return []op.Row{
		typedRow(op.SGDStep, func(d dtype.DType) op.Func {
			return manyTensors(named("optim", op.SGDStep.String()+"_"+suffixes[d]), 3, sgdGroups, sgdScalars)
		}),
		typedRow(op.AdamStep, func(d dtype.DType) op.Func {
			return manyTensors(named("optim", op.AdamStep.String()+"_"+suffixes[d]), 4, adamGroups, adamScalars)
		}),
		typedRow(op.AmpUnscale, func(d dtype.DType) op.Func {
			return manyTensors(named("optim", op.AmpUnscale.String()+"_"+suffixes[d]), 1, unscaleGroups, unscaleScalars)
		}),
		typedRow(op.AmpUpdateScale, ampUpdateScale),
	}
}

// manyTensors makes the Func of an operation on groups of tensors: as few launches as the table of tensors allows, one for
// most models. group finds the tensor i of a group, or nil where the call has no such group.
func manyTensors(k *kernel, groups int, group func(c *op.Call, g, i int) *op.View, scalars func(*device.Params, *op.Call)) op.Func {
	return func(c *op.Call) error {
		t := takeTask()
		defer tasks.Put(t)
		n := int(c.I[0])
		for i := 0; i < n; {
			next, grid := tableOf(c, &t.params, groups, i, n, group)
			i = next
			if grid == 0 {
				t.params.Reset()
				continue
			}
			scalars(&t.params, c)
			if err := t.launch(c, k, device.Dim3{X: uint32(grid)}); err != nil {
				return err
			}
		}
		return nil
	}
}

// tableOf appends a Table with the tensors from i on, as many as fit. It returns the first that did not fit, and the blocks.
func tableOf(c *op.Call, p *device.Params, groups, i, n int, group func(c *op.Call, g, i int) *op.View) (next, grid int) {
	var w [1 + (tableTensors+2)/2 + 5*tableTensors]uint64
	lengths := w[1+(tableTensors+2)/2:]
	pointers := lengths[tableTensors:]
	count := 0
	for ; i < n && count < tableTensors; i++ {
		length := group(c, 0, i).Len()
		pieces := (length + pieceLen - 1) / pieceLen
		if length == 0 {
			continue
		}
		if count > 0 && grid+pieces > math.MaxInt32 {
			break
		}
		put32(w[1:], count, uint32(grid))
		lengths[count] = uint64(length)
		for g := range groups {
			if v := group(c, g, i); v != nil {
				pointers[g*tableTensors+count] = uint64(v.Ptr)
			}
		}
		grid += pieces
		count++
	}
	put32(w[1:], count, uint32(grid))
	w[0] = uint64(count)
	p.Words(w[:1+(tableTensors+2)/2+(1+groups)*tableTensors]...)
	return i, grid
}

// sgdGroups are parameters, momentum buffers and gradients.
func sgdGroups(c *op.Call, g, i int) *op.View {
	n := int(c.I[0])
	switch {
	case g == 2:
		return &c.In[i]
	case g*n+i < len(c.Out):
		return &c.Out[g*n+i]
	}
	return nil
}

// adamGroups are parameters, first and second moments, and gradients.
func adamGroups(c *op.Call, g, i int) *op.View {
	if g == 3 {
		return &c.In[i]
	}
	return &c.Out[g*int(c.I[0])+i]
}

func unscaleGroups(c *op.Call, _, i int) *op.View { return &c.Out[i] }

// numbers appends a structure of numbers of the type of computation.
func numbers(p *device.Params, d dtype.DType, v ...float64) {
	var w [12]uint64
	if d == dtype.Float64 {
		for i, x := range v {
			w[i] = math.Float64bits(x)
		}
		p.Words(w[:len(v)]...)
		return
	}
	for i, x := range v {
		put32(w[:], i, math.Float32bits(float32(x)))
	}
	p.Words(w[:(len(v)+1)/2]...)
}

func sgdScalars(p *device.Params, c *op.Call) {
	numbers(p, c.Out[0].DType, c.F[0], c.F[1], c.F[2], 1-c.F[3])
	p.Int32(flags(c, flagFirst, flagMaximize, flagNesterov))
}

// adamScalars folds what is the same for all elements: the bias corrections, and one of the two kinds of weight decay.
func adamScalars(p *device.Params, c *op.Call) {
	lr, beta1, beta2, eps, decay, step := c.F[0], c.F[1], c.F[2], c.F[3], c.F[4], c.F[5]
	size := lr / (1 - math.Pow(beta1, step))
	root := math.Sqrt(1 - math.Pow(beta2, step))
	shrink := 1.0
	if decoupled := c.I[1] != 0; decoupled {
		shrink, decay = 1-lr*decay, 0
	}
	numbers(p, c.Out[0].DType, size, root, shrink, decay, beta1, 1-beta1, beta2, 1-beta2, eps)
	p.Int32(flags(c, 0, flagMaximize, 0))
}

// flags joins those whose integer, I[1] and on, is set.
func flags(c *op.Call, bit ...int32) (f int32) {
	for i, b := range bit {
		if c.I[i+1] != 0 {
			f |= b
		}
	}
	return f
}

func unscaleScalars(p *device.Params, c *op.Call) {
	p.Ptr(c.In[0].Ptr).Ptr(c.Out[len(c.Out)-1].Ptr)
}

func ampUpdateScale(dtype.DType) op.Func {
	k := named("optim", op.AmpUpdateScale.String())
	return func(c *op.Call) error {
		t := takeTask()
		defer tasks.Put(t)
		t.params.Ptr(c.Out[0].Ptr).Ptr(c.Out[1].Ptr).Ptr(c.In[0].Ptr).Float64(c.F[0]).Float64(c.F[1]).Int64(c.I[0])
		return t.launch(c, k, blocks(1, 1))
	}
}
