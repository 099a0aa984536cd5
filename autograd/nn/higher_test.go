package nn_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// trained is what testdata/higher.py found.
type trained struct {
	Loss  float64
	Grads map[string][]float64
}

// wave are the numbers of the script.
func wave(phase float64, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = math.Sin(float64(i)*0.7+phase) * 0.5
	}
	return x
}

// waves gives the parameters of m the numbers of the script, of phases from first on.
func (r *rig) waves(m nn.Module, first float64) {
	for i, p := range nn.NamedParameters(m) {
		x, err := tensor.FromSlice(r.exec, wave(first+float64(i), p.Parameter.Tensor().Len()), p.Parameter.Shape()...)
		require.NoError(r.t, err)
		require.NoError(r.t, p.Parameter.Tensor().CopyFrom(x))
		x.Release()
	}
}

// wave is an input of the script's.
func (r *rig) wave(g *autograd.Graph, phase float64, rows, columns int, opts ...autograd.LeafOption) *autograd.Variable {
	x, err := tensor.FromSlice(r.exec, wave(phase, rows*columns), rows, columns)
	require.NoError(r.t, err)
	defer x.Release()
	return g.Input(x, opts...)
}

func (want trained) check(t *testing.T, m nn.Module, loss float64) {
	require.InDelta(t, want.Loss, loss, 1e-12)
	for _, p := range nn.NamedParameters(m) {
		require.InDeltaSlice(t, want.Grads[p.Name], valuesOfGrad(t, p.Parameter), 1e-12, p.Name)
	}
}

func valuesOfGrad(t *testing.T, p *autograd.Parameter) []float64 {
	x, err := p.Grad().Float64s()
	require.NoError(t, err)
	return x
}

func higher(t *testing.T) map[string]trained {
	text, err := os.ReadFile(filepath.Join("testdata", "higher.json"))
	require.NoError(t, err)
	var all map[string]trained
	require.NoError(t, json.Unmarshal(text, &all))
	return all
}

// MAML: the loss of weights that two steps of gradient descent have made, by the weights before them.
func TestHigher_MetaLearningIsThatOfPyTorch(t *testing.T) {
	r := onHost(t)
	m := nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 1))
	r.place(m, nn.DType(tensor.Float64))
	r.waves(m, 1)
	before := r.allocated()
	g := r.graph()
	x, y := r.wave(g, 0.3, 4, 2), r.wave(g, 0.9, 4, 1)
	names := nn.NamedParameters(m)
	fast := map[string]*autograd.Variable{}
	for _, p := range names {
		fast[p.Name] = g.Param(p.Parameter)
	}
	for range 2 {
		loss := nn.WithParameters(g, m, fast, func() *autograd.Variable { return m.Forward(x).MSELoss(y, autograd.MeanReduction) })
		var at []*autograd.Variable
		for _, p := range names {
			at = append(at, fast[p.Name])
		}
		grads, err := autograd.Grad([]*autograd.Variable{loss}, at, autograd.CreateGraph())
		require.NoError(t, err)
		for i, p := range names {
			fast[p.Name] = at[i].Sub(grads[i].MulScalar(0.4))
		}
	}
	meta := nn.WithParameters(g, m, fast, func() *autograd.Variable {
		return m.Forward(r.wave(g, 2.3, 4, 2)).MSELoss(r.wave(g, 1.9, 4, 1), autograd.MeanReduction)
	})
	require.NoError(t, meta.Backward())
	loss, err := meta.Item()
	require.NoError(t, err)
	g.Release()
	higher(t)["maml"].check(t, m, loss)
	for _, p := range names {
		p.Parameter.ZeroGrad()
	}
	require.Equal(t, before, r.allocated())
}

// WGAN-GP: the loss of a critic has the norm of its gradient by the input.
func TestHigher_GradientPenaltyIsThatOfPyTorch(t *testing.T) {
	r := onHost(t)
	m := nn.Sequential(nn.Linear(3, 6), nn.LayerNorm([]int{6}), nn.LeakyReLU(0.2), nn.Linear(6, 1))
	r.place(m, nn.DType(tensor.Float64))
	r.waves(m, 0.5)
	before := r.allocated()
	g := r.graph()
	x := r.wave(g, 0.1, 4, 3, autograd.RequiresGrad())
	score := m.Forward(x)
	grads, err := autograd.Grad([]*autograd.Variable{score.Sum(nil, false)}, []*autograd.Variable{x}, autograd.CreateGraph())
	require.NoError(t, err)
	penalty := grads[0].Norm(2, []int{1}, false).SubScalar(1).Square().Mean(nil, false).MulScalar(10)
	total := penalty.Add(score.Mean(nil, false))
	require.NoError(t, total.Backward())
	loss, err := total.Item()
	require.NoError(t, err)
	g.Release()
	higher(t)["penalty"].check(t, m, loss)
	for _, p := range m.Parameters() {
		p.ZeroGrad()
	}
	require.Equal(t, before, r.allocated())
}
