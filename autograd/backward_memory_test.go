package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/internal/inspect"
	"github.com/cistern-ml/cistern/tensor"
)

// The tests in this file count in units of one [64, 64] float32 tensor: 16 KiB, a multiple of the allocator's rounding.
// Scalars take one block of 512 bytes.
const (
	unit   = 64 * 64 * 4
	scalar = 512
)

func (r *rig) square() *tensor.Tensor {
	r.t.Helper()
	return r.zeros(tensor.Float32, 64, 64)
}

// drawn is the allocated bytes, less what was allocated before, after each rule of a backward pass.
func (r *rig) drawn(g *autograd.Graph, v *autograd.Variable, opts ...autograd.BackwardOption) (ops []string, bytes []int64) {
	r.t.Helper()
	inspect.Observe(g, func(op string, backward bool) {
		if backward {
			ops = append(ops, op)
			bytes = append(bytes, r.allocated())
		}
	})
	require.NoError(r.t, v.Backward(opts...))
	inspect.Observe(g, nil)
	return ops, bytes
}

func TestBackward_FreesSavedTensorsAndGradientsNodeByNode(t *testing.T) {
	r := onSim(t)
	x := r.square()
	g := r.graph()
	defer g.Release()
	base := r.allocated()

	// Each exp saves its own result: at the end of the forward pass four units live, and the scalar.
	v := g.Input(x, autograd.RequiresGrad())
	for range 4 {
		v = v.Exp()
	}
	loss := v.Sum(nil, false)
	require.EqualValues(t, base+4*unit+scalar, r.allocated())

	ops, bytes := r.drawn(g, loss)
	require.Equal(t, []string{"sum", "exp", "exp", "exp", "exp"}, ops)
	for i := range bytes {
		bytes[i] -= base
	}
	// The gradient of the sum is the scalar seed, expanded: it takes one block of 512 bytes beside the loss. Each rule of exp
	// makes a new gradient of one unit, and frees its result and the gradient that came in.
	require.Equal(t, []int64{
		4*unit + 2*scalar,      // sum: the seed, as a view, waits for the last exp
		3*unit + unit + scalar, // exp 4: its result is gone, the seed is gone, its gradient is there
		2*unit + unit + scalar,
		1*unit + unit + scalar,
		0*unit + unit + scalar, // the gradient of x is what is left, and the loss
	}, bytes)
}

func TestBackward_PeakIsOneGradientAboveTheForwardPass(t *testing.T) {
	r := onSim(t)
	x := r.square()
	g := r.graph()
	defer g.Release()
	v := g.Input(x, autograd.RequiresGrad())
	for range 8 {
		v = v.Exp()
	}
	loss := v.Sum(nil, false)
	before := r.allocated()
	r.resetPeak()
	require.NoError(t, loss.Backward())
	require.EqualValues(t, before+scalar+unit, r.peak(), "the seed and the first gradient, before the first saved tensor is freed")
}

func TestBackward_RetainedGraphKeepsWhatItSaved(t *testing.T) {
	r := onSim(t)
	x := r.square()
	g := r.graph()
	defer g.Release()
	base := r.allocated()
	v := g.Input(x, autograd.RequiresGrad())
	loss := v.Exp().Exp().Sum(nil, false)
	require.NoError(t, loss.Backward(autograd.RetainGraph()))
	require.EqualValues(t, base+2*unit+scalar+unit, r.allocated(), "two results, the loss, the gradient of x")
	require.NoError(t, loss.Backward())
	require.EqualValues(t, base+scalar+unit, r.allocated())
}

func TestBackward_SavesAnInputOnceForTwoNodes(t *testing.T) {
	r := onSim(t)
	x := r.square()
	g := r.graph()
	defer g.Release()
	base := r.allocated()
	v := g.Input(x, autograd.RequiresGrad())
	var loss *autograd.Variable
	g.Scope(func() *autograd.Variable {
		h := v.Exp() // saved by exp as its output and by both products as an input
		loss = h.Mul(h).Add(h.Mul(h)).Sum(nil, false)
		return loss
	})
	require.EqualValues(t, base+unit+scalar, r.allocated())
	require.NoError(t, loss.Backward())
	require.EqualValues(t, base+unit+scalar, r.allocated(), "the gradient of x, and the loss")
}

func TestBackward_StealsTheFirstGradientOfAParameter(t *testing.T) {
	r := onSim(t)
	w := autograd.NewParameter("w", must(tensor.Zeros(r.exec, tensor.Float32, 64, 64)))
	defer w.Release()
	g := r.graph()
	defer g.Release()
	loss := g.Param(w).Exp().Sum(nil, false)
	r.resetPeak()
	before := r.allocated()
	require.NoError(t, loss.Backward())
	require.EqualValues(t, before+scalar+unit, r.peak(), "no copy of the gradient was made")
	require.EqualValues(t, unit, w.Grad().StorageBytes())
}

