package cuda

import (
	"math"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// The optimizers, norm and clipping of gradients, AmpUnscale and AmpUpdateScale.

// The limits of a launch over many tensors: TENSORS and PIECE in src/optim.cu.
// The table is a parameter of the kernel, of which all together have 4 KiB: 64 lengths, addresses of up to five groups, and the scalars.
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
		stepRow(op.SGDStep, func(d dtype.DType) op.Func {
			return stepFunc(optimKernel(op.SGDStep, d), 3, sgdGroups, sgdScalars)
		}),
		stepRow(op.AdamStep, adamStep),
		stepRow(op.RMSPropStep, func(d dtype.DType) op.Func {
			return stepFunc(optimKernel(op.RMSPropStep, d), 5, rmspropGroups, rmspropScalars)
		}),
		stepRow(op.AdagradStep, func(d dtype.DType) op.Func {
			return stepFunc(optimKernel(op.AdagradStep, d), 3, stepGroups, adagradScalars)
		}),
		stepRow(op.LionStep, func(d dtype.DType) op.Func {
			return stepFunc(optimKernel(op.LionStep, d), 3, stepGroups, lionScalars)
		}),
		gradNormRow(),
		typedRow(op.ClipNorm, func(d dtype.DType) op.Func {
			return manyTensors(optimKernel(op.ClipNorm, d), 1, outputs, clipNormScalars)
		}),
		typedRow(op.ClipValue, func(d dtype.DType) op.Func {
			return manyTensors(optimKernel(op.ClipValue, d), 1, outputs, clipValueScalars)
		}),
		typedRow(op.AmpUnscale, func(d dtype.DType) op.Func {
			return manyTensors(optimKernel(op.AmpUnscale, d), 1, outputs, unscaleScalars)
		}),
		typedRow(op.AmpUpdateScale, ampUpdateScale),
	}
}

// optimKernel is the kernel of an operation of this file for one type.
func optimKernel(id op.ID, d dtype.DType) *kernel { return named("optim", id.String()+"_"+suffixes[d]) }

// manyTensors makes the Func of an operation on groups of tensors: as few launches as the table of tensors allows, one for
// most models. group finds the tensor i of a group, or nil where the call has no such group.
func manyTensors(k *kernel, groups int, group func(c *op.Call, g, i int) *op.View, scalars func(*device.Params, *op.Call)) op.Func {
	rest := func(p *device.Params, c *op.Call, _ int) { scalars(p, c) }
	return func(c *op.Call) error { return launchTables(c, k, groups, group, rest) }
}

// launchTables launches a kernel on all tensors of a call. rest appends the parameters after the table, before which so many tensors
// that are not empty were in others.
func launchTables(c *op.Call, k *kernel, groups int, group func(c *op.Call, g, i int) *op.View,
	rest func(p *device.Params, c *op.Call, before int)) error {
	t := takeTask()
	defer tasks.Put(t)
	before := 0
	for i, n := 0, int(c.I[0]); i < n; {
		next, grid, count := tableOf(c, &t.params, groups, i, n, group)
		i = next       // further on even if all were empty, or the loop would not end
		if grid == 0 { // nothing but empty tensors: a grid of no blocks is an error
			t.params.Reset()
			continue
		}
		rest(&t.params, c, before)
		before += count
		if err := t.launch(c, k, device.Dim3{X: uint32(grid)}); err != nil {
			return err
		}
	}
	return nil
}

// tableOf appends a Table with the tensors from i on, as many as fit. It returns the first that did not fit, the blocks, and how many
// tensors are in the table.
func tableOf(c *op.Call, p *device.Params, groups, i, n int, group func(c *op.Call, g, i int) *op.View) (next, grid, count int) {
	var w [1 + (tableTensors+2)/2 + 6*tableTensors]uint64
	lengths := w[1+(tableTensors+2)/2:]
	pointers := lengths[tableTensors:]
	// Empty tensors take no place, so a call of many of them is no more launches than the others need.
	for ; i < n && count < tableTensors; i++ {
		length := group(c, 0, i).Len()
		pieces := (length + pieceLen - 1) / pieceLen
		if length == 0 {
			continue
		}
		if count > 0 && grid+pieces > math.MaxInt32 { // the first dimension of a grid; a single tensor of so many pieces would have 2^43 elements
			break
		}
		put32(w[1:], count, uint32(grid)) // its first block: a block finds its tensor by bisection
		lengths[count] = uint64(length)
		for g := range groups {
			if v := group(c, g, i); v != nil {
				pointers[g*tableTensors+count] = uint64(v.Ptr)
			}
		}
		grid += pieces
		count++
	}
	put32(w[1:], count, uint32(grid)) // where the last one ends
	w[0] = uint64(count)
	p.Words(w[:1+(tableTensors+2)/2+(1+groups)*tableTensors]...)
	return i, grid, count
}

// sgdGroups are parameters, momentum buffers and gradients.
func sgdGroups(c *op.Call, g, i int) *op.View {
	n := int(c.I[0])
	switch {
	case g == 2:
		return &c.In[i]
	case g < op.StepGroups(c):
		return &c.Out[g*n+i]
	}
	return nil
}

// stepGroups are the groups of outputs and the gradients, of operations whose groups are always there.
func stepGroups(c *op.Call, g, i int) *op.View {
	n := int(c.I[0])
	if g < op.StepGroups(c) {
		return &c.Out[g*n+i]
	}
	return &c.In[i]
}

// outputs are the only group.
func outputs(c *op.Call, _, i int) *op.View { return &c.Out[i] }

// numbers appends a structure of numbers of the type of computation.
func numbers(p *device.Params, d dtype.DType, v ...float64) {
	// In float64 where tensors are, else in float32, two to a word: also for half types, whose steps are computed in float32.
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

// sgdScalars: the last is what is left of a gradient, 1 - dampening.
func sgdScalars(p *device.Params, c *op.Call) {
	numbers(p, c.Out[0].DType, c.F[0], c.F[1], c.F[2], 1-c.F[3])
	p.Int32(flags(c, flagFirst, flagMaximize, flagNesterov))
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

// unscaleScalars: In[0] is the reciprocal of the scale, and the last output the flag that any block may set.
func unscaleScalars(p *device.Params, c *op.Call) {
	p.Ptr(c.In[0].Ptr).Ptr(c.Out[len(c.Out)-1].Ptr)
}

// ampUpdateScale makes the Func of AmpUpdateScale, of one thread: scale, tracker and flag never leave the device.
func ampUpdateScale(dtype.DType) op.Func {
	k := named("optim", op.AmpUpdateScale.String())
	return func(c *op.Call) error {
		t := takeTask()
		defer tasks.Put(t)
		t.params.Ptr(c.Out[0].Ptr).Ptr(c.Out[1].Ptr).Ptr(c.In[0].Ptr).Float64(c.F[0]).Float64(c.F[1]).Int64(c.I[0])
		return t.launch(c, k, blocks(1, 1))
	}
}
