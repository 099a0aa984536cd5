package nn_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// rotaryGolden is what PyTorch computed: see testdata/rotary.py.
type rotaryGolden struct {
	Dim         int
	Base        float64
	Interleaved bool
	Positions   [][]int64 // of each row of the batch
	Input       []float32 // [2, 2, 3, 8]
	Out         []float64
}

func (c *rotaryGolden) module() *nn.RotaryEmbeddingModule {
	opts := []nn.RotaryOption{nn.RotaryBase(c.Base), nil}
	if c.Interleaved {
		opts = append(opts, nn.RotaryInterleaved())
	}
	return nn.RotaryEmbedding(c.Dim, 1024, opts...)
}

func TestRotaryEmbedding_ComputesWhatPyTorchComputes(t *testing.T) {
	text, err := os.ReadFile("testdata/rotary.json")
	require.NoError(t, err)
	var cases []rotaryGolden
	require.NoError(t, json.Unmarshal(text, &cases))
	require.NotEmpty(t, cases)
	r := onHost(t)
	for _, c := range cases {
		l := c.module()
		r.place(l)
		x := r.tensor(c.Input, 2, 2, 3, 8)
		run := func(f func(x *autograd.Variable) *autograd.Variable) []float64 {
			g := r.graph(autograd.NoGrad())
			defer g.Release()
			v, err := f(g.Input(x)).Float64s()
			require.NoError(t, err)
			return v
		}
		require.InDeltaSlice(t, c.Out, run(func(x *autograd.Variable) *autograd.Variable {
			return l.AtPositions(x, autograd.FromSlice(x.Graph(), slices.Concat(c.Positions...), 2, 3))
		}), 2e-6, "%+v", c)
		if !slices.Equal(c.Positions[0], c.Positions[1]) {
			continue
		}
		first := int(c.Positions[0][0])
		require.InDeltaSlice(t, c.Out, run(func(x *autograd.Variable) *autograd.Variable { return l.At(x, first) }), 2e-6, "%+v", c)
		require.InDeltaSlice(t, c.Out, run(func(x *autograd.Variable) *autograd.Variable {
			return l.AtPositions(x, autograd.FromSlice(x.Graph(), c.Positions[0]))
		}), 2e-6, "%+v", c)
		if first == 0 {
			require.InDeltaSlice(t, c.Out, run(l.Forward), 2e-6, "%+v", c)
		}
	}
}

func TestRotaryEmbedding_IsNoPartOfFiles_AndMovesWithItsModel(t *testing.T) {
	r := onHost(t)
	rope := nn.RotaryEmbedding(4, 6, nn.RotaryInterleaved())
	model := nn.Sequential(nn.Linear(4, 4), rope)
	r.place(model, nn.DType(tensor.Float64))
	require.Equal(t, "RotaryEmbedding(4, max_len=6, base=10000, interleaved=True)", rope.String())
	require.Len(t, nn.NamedBuffers(model), 2)
	require.Equal(t, tensor.Float64, nn.NamedBuffers(model)[0].Parameter.Tensor().DType())
	require.Len(t, nn.NamedState(model), 2, "weight and bias")
	require.Len(t, nn.AllNamedState(model), 2)
	var file bytes.Buffer
	require.NoError(t, nn.Save(&file, model))
	require.NoError(t, nn.Load(&file, model))
	require.Empty(t, model.Parameters()[2:])
}

func TestRotaryEmbedding_RefusesWhatItHasNoAnglesFor(t *testing.T) {
	r := onHost(t)
	l := nn.RotaryEmbedding(4, 6)
	r.place(l)
	x := r.tensor(make([]float32, 24), 2, 3, 4)
	base := r.allocated()
	var argument *nn.ArgumentError
	var shape *tensor.ShapeError
	for name, c := range map[string]struct {
		f    func(x *autograd.Variable) *autograd.Variable
		want any
	}{
		"positions 4..6 of 6": {func(x *autograd.Variable) *autograd.Variable { return l.At(x, 4) }, &argument},
		"positions -1..1":     {func(x *autograd.Variable) *autograd.Variable { return l.At(x, -1) }, &argument},
		"at least 4 elements": {func(x *autograd.Variable) *autograd.Variable { return l.Forward(x.Narrow(-1, 0, 3)) }, &shape},
		"positions of [2]": {func(x *autograd.Variable) *autograd.Variable {
			return l.AtPositions(x, x.Graph().Zeros(tensor.Int64, 2))
		}, &shape},
		"positions of [3, 3]": {func(x *autograd.Variable) *autograd.Variable {
			return l.AtPositions(x, x.Graph().Zeros(tensor.Int64, 3, 3))
		}, &shape},
		"nil":                             {func(x *autograd.Variable) *autograd.Variable { return l.AtPositions(x, nil) }, nil},
		"nn: RotaryEmbedding: 3 elements": {func(x *autograd.Variable) *autograd.Variable { return nn.RotaryEmbedding(3, 6).Forward(x) }, &argument},
		"the base is -1": {func(x *autograd.Variable) *autograd.Variable {
			return nn.RotaryEmbedding(4, 6, nn.RotaryBase(-1)).Forward(x)
		}, &argument},
	} {
		g := r.graph()
		c.f(g.Input(x))
		require.ErrorContains(t, g.Err(), name)
		if c.want != nil {
			require.ErrorAs(t, g.Err(), c.want, name)
		}
		g.Release()
		require.Equal(t, base, r.allocated())
	}
	require.ErrorAs(t, nn.RotaryEmbedding(4, -1).To(r.dev), &argument)
}

func TestRotaryEmbedding_OfNoPositionsHasNoTables(t *testing.T) {
	r := onHost(t)
	l := nn.RotaryEmbedding(1<<41, 0)
	require.NoError(t, l.To(r.dev, nn.WithAllocator(r.alloc)))
	defer l.Release()
	require.Zero(t, r.allocated())
}