func TestBackward_CopiesAFirstGradientThatSomebodyElseHolds(t *testing.T) {
	r := onHost(t)
	w := autograd.NewParameter("w", must(tensor.FromSlice(r.exec, []float64{1, 2, 3})))
	defer w.Release()
	seed := r.tensor([]float64{4, 5, 6})
	g := r.graph()
	require.NoError(t, g.Param(w).AddScalar(1).Backward(autograd.WithGradient(seed)))
	g.Release()
	require.False(t, w.Grad().SharesStorage(seed))
	require.NoError(t, w.Grad().FillInPlace(0))
	require.Equal(t, []float64{4, 5, 6}, values(t, seed))
}

func TestBackward_CopiesAFirstGradientThatIsAPartOfALargerTensor(t *testing.T) {
	r := onSim(t)
	w := autograd.NewParameter("w", must(tensor.Zeros(r.exec, tensor.Float32, 64, 64)))
	defer w.Release()
	rest := r.zeros(tensor.Float32, 640, 64)
	g := r.graph()
	loss := autograd.Cat([]*autograd.Variable{g.Param(w), g.Input(rest)}, 0).Exp().Sum(nil, false)
	require.NoError(t, loss.Backward())
	g.Release()
	require.EqualValues(t, unit, w.Grad().StorageBytes(), "the gradient does not hold on to that of the joined tensor")
}

func TestRelease_LeavesExactlyWhatTheLeavesHold(t *testing.T) {
	for _, withBackward := range []bool{false, true} {
		r := onSim(t)
		x := r.square()
		w := autograd.NewParameter("w", must(tensor.Zeros(r.exec, tensor.Float32, 64, 64)))
		defer w.Release()
		base := r.allocated()
		g := r.graph()
		h := g.Input(x).MatMul(g.Param(w)).ReLU()
		unused := h.Sigmoid().Tanh()
		loss := h.Mean(nil, false)
		if withBackward {
			require.NoError(t, loss.Backward())
		}
		require.True(t, unused.Alive())
		g.Release()
		leaves := base
		if withBackward {
			leaves += unit // the gradient
		}
		require.Equal(t, leaves, r.allocated())
		g.Release()
		require.Equal(t, leaves, r.allocated())
	}
}

func TestHostAndSim_HaveTheSamePeak(t *testing.T) {
	var peaks []int64
	for _, r := range []*rig{onHost(t), onSim(t)} {
		x := keep(t)(tensor.RandN(r.exec, tensor.NewGenerator(1), tensor.Float32, 32, 16))
		y := r.ints(make([]int64, 32))
		w := autograd.NewParameter("w", must(tensor.RandN(r.exec, tensor.NewGenerator(2), tensor.Float32, 8, 16)))
		r.resetPeak()
		g := r.graph(autograd.WithGenerator(tensor.NewGenerator(3)))
		loss := g.Input(x).Linear(g.Param(w), nil).GELU().Dropout(0.1).CrossEntropy(g.Input(y))
		require.NoError(t, loss.Backward())
		g.Release()
		w.Release()
		peaks = append(peaks, r.peak())
	}
	require.Equal(t, peaks[0], peaks[1])
}

// The parts of a variable share one gradient: it is made for the first of them, and the others are added to their places in it.
func TestBackward_PartsOfAVariableShareItsGradient(t *testing.T) {
	r := onSim(t)
	x := r.square()
	g := r.graph()
	defer g.Release()
	whole := g.Input(x, autograd.RequiresGrad()).Exp()
	var sum *autograd.Variable
	for i := range 4 {
		part := whole.Narrow(0, 16*i, 16).Exp().Sum(nil, false)
		if sum == nil {
			sum = part
		} else {
			sum = sum.Add(part)
		}
	}
	r.resetPeak()
	base := r.allocated()
	ops, _ := r.drawn(g, sum)
	require.Len(t, ops, 4*3+3+1)
	// What is saved falls while the gradient grows: one unit for the gradient, a quarter for that of a part.
	require.LessOrEqual(t, r.peak()-base, int64(unit+2*unit/4))
}

func TestBackward_AddsPartsThatOverlap(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	v := g.Input(r.tensor([]float64{1, 2, 3, 4, 5, 6}, 2, 3), autograd.RequiresGrad())
	w := v.MulScalar(1)
	loss := w.Slice(1, 0, 3, 2).Sum(nil, false).Add(w.Select(0, 1).MulScalar(10).Sum(nil, false)).Add(w.Narrow(1, 1, 2).MulScalar(100).Sum(nil, false))
	require.NoError(t, loss.Add(w.Sum(nil, false).MulScalar(1000)).Backward())
	require.Equal(t, []float64{1001, 1100, 1101, 1011, 1110, 1111}, values(t, v.Grad()))
}
