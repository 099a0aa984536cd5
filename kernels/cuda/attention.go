package cuda

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Attention and AttentionGrad: from a call to an Attention and Operands of src/attention.h.

func attentionRows() []op.Row {
	grad := typedRow(op.AttentionGrad, attendGrad)
	// delta is read by all three gradients. Without it each would need the result beside its gradient, once more.
	grad.Workspace = func(c *op.Call) uint64 { return uint64(c.In[5].Len() * c.In[5].DType.Size()) } // delta, as large as lse
	return []op.Row{typedRow(op.Attention, attend), grad}
}

// attentionMode is one of the four results; see src/attention.h.
type attentionMode int

const (
	attentionResult attentionMode = iota
	attentionQueries
	attentionValues
	attentionKeys
)

var attentionNames = [...]string{"attention", "attention_queries", "attention_values", "attention_keys"}

// attentionKernels are those of one type: any is for everything, tensor for heads of up to 64 and of up to 128 elements.
type attentionKernels struct {
	any    [4]*kernel
	tensor [2][4]*kernel
	delta  *kernel
}

// attentionKernelsOf makes those of a type that the modes need.
func attentionKernelsOf(d dtype.DType, modes ...attentionMode) *attentionKernels {
	k := new(attentionKernels)
	for _, m := range modes {
		k.any[m] = named("attention", attentionNames[m]+"_"+suffixes[d])
		if d == dtype.Float16 || d == dtype.BFloat16 {
			k.tensor[0][m] = named("attention_tensor", attentionNames[m]+"_64_"+suffixes[d])
			k.tensor[1][m] = named("attention_tensor", attentionNames[m]+"_128_"+suffixes[d])
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

// attendGrad makes the Func of AttentionGrad: delta, then one launch for each gradient.
func attendGrad(d dtype.DType) op.Func {
	k := attentionKernelsOf(d, attentionQueries, attentionValues, attentionKeys)
	k.delta = named("attention", "attention_delta_"+suffixes[d])
	return func(c *op.Call) error {
		a := attention{
			grad: &c.In[0], q: &c.In[1], k: &c.In[2], v: &c.In[3], out: &c.In[4], lse: c.In[5].Ptr, mask: op.AttentionMask(c),
			delta: c.Work.Ptr, dmask: c.Out[3:],
		}
		if err := a.sums(c, k.delta); err != nil { // first on the stream: the others read it
			return err
		}
		for i, mode := range []attentionMode{attentionQueries, attentionKeys, attentionValues} {
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
	mask, dmask        []op.View
	lse                device.Ptr // logarithms of the sums of each row's exponentials
	delta              device.Ptr // of a gradient, in the workspace: the sums of each row of grad*out
}

const (
	attentionRowsOfBlock = 64  // TILE in src/attention.cu and ROWS in src/attention_tensor.cu
	attentionWindow      = 128 // elements; or half of it: 64*PANELS in src/attention.cu
	attentionWarps       = 4
)

// launch computes one of the results.
func (a *attention) launch(c *op.Call, kernels *attentionKernels, mode attentionMode, result *op.View) error {
	k, shape, windows := kernels.any[mode], device.LaunchShape{Block: device.Dim3{X: threads}}, a.windows(mode, result)
	if a.tensorable(kernels) {
		k, shape.Block.X, windows = kernels.tensor[0][mode], attentionWarps*32, 1
		if max(a.q.Shape[3], a.v.Shape[3]) > 64 { // a row's elements stay in registers: heads of 64 take a fifth fewer (registers.md)
			k = kernels.tensor[1][mode]
		}
	}
	tiles := (result.Shape[2] + attentionRowsOfBlock - 1) / attentionRowsOfBlock // of the rows of the result: queries, or keys, and all others pass by each block
	// A block goes through all columns by itself: parts of them would be sums to be joined, and few rows of many keys leave a GPU partly idle.
	grid := result.Shape[0] * result.Shape[1] * tiles * windows
	if grid == 0 {
		return nil
	}
	if max(grid, a.q.Shape[2], a.k.Shape[2]) >= maxLoop { // rows are counted in 32 bits, and blocks by the first dimension of the grid
		return op.Errorf(c.Op, op.ErrCall, "%d blocks of %d rows are too many", grid, attentionRowsOfBlock)
	}
	t := takeTask()
	defer tasks.Put(t)
	a.add(&t.params, c, tiles, windows, result)
	h, err := k.on(c.Stream.Device())
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

// sums launches the kernel of delta.
func (a *attention) sums(c *op.Call, k *kernel) error {
	rows := a.q.Shape[0] * a.q.Shape[1] * a.q.Shape[2]
	if rows == 0 {
		return nil
	}
	t := takeTask()
	defer tasks.Put(t)
	var w attentionWords
	a.pack(&w, c, 1, 1, a.q) // strides alone are read of it: a.q stands in for a result, which this kernel has not
	t.params.Words(w.w[:w.at]...).Ptr(a.grad.Ptr).Ptr(a.out.Ptr).Ptr(a.delta)
	return t.launch(c, k, blocks(rows, threads/32)) // a warp for each row
}

// tensorable reports whether the kernels for tensor cores can take the operands: rows that can be copied in pieces of 16 bytes.
func (a *attention) tensorable(kernels *attentionKernels) bool {
	const piece, largest = 8, 128
	d, e := a.q.Shape[3], a.v.Shape[3]
	if kernels.tensor[0] == [4]*kernel{} || d == 0 || e == 0 || max(d, e) > largest {
		return false
	}
	for _, v := range []*op.View{a.q, a.k, a.v, a.grad} {
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
