package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// flaky is an allocator one of whose allocations fails: the one before which left is 1.
type flaky struct {
	memory.Allocator
	left int
}

func (a *flaky) Alloc(bytes uint64, s device.Stream) (memory.Block, error) {
	if a.left--; a.left == 0 {
		return memory.Block{}, memory.ErrOutOfMemory
	}
	return a.Allocator.Alloc(bytes, s)
}

func TestTo_ThatFails_ChangesNoParameter(t *testing.T) {
	r := onHost(t)
	alloc := &flaky{Allocator: r.alloc}
	m := nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
	r.place(m, nn.WithAllocator(alloc), nn.Seed(1))
	x := r.tensor([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	g := r.graph()
	require.NoError(t, m.Forward(g.Input(x)).Sum(nil, false).Backward())
	g.Release()
	fresh := nn.Linear(2, 2) // has no value yet: To is to make one
	m.Register("fresh", fresh)

	before := r.allocated()
	for n := 1; ; n++ {
		held := tensors(m)
		alloc.left = n
		err := m.To(r.dev, nn.WithAllocator(alloc), nn.DType(tensor.Float64))
		if err == nil {
			require.Greater(t, n, 15, "a value and a gradient of six parameters, two statistics and two new values")
			break
		}
		require.ErrorIs(t, err, memory.ErrOutOfMemory)
		require.Equal(t, held, tensors(m), "allocation %d failed", n)
		require.Equal(t, before, r.allocated())
	}
	for _, p := range m.Parameters() {
		require.Equal(t, tensor.Float64, p.Tensor().DType())
		if p.Grad() != nil {
			require.Equal(t, tensor.Float64, p.Grad().DType())
		}
	}
}

// tensors are the values and gradients of a model, as they are.
func tensors(m nn.Layer) (all []*tensor.Tensor) {
	for _, n := range nn.NamedState(m) {
		all = append(all, n.Parameter.Tensor(), n.Parameter.Grad())
	}
	return all
}

func TestMove_IsCommittedOrReleasedOnce(t *testing.T) {
	r := onHost(t)
	l := nn.Linear(2, 2)
	r.place(l)
	old, before := l.Weight.Tensor(), r.allocated()
	m, err := l.Weight.Move(r.exec, tensor.Float64)
	require.NoError(t, err)
	m.Release()
	m.Commit()
	require.Same(t, old, l.Weight.Tensor())
	require.Equal(t, before, r.allocated())
	m, err = l.Weight.Move(r.exec, tensor.Float64)
	require.NoError(t, err)
	m.Commit()
	m.Commit()
	m.Release()
	require.Equal(t, tensor.Float64, l.Weight.Tensor().DType())
	new(autograd.Move).Commit()
	(*autograd.Move)(nil).Release()
}
