package nn_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// normLayers are the layers of testdata/norm.py.
var normLayers = map[string]func() nn.Layer{
	"layer norm":               func() nn.Layer { return nn.LayerNorm([]int{3}) },
	"layer norm two dims":      func() nn.Layer { return nn.LayerNorm([]int{2, 3}, nn.Eps(1e-3)) },
	"layer norm plain":         func() nn.Layer { return nn.LayerNorm([]int{2, 3}, nn.Affine(false)) },
	"group norm":               func() nn.Layer { return nn.GroupNorm(2, 4) },
	"group norm plain":         func() nn.Layer { return nn.GroupNorm(2, 4, nn.Affine(false)) },
	"instance norm 1d":         func() nn.Layer { return nn.InstanceNorm1d(3) },
	"instance norm 2d":         func() nn.Layer { return nn.InstanceNorm2d(3, nn.Affine(true)) },
	"batch norm 1d":            func() nn.Layer { return nn.BatchNorm1d(3) },
	"batch norm 1d lines":      func() nn.Layer { return nn.BatchNorm1d(3, nn.Eps(1e-3), nn.Momentum(0.3)) },
	"batch norm 2d":            func() nn.Layer { return nn.BatchNorm2d(3) },
	"batch norm 2d cumulative": func() nn.Layer { return nn.BatchNorm2d(3, nn.Momentum(nn.CumulativeAverage)) },
	"batch norm 3d plain":      func() nn.Layer { return nn.BatchNorm3d(2, nn.Affine(false)) },
	"batch norm 1d stateless":  func() nn.Layer { return nn.BatchNorm1d(3, nn.RunningStats(false)) },
}

// described is a tensor of PyTorch's.
type described struct {
	Shape  []int
	DType  string
	Values []float64
}

func (d described) check(t *testing.T, got *tensor.Tensor, what string) {
	t.Helper()
	require.True(t, got.Shape().Equal(d.Shape), "%s: %v, want %v", what, got.Shape(), d.Shape)
	require.Equal(t, d.DType, got.DType().String(), what)
	values, err := got.Float64s()
	require.NoError(t, err)
	require.InDeltaSlice(t, d.Values, values, 1e-12, what)
}

func TestNorms_DoWhatPyTorchsLayersDo(t *testing.T) {
	text, err := os.ReadFile("testdata/norm.json")
	require.NoError(t, err)
	var cases []struct {
		Name, Text string
		Shape      []int
		Inputs     [][]float64
		Outputs    []described
		State      map[string]described
	}
	require.NoError(t, json.Unmarshal(text, &cases))
	require.Len(t, cases, len(normLayers))
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			r := onHost(t)
			m := normLayers[c.Name]()
			r.place(m, nn.DType(tensor.Float64))
			require.Equal(t, c.Text, fmt.Sprint(m))
			for i, in := range c.Inputs {
				if i == 2 {
					nn.Eval(m)
				}
				x, err := tensor.FromSlice(r.exec, in, c.Shape...)
				require.NoError(t, err)
				g := r.graph(autograd.NoGrad())
				y, err := m.Forward(g.Input(x)).Tensor()
				require.NoError(t, err)
				c.Outputs[i].check(t, y, fmt.Sprintf("batch %d", i))
				g.Release()
				x.Release()
			}
			state := nn.NamedState(m)
			require.Len(t, state, len(c.State))
			for _, n := range state {
				require.Contains(t, c.State, n.Name)
				c.State[n.Name].check(t, n.Parameter.Tensor(), n.Name)
			}
		})
	}
}

func TestRMSNorm_IsOfUnitSizeTimesItsWeight(t *testing.T) {
	r := onHost(t)
	m := nn.RMSNorm([]int{2}, nn.WeightInit(nn.Constant(2)))
	r.place(m)
	require.Equal(t, "RMSNorm((2,), eps=None, elementwise_affine=True)", fmt.Sprint(m))
	require.Equal(t, "RMSNorm((2, 3), eps=1e-06, elementwise_affine=False)", fmt.Sprint(nn.RMSNorm([]int{2, 3}, nn.Eps(1e-6), nn.Affine(false))))
	y := r.forward(m, r.tensor([]float32{3, 4, -30, 40}, 2, 2))
	require.InDeltaSlice(t, []float64{1.697056, 2.262742, -1.697056, 2.262742}, y, 1e-5)
}

func TestNorms_TrainTheirParametersAndNotTheirBuffers(t *testing.T) {
	r := onHost(t)
	m := nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.LayerNorm([]int{4}, nn.NoBias()))
	r.place(m, nn.Seed(1))
	require.Len(t, m.Parameters(), 2+2+1)
	require.Len(t, m.Buffers(), 3)
	var names []string
	for _, n := range nn.NamedBuffers(m) {
		names = append(names, n.Name)
	}
	require.Equal(t, []string{"1.running_mean", "1.running_var", "1.num_batches_tracked"}, names)
	g := r.graph()
	defer g.Release()
	y := m.Forward(g.Input(r.tensor([]float32{1, 2, 3, 4, -5, 6, -7, 8, 9}, 3, 3)))
	require.NoError(t, y.Mul(y).Mul(y).Sum(nil, false).Backward())
	for _, p := range m.Parameters() {
		require.NotNil(t, p.Grad(), p.Name())
	}
	for _, p := range m.Buffers() {
		require.Nil(t, p.Grad(), p.Name())
	}
}

