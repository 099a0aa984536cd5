package cuda

import (
	"fmt"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Attention and AttentionGrad: from a call to an Attention and Operands of src/attention.h.

func attentionRows() []op.Row {
	grad := typedRow(op.AttentionGrad, attendGrad)
	// delta is read by all gradients. Without it each would need the result beside its gradient, once more. Kernels for tensor cores have
	// lse beside it, turned into what they subtract.
	grad.Workspace = func(c *op.Call) uint64 { return uint64(2 * c.In[5].Len() * c.In[5].DType.Size()) }
	return []op.Row{typedRow(op.Attention, attend), grad}
}

// attentionMode is one of the four results; see src/attention.h.
type attentionMode int

const (
	attentionResult attentionMode = iota
	attentionQueries
	attentionKeys
	attentionValues
)

var attentionNames = [...]string{"attention", "attention_queries", "attention_keys", "attention_values"}

// attentionKernels are those of one type: any is for everything, tensor for heads of the sizes in attentionPlans.
type attentionKernels struct {
	any    [4]*kernel
	tensor [attentionSizes][3]*kernel // those of keys give the gradient of values too
	delta  *kernel
	rows   *kernel // delta and lse, for tensor cores
}

// attentionKernelsOf makes those of a type that the modes need.
func attentionKernelsOf(d dtype.DType, modes ...attentionMode) *attentionKernels {
	k := new(attentionKernels)
	for _, m := range modes {
		k.any[m] = named("attention", attentionNames[m]+"_"+suffixes[d])
		if d != dtype.Float16 && d != dtype.BFloat16 || m == attentionValues {
			continue
		}
		module := "attention_backward"
		if m == attentionResult {
			module = "attention_forward"
		}
		for i, p := range attentionPlans[m] {
			k.tensor[i][m] = roomy(module, fmt.Sprintf("%s_%d_%s", attentionNames[m], p.size, suffixes[d]))
		}
	}
	return k
}

// attend makes the Func of Attention.
func attend(d dtype.DType) op.Func {
	k := attentionKernelsOf(d, attentionResult)
	return func(c *op.Call) error {
		a := attention{q: &c.In[0], k: &c.In[1], v: &c.In[2], out: &c.Out[0], lse: c.Out[1].Ptr, mask: op.AttentionMask(c)}
		return a.launch(c, k, attentionResult, &c.Out[0])
	}
}

// attendGrad makes the Func of AttentionGrad: delta, then one launch for each gradient, or on tensor cores one for those of keys and values.
func attendGrad(d dtype.DType) op.Func {
	k := attentionKernelsOf(d, attentionQueries, attentionKeys, attentionValues)
	k.delta = named("attention", "attention_delta_"+suffixes[d])
	if d == dtype.Float16 || d == dtype.BFloat16 {
		k.rows = named("attention_backward", "attention_rows_"+suffixes[d])
	}
	return func(c *op.Call) error {
		a := attention{
			grad: &c.In[0], q: &c.In[1], k: &c.In[2], v: &c.In[3], out: &c.In[4], lse: c.In[5].Ptr, mask: op.AttentionMask(c),
			delta: c.Work.Ptr, dmask: c.Out[3:],
		}
		modes := []attentionMode{attentionQueries, attentionKeys, attentionValues}
		if on := c.Stream.Device(); a.plan(k, attentionQueries, on) != nil && a.plan(k, attentionKeys, on) != nil {
			a.second, modes = &c.Out[2], modes[:2]
		}
		if err := a.sums(c, k); err != nil { // first on the stream: the others read it
			return err
		}
		for i, mode := range modes {
			if err := a.launch(c, k, mode, &c.Out[i]); err != nil {
				return err
			}
		}
		return nil
	}
}

// attention is the operands of a call; what is not there is nil or empty.
type attention struct {
	q, k, v, out, grad *op.View
	second             *op.View // the gradient of values, where the kernel of keys gives both
	mask, dmask        []op.View
	lse                device.Ptr // logarithms of the sums of each row's exponentials
	delta              device.Ptr // of a gradient, in the workspace: the sums of each row of grad*out
}

const (
	attentionRowsOfBlock = 64  // TILE in src/attention.cu
	attentionWindow      = 128 // elements; or half of it: 64*PANELS in src/attention.cu
	attentionWarps       = 4
)

// launch computes one of the results.
func (a *attention) launch(c *op.Call, kernels *attentionKernels, mode attentionMode, result *op.View) error {
	on := c.Stream.Device()
	k, shape, rows, windows := kernels.any[mode], device.LaunchShape{Block: device.Dim3{X: threads}}, attentionRowsOfBlock, a.windows(mode, result)
	if p := a.plan(kernels, mode, on); p != nil && (a.grad == nil || a.second != nil) {
		k, rows, windows = kernels.tensor[p.place][mode], p.rows, 1
		shape.Block.X, shape.Shared = attentionWarps*32, uint32(p.shared())
	}
	tiles := (result.Shape[2] + rows - 1) / rows // of the rows of the result: queries, or keys, and all others pass by each block
	// A block goes through all columns by itself: parts of them would be sums to be joined, and few rows of many keys leave a GPU partly idle.
	grid := result.Shape[0] * result.Shape[1] * tiles * windows
	if grid == 0 {
		return nil
	}
	if max(grid, a.q.Shape[2], a.k.Shape[2]) >= maxLoop { // rows are counted in 32 bits, and blocks by the first dimension of the grid
		return op.Errorf(c.Op, op.ErrCall, "%d blocks of %d rows are too many", grid, rows)
	}
	t := takeTask()
	defer tasks.Put(t)
	a.add(&t.params, c, tiles, windows, result)
	h, err := k.on(on)
	if err != nil {
		return err
	}
	shape.Grid.X = uint32(grid) // all in one dimension, of 2^31-1: the others end at 65535, which images and heads may exceed
	return launch(c, h, shape, &t.params)
}

// windows is how many blocks share the elements of a row of the result: kernels of double, and those of keys, have half as many
// as the others. Even a result without elements has one, for the gradient of a mask, or lse.
func (a *attention) windows(mode attentionMode, result *op.View) int {
	window := attentionWindow
	if result.DType == dtype.Float64 || mode == attentionKeys {
		window /= 2
	}
	return max(1, (result.Shape[3]+window-1)/window)
}

// sums launches the kernel of delta, or of what kernels for tensor cores read of rows.
func (a *attention) sums(c *op.Call, kernels *attentionKernels) error {
	rows := a.q.Shape[0] * a.q.Shape[1] * a.q.Shape[2]
	if rows == 0 {
		return nil
	}
	t := takeTask()
	defer tasks.Put(t)
	var w attentionWords
	a.pack(&w, c, 1, 1, a.q) // strides alone are read of it: a.q stands in for a result, which this kernel has not
	t.params.Words(w.w[:w.at]...).Ptr(a.grad.Ptr).Ptr(a.out.Ptr)
	if a.second != nil {
		t.params.Ptr(a.lse).Ptr(a.delta)
		return t.launch(c, kernels.rows, blocks(rows, threads/8)) // 8 lanes for each row
	}
	t.params.Ptr(a.delta)
	return t.launch(c, kernels.delta, blocks(rows, threads/32)) // a warp for each row
}

// tensorable reports whether the kernels for tensor cores can take the operands: rows that can be copied in pieces of 16 bytes.
func (a *attention) tensorable(kernels *attentionKernels) bool {
	const piece = 8
	d, e := a.q.Shape[3], a.v.Shape[3]
	if kernels.tensor[0] == [3]*kernel{} || d == 0 || e == 0 {
		return false
	}
	for _, v := range []*op.View{a.q, a.k, a.v, a.grad, a.read()} {
		if v == nil { // no gradient: the forward pass
			continue
		}
		if v.Strides[3] != 1 && v.Shape[3] > 1 || v.Ptr%16 != 0 { // cp.async of 16 bytes faults on any other address
			return false
		}
		for i, s := range v.Strides[:3] {
			if s%piece != 0 && v.Shape[i] > 1 { // rows are copied from row*stride: each must begin at 16 bytes as well
				return false
			}
		}
	}
	return true
}

// read is the result of the forward pass where it is an operand, else nil.
func (a *attention) read() *op.View {
	if a.grad == nil {
		return nil
	}
	return a.out
}
