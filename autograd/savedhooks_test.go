package autograd_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// deep is a model whose activations take much memory, in nested scopes as nn.Sequential makes them.
func deep(g *autograd.Graph, x *tensor.Tensor) (*autograd.Variable, *autograd.Variable) {
	v := g.Input(x, autograd.RequiresGrad())
	var first func(n int) *autograd.Variable
	first = func(n int) *autograd.Variable {
		if n == 0 {
			return v
		}
		return g.Scope(func() *autograd.Variable {
			in := first(n - 1)
			return in.Tanh().Exp().Mul(in).Sigmoid()
		})
	}
	return v, first(6).Sum(nil, false)
}

func TestSaveOnCPU_KeepsThePeakLowAndTheNumbersEqual(t *testing.T) {
	for _, pinned := range []bool{false, true} {
		t.Run(fmt.Sprintf("pinned %v", pinned), func(t *testing.T) {
			var grads [][]float64
			var peaks []int64
			for _, opts := range [][]autograd.Option{nil, {autograd.WithSavedTensorHooks(autograd.SaveOnCPU(pinned))}} {
				r := onHost(t)
				defer func() { require.NoError(t, memory.Drop(r.dev)) }()
				x := keep(t)(tensor.RandN(r.exec, tensor.NewGenerator(1), tensor.Float32, 64, 64))
				before := r.allocated()
				r.resetPeak()
				g := r.graph(opts...)
				v, loss := deep(g, x)
				require.NoError(t, loss.Backward())
				grads = append(grads, values(t, v.Grad()))
				g.Release()
				peaks = append(peaks, r.peak()-before)
			}
			require.Equal(t, grads[0], grads[1])
			require.Greater(t, peaks[0], int64(18*unit))
			require.LessOrEqual(t, peaks[1], int64(6*unit))
		})
	}
}

func TestSaveOnCPU_InARegionOffloadsThatRegion(t *testing.T) {
	r := onSim(t)
	x := r.square()
	g := r.graph()
	defer g.Release()
	v := g.Input(x, autograd.RequiresGrad())
	base := r.allocated()
	h := g.SavedTensors(autograd.SaveOnCPU(false), func() *autograd.Variable {
		return g.Scope(func() *autograd.Variable { return v.Exp().Exp().Exp() })
	})
	require.EqualValues(t, base+unit, r.allocated(), "only the result is on the device")
	h = g.Scope(func() *autograd.Variable { return h.Exp().Exp() })
	require.EqualValues(t, base+3*unit, r.allocated(), "outside of the region as ever")
	require.NoError(t, h.Sum(nil, false).Backward())
}

// counted counts what is packed, unpacked and released.
type counted struct {
	packed, leaves, unpacked, released int
	failPack, failUnpack               error
}

type held struct {
	c *counted
	t *tensor.Tensor
}

func (c *counted) Pack(t *tensor.Tensor, leaf bool) (autograd.Packed, error) {
	if c.failPack != nil && c.packed > 0 {
		return nil, c.failPack
	}
	c.packed++
	if leaf {
		c.leaves++
	}
	x, err := t.Clone()
	return &held{c, x}, err
}

func (h *held) Unpack(tensor.Exec) (*tensor.Tensor, error) {
	h.c.unpacked++
	if h.c.failUnpack != nil {
		return nil, h.c.failUnpack
	}
	return h.t.Clone()
}

func (h *held) Release() {
	h.c.released++
	h.t.Release()
}

func TestSavedTensorHooks_PackOnceAndUnpackForEachReader(t *testing.T) {
	r := onHost(t)
	c := new(counted)
	g := r.graph(autograd.WithSavedTensorHooks(c))
	x := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
	h := x.Exp()            // saves its result
	loss := h.Mul(h).Mul(x) // saves h twice, h*h and the leaf
	sum := loss.Sum(nil, false)
	require.Equal(t, []int{3, 1}, []int{c.packed, c.leaves})
	require.NoError(t, sum.Backward(autograd.RetainGraph()))
	require.Equal(t, []int{5, 0}, []int{c.unpacked, c.released})
	once := append([]float64{}, values(t, x.Grad())...)
	require.NoError(t, sum.Backward())
	require.Equal(t, []int{10, 3}, []int{c.unpacked, c.released})
	require.Equal(t, []float64{2 * once[0], 2 * once[1]}, values(t, x.Grad()))
	require.ErrorIs(t, sum.Backward(), autograd.ErrSecondBackward)
	g.Release()
	require.Equal(t, 3, c.released)
}

func TestSavedTensorHooks_AreReleasedWithAGraphThatNeverWentBackward(t *testing.T) {
	r := onHost(t)
	c := new(counted)
	g := r.graph(autograd.WithSavedTensorHooks(c))
	g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad()).Exp().Exp()
	g.Release()
	require.Equal(t, []int{2, 2}, []int{c.packed, c.released})
}

func TestSavedTensorHooks_ThatFail_FailTheOperation(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []*counted{{failPack: boom}, {failUnpack: boom}} {
		r := onHost(t)
		g := r.graph(autograd.WithSavedTensorHooks(c))
		x := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
		err := x.Exp().Exp().Sum(nil, false).Backward()
		var failed *autograd.OpError
		require.ErrorAs(t, err, &failed)
		require.ErrorIs(t, err, boom)
		require.Equal(t, c.failUnpack != nil, failed.Backward)
		g.Release()
		require.Equal(t, c.packed, c.released)
	}
}

// misshapen brings back something else than what was packed.
type misshapen struct {
	like func(e tensor.Exec) (*tensor.Tensor, error)
}

func (m misshapen) Pack(*tensor.Tensor, bool) (autograd.Packed, error) { return m, nil }
func (m misshapen) Unpack(e tensor.Exec) (*tensor.Tensor, error)       { return m.like(e) }
func (misshapen) Release()                                             {}

// What a hook brings back is the graph's to release, also where it is refused.
func TestSavedTensorHooks_WhatIsRefusedIsReleased(t *testing.T) {
	for name, like := range map[string]func(e tensor.Exec) (*tensor.Tensor, error){
		"shape": func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Zeros(e, tensor.Float64, 3) },
		"type":  func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Zeros(e, tensor.Float32, 2) },
		"an error beside it": func(e tensor.Exec) (*tensor.Tensor, error) {
			x, err := tensor.Zeros(e, tensor.Float64, 3)
			return x, errors.Join(err, errors.New("boom"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := onHost(t)
			g := r.graph(autograd.WithSavedTensorHooks(misshapen{like}))
			defer g.Release()
			loss := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad()).Exp().Sum(nil, false)
			base := r.allocated()
			require.Error(t, loss.Backward(autograd.RetainGraph()))
			require.Equal(t, base, r.allocated())
		})
	}
}

func TestSavedTensorHooks_ServeCheckpointsAndFunctions(t *testing.T) {
	r := onHost(t)
	c := new(counted)
	g := r.graph(autograd.WithSavedTensorHooks(c))
	defer g.Release()
	x := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
	y := autograd.Checkpoint(func(in vars) *autograd.Variable { return in[0].Exp().Exp() }, x.MulScalar(2))
	require.Equal(t, 1, c.packed, "the checkpoint saves its input")
	z := scaledTanh.Apply(2, y)
	require.Equal(t, 2, c.packed)
	require.NoError(t, z.Sum(nil, false).Backward())
	require.Equal(t, 4, c.packed, "the second run of the checkpoint saves two")
	require.Equal(t, c.packed, c.released)
}
