package nn_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// blockGolden is what PyTorch computed: see testdata/transformer.py.
type blockGolden struct {
	Name              string
	Causal, GELU      bool
	NormFirst         bool `json:"norm_first"`
	BatchFirst        bool `json:"batch_first"`
	Input, Out        array
	InputGrad         array `json:"input_grad"`
	Parameters, Grads map[string]array
}

func (c *blockGolden) layer() *nn.TransformerBlockLayer {
	opts := []nn.BlockOption{nn.FeedForward(6), nn.BlockDropout(0)}
	if c.BatchFirst {
		opts = append(opts, nn.BatchFirst())
	}
	if c.GELU {
		opts = append(opts, nn.ActivationGELU())
	}
	if c.NormFirst {
		opts = append(opts, nn.NormFirst())
	}
	if c.Causal {
		opts = append(opts, nn.CausalBlock())
	}
	return nn.TransformerBlock(4, 2, opts...)
}

func TestTransformerBlock_ComputesWhatPyTorchComputes(t *testing.T) {
	text, err := os.ReadFile("testdata/transformer.json")
	require.NoError(t, err)
	var cases []blockGolden
	require.NoError(t, json.Unmarshal(text, &cases))
	require.NotEmpty(t, cases)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { c.check(t) })
	}
}

func (c *blockGolden) check(t *testing.T) {
	r := onHost(t)
	l := c.layer()
	r.place(l, nn.DType(tensor.Float64))
	named := nn.NamedParameters(l)
	require.Len(t, named, len(c.Parameters))
	for _, p := range named {
		require.Contains(t, c.Parameters, p.Name)
		require.NoError(t, p.Parameter.Tensor().CopyFrom(c.Parameters[p.Name].on(r)))
	}
	g := r.graph()
	defer g.Release()
	x := g.Input(c.Input.on(r), autograd.RequiresGrad())
	out := l.Forward(x).Keep()
	require.NoError(t, out.Mul(out).Sum(nil, false).Backward())
	value, err := out.Tensor()
	require.NoError(t, err)
	c.Out.requireNear(t, value, "result")
	c.InputGrad.requireNear(t, x.Grad(), "gradient of the input")
	for _, p := range named {
		c.Grads[p.Name].requireNear(t, p.Parameter.Grad(), p.Name)
	}
}

func TestTransformerBlock_DropsOutInTrainingOnly(t *testing.T) {
	r := onHost(t)
	l := nn.TransformerBlock(8, 2, nn.FeedForward(16), nn.NormFirst(), nn.BatchFirst())
	r.place(l, nn.Seed(1))
	run := func() []float64 {
		g := r.graph(autograd.NoGrad())
		defer g.Release()
		x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float32, 2, 3, 8) })
		v, err := l.Forward(x).Float64s()
		require.NoError(t, err)
		return v
	}
	require.NotEqual(t, run(), run())
	nn.Eval(l)
	require.Equal(t, run(), run())
	require.Equal(t, "TransformerBlock(width=8, heads=2, feed_forward=16, dropout=0.1, norm_first=True)", l.String())
}
