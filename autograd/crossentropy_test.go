package autograd_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// headOf is a model's last layer over a large vocabulary: logits [2, 32, 64], one unit, viewed as rows.
func headOf(r *rig, g *autograd.Graph) (logits, loss *autograd.Variable) {
	x := g.Input(r.zeros(tensor.Float32, 2, 32, 8), autograd.RequiresGrad())
	logits = x.Linear(g.Input(r.zeros(tensor.Float32, 64, 8), autograd.RequiresGrad()), nil)
	return logits, logits.Reshape(64, 64).CrossEntropy(g.Input(r.zeros(tensor.Int64, 64)))
}

func TestCrossEntropy_WritesItsGradientOverTheLogits(t *testing.T) {
	r := onSim(t)
	g := r.graph()
	defer g.Release()
	_, loss := headOf(r, g)
	held := r.allocated()
	r.resetPeak()
	require.NoError(t, loss.Backward())
	require.Less(t, r.peak(), held+unit/2, "no second tensor of the size of the logits")
}

func TestCrossEntropy_LeavesLogitsAloneThatSomebodyMayRead(t *testing.T) {
	for name, read := range map[string]func(g *autograd.Graph, x *autograd.Variable) (logits, kept *autograd.Variable){
		"kept": func(_ *autograd.Graph, x *autograd.Variable) (logits, kept *autograd.Variable) {
			logits = x.MulScalar(2)
			return logits, logits.Keep()
		},
		"a leaf": func(_ *autograd.Graph, x *autograd.Variable) (logits, kept *autograd.Variable) { return x, x },
		"a view of a leaf": func(_ *autograd.Graph, x *autograd.Variable) (logits, kept *autograd.Variable) {
			return x.Reshape(4, 3), x
		},
		"another view is kept": func(_ *autograd.Graph, x *autograd.Variable) (logits, kept *autograd.Variable) {
			logits = x.MulScalar(2)
			return logits, logits.Narrow(0, 1, 2).Keep()
		},
		"what it is a view of is kept": func(_ *autograd.Graph, x *autograd.Variable) (logits, kept *autograd.Variable) {
			kept = x.MulScalar(2).Keep()
			return kept.Unsqueeze(0).Reshape(4, 3), kept
		},
	} {
		r := onHost(t)
		g := r.graph()
		logits, kept := read(g, g.Input(r.random(1, 4, 3), autograd.RequiresGrad()))
		before := valuesOf(t, kept)
		require.NoError(t, logits.CrossEntropy(g.Input(r.ints([]int64{0, 1, 2, 0}))).Backward(), name)
		require.Equal(t, before, valuesOf(t, kept), name)
		g.Release()
	}
}

func TestCrossEntropy_LeavesLogitsAloneThatAnotherBackwardWillRead(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.random(1, 4, 3), autograd.RequiresGrad())
	loss := x.MulScalar(2).CrossEntropy(g.Input(r.ints([]int64{0, 1, 2, 0})))
	require.NoError(t, loss.Backward(autograd.RetainGraph()))
	once := values(t, x.Grad())
	require.NoError(t, loss.Backward())
	for i, v := range values(t, x.Grad()) {
		require.InDelta(t, 2*once[i], v, 1e-15)
	}
}

// The gradient of logits that two losses share: the later loss must find them as they were.
func TestCrossEntropy_OfSharedLogitsAddsUp(t *testing.T) {
	r := onHost(t)
	classes := r.ints([]int64{0, 2, 1, 1})
	grad := func(f func(logits, y *autograd.Variable) *autograd.Variable) []float64 {
		g := r.graph()
		defer g.Release()
		x := g.Input(r.random(1, 4, 3), autograd.RequiresGrad())
		require.NoError(t, f(x.MulScalar(2), g.Input(classes)).Backward())
		return values(t, x.Grad())
	}
	twice := grad(func(v, y *autograd.Variable) *autograd.Variable { return v.CrossEntropy(y).Add(v.CrossEntropy(y)) })
	once := grad(func(v, y *autograd.Variable) *autograd.Variable { return v.CrossEntropy(y) })
	square := grad(func(v, _ *autograd.Variable) *autograd.Variable { return v.Mul(v).Sum(nil, false) })
	both := grad(func(v, y *autograd.Variable) *autograd.Variable {
		return v.Mul(v).Sum(nil, false).Add(v.CrossEntropy(y))
	})
	for i := range once {
		require.InDelta(t, 2*once[i], twice[i], 1e-15)
		require.InDelta(t, once[i]+square[i], both[i], 1e-14)
	}
}

func TestCrossEntropy_GradientOfRowsThatAreCertainIsWhatIsLeftOfTheDifference(t *testing.T) {
	r := onHost(t)
	gradient := func(logits []float32, classes int) []float64 {
		g := r.graph()
		defer g.Release()
		x := g.Input(keep(t)(tensor.FromSlice(r.exec, logits, len(logits)/classes, classes)), autograd.RequiresGrad())
		require.NoError(t, x.CrossEntropy(g.Input(r.ints(make([]int64, len(logits)/classes)))).Backward())
		return values(t, x.Grad())
	}
	require.Equal(t, []float64{0, 0, 0, 0, 0, 0, 0}, gradient([]float32{0, 1, 1, 1, 1, 1, 3}, 1), "of one class")
	rest := math.Exp(-20) / (1 + math.Exp(-20))
	require.InDeltaSlice(t, []float64{-rest, rest}, gradient([]float32{20, 0}, 2), 1e-6*rest)
}

func TestCrossEntropy_OfOneClassHasNoGradient(t *testing.T) {
	for name, opts := range map[string][]autograd.ClassLossOption{
		"smoothed": {autograd.LabelSmoothing(0.1)}, "of each row": {autograd.LabelSmoothing(0.1), autograd.Reduce(autograd.NoReduction)},
	} {
		r := onHost(t)
		g := r.graph()
		x := g.Input(r.tensor([]float64{1.5, -2}, 2, 1), autograd.RequiresGrad())
		loss := x.CrossEntropy(g.Input(r.ints([]int64{0, 0})), opts...)
		require.NoError(t, loss.Sum(nil, false).Backward(), name)
		require.Equal(t, []float64{0, 0}, values(t, x.Grad()), name)
		g.Release()
	}
}