func TestBatchNorm_StateSurvivesSaveAndLoad(t *testing.T) {
	r := onHost(t)
	x := r.tensor([]float32{1, 2, 3, 4, 5, 7}, 3, 2)
	a, b := nn.Sequential(nn.BatchNorm1d(2)), nn.Checkpointed(nn.Sequential(nn.BatchNorm1d(2)))
	r.place(a)
	r.place(b)
	r.forward(a, x)
	r.forward(a, x)
	r.forward(b, x)
	var file bytes.Buffer
	require.NoError(t, nn.Save(&file, a))
	require.NoError(t, nn.Load(&file, b))
	r.forward(a, x)
	r.forward(b, x)
	mine, other := nn.NamedState(a), nn.NamedState(b)
	require.Len(t, other, 5)
	for i, n := range mine {
		require.Equal(t, n.Name, other[i].Name)
		require.Equal(t, valuesOf(t, n.Parameter), valuesOf(t, other[i].Parameter), n.Name)
	}
	require.Equal(t, []float64{3}, valuesOf(t, other[4].Parameter), "the count goes on from what was loaded")
}

func TestTo_ConvertsBuffersThatAreNotWholeNumbers(t *testing.T) {
	r := onHost(t)
	m := nn.BatchNorm2d(2)
	r.place(m)
	require.NoError(t, m.To(r.dev, nn.WithAllocator(r.alloc), nn.DType(tensor.Float16)))
	require.Equal(t, tensor.Float16, m.RunningVar.Tensor().DType())
	require.Equal(t, tensor.Int64, m.BatchesTracked.Tensor().DType())
	x, err := tensor.Ones(r.exec, tensor.Float16, 2, 2, 2, 2)
	require.NoError(t, err)
	defer x.Release()
	r.forward(m, x)
	require.InDeltaSlice(t, []float64{0.1, 0.1}, valuesOf(t, m.RunningMean), 1e-3)
	nn.Eval(m)
	r.forward(m, x)
}

func TestBatchNorm_RefusesOtherShapes(t *testing.T) {
	r := onHost(t)
	for text, m := range map[string]nn.Layer{
		"BatchNorm1d": nn.BatchNorm1d(3), "BatchNorm2d": nn.BatchNorm2d(2), "InstanceNorm1d": nn.InstanceNorm1d(2),
		"running_mean": nil, // no memory
	} {
		place := m != nil
		if !place {
			m = nn.BatchNorm1d(2, nn.Affine(false))
		} else {
			r.place(m)
		}
		g := r.graph()
		m.Forward(g.Input(r.tensor([]float32{1, 2, 3, 4}, 2, 2)))
		require.ErrorContains(t, g.Err(), text)
		g.Release()
	}
}

func TestEmbedding_PaddingRowIsZeroAndStaysIt(t *testing.T) {
	r := onHost(t)
	m := nn.Embedding(3, 2, nn.PaddingIdx(-1))
	r.place(m, nn.Seed(1))
	require.Equal(t, "Embedding(3, 2, padding_idx=2)", fmt.Sprint(m))
	require.Equal(t, []float64{0, 0}, valuesOf(t, m.Weight)[4:])
	require.NotZero(t, valuesOf(t, m.Weight)[0])
	g := r.graph()
	defer g.Release()
	index, err := tensor.FromSlice(r.exec, []int64{2, 0, 2, 0}, 2, 2)
	require.NoError(t, err)
	defer index.Release()
	require.NoError(t, m.Forward(g.Input(index)).Sum(nil, false).Backward())
	grad, err := m.Weight.Grad().Float64s()
	require.NoError(t, err)
	require.Equal(t, []float64{2, 2, 0, 0, 0, 0}, grad)
}

func TestEmbeddingBag_AveragesRowsAndLeavesThePaddingOut(t *testing.T) {
	r := onHost(t)
	m := nn.EmbeddingBag(3, 2, tensor.BagMean, nn.PaddingIdx(2), nn.WeightInit(nn.Ones))
	r.place(m)
	require.Equal(t, "EmbeddingBag(3, 2, mode='mean', padding_idx=2)", fmt.Sprint(m))
	require.Len(t, m.Parameters(), 1)
	index, err := tensor.FromSlice(r.exec, []int64{0, 2, 1, 1, 2, 2}, 3, 2)
	require.NoError(t, err)
	defer index.Release()
	require.Equal(t, []float64{1, 1, 1, 1, 0, 0}, r.forward(m, index))
	g := r.graph()
	defer g.Release()
	offsets, err := tensor.FromSlice(r.exec, []int64{0, 4}, 2)
	require.NoError(t, err)
	defer offsets.Release()
	y := m.Bags(g.Input(index).Reshape(6), g.Input(offsets))
	require.NoError(t, y.Sum(nil, false).Backward())
	grad, err := m.Weight.Grad().Float64s()
	require.NoError(t, err)
	require.InDeltaSlice(t, []float64{1. / 3, 1. / 3, 2. / 3, 2. / 3, 0, 0}, grad, 1e-6)
}

// A training step of a normalised model needs no more memory on a simulated device than on the host, and leaves nothing.
func TestBatchNorm_RunsOnASimulatedDevice(t *testing.T) {
	r := onSim(t)
	m := nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
	r.place(m)
	before := r.allocated()
	for range 2 {
		g := r.graph(autograd.WithGenerator(tensor.NewGenerator(1)))
		x, err := tensor.Zeros(r.exec, tensor.Float32, 8, 4)
		require.NoError(t, err)
		require.NoError(t, m.Forward(g.Input(x)).Sum(nil, false).Backward())
		x.Release()
		g.Release()
	}
	for _, p := range m.Parameters() {
		p.ZeroGrad()
	}
	require.Equal(t, before, r.allocated())
}
