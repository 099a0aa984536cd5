package cuda

import (
	"math"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Norm and clipping of gradients. A norm is joined of one part for each block, in the order of the blocks, so that it is the
// same bits in every run.

// Kinds of norms: NormKind in src/optim.cu.
const (
	normSquares = iota
	normSizes
	normLargest
	normPowers
)

// normKind tells apart the norms that need no power of each element.
func normKind(p float64) int32 {
	switch {
	case p == 2:
		return normSquares
	case p == 1:
		return normSizes
	case math.IsInf(p, 1):
		return normLargest
	}
	return normPowers
}

// gradNormRow: the parts are float64, whatever the tensors are. Squares of half types overflow early, and those of many elements are added.
func gradNormRow() op.Row {
	r := typedRow(op.GradNorm, gradNorm)
	r.Workspace = func(c *op.Call) uint64 { return 8 * uint64(normParts(c)) }
	return r
}

// normParts is the number of blocks of a norm.
func normParts(c *op.Call) int {
	parts := 0
	for i := range c.In {
		parts += (c.In[i].Len() + pieceLen - 1) / pieceLen
	}
	return parts
}

// gradNorm makes the Func of GradNorm: launches over the tensors that write parts, and one of a single block that joins them.
func gradNorm(d dtype.DType) op.Func {
	first, join := optimKernel(op.GradNorm, d), named("optim", "grad_norm_join")
	return func(c *op.Call) error {
		t := takeTask()
		defer tasks.Put(t)
		kind := normKind(c.F[0])
		input := func(c *op.Call, _, i int) *op.View { return &c.In[i] }
		done := 0
		for i := 0; i < len(c.In); {
			next, grid, _ := tableOf(c, &t.params, 1, i, len(c.In), input)
			i = next
			if grid == 0 { // empty tensors alone
				t.params.Reset()
				continue
			}
			// Each launch has its own part of the workspace, behind those before it: none of them is waited for.
			t.params.Ptr(c.Work.Ptr.Add(8 * uint64(done))).Int32(kind).Float64(c.F[0])
			if err := t.launch(c, first, device.Dim3{X: uint32(grid)}); err != nil {
				return err
			}
			done += grid
		}
		if done == 0 {
			return nil
		}
		// One block, behind the others on the stream. The norm stays on the device, where clipping reads it: nothing waits.
		t.params.Ptr(c.Out[0].Ptr).Ptr(c.Work.Ptr).Int32(int32(done)).Int32(kind)
		return t.launch(c, join, device.Dim3{X: 1})
	}
}

// clipNormScalars: In[0] is the norm, on the device, where GradNorm has left it.
func clipNormScalars(p *device.Params, c *op.Call) {
	p.Ptr(c.In[0].Ptr).Float64(c.F[0]).Int32(int32(c.I[1]))
}

func clipValueScalars(p *device.Params, c *op.Call) { p.Float64(c.F[0]) }
