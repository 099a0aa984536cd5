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

// weightsGolden is what PyTorch computed: see testdata/attentionweights.py.
type weightsGolden struct {
	Name              string
	Average, Cross    bool
	BatchFirst        bool `json:"batch_first"`
	KDim              int
	Input, Key        array
	Attn, Padding     *array
	Out, Weights      array
	InputGrad         array `json:"input_grad"`
	Parameters, Grads map[string]array
}

func TestAttendWeights_GivesWhatPyTorchGives(t *testing.T) {
	text, err := os.ReadFile("testdata/attentionweights.json")
	require.NoError(t, err)
	var cases []weightsGolden
	require.NoError(t, json.Unmarshal(text, &cases))
	require.Len(t, cases, 5)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { c.check(t) })
	}
}

func (c *weightsGolden) check(t *testing.T) {
	r := onHost(t)
	opts := []nn.AttentionLayerOption{nn.KDim(c.KDim), nn.VDim(c.KDim)}
	if c.BatchFirst {
		opts = append(opts, nn.BatchFirst())
	}
	l := nn.MultiheadAttention(4, 2, opts...)
	r.place(l, nn.DType(tensor.Float64))
	for _, n := range nn.NamedParameters(l) {
		require.Contains(t, c.Parameters, n.Name)
		require.NoError(t, n.Parameter.Tensor().CopyFrom(c.Parameters[n.Name].on(r)))
	}
	g := r.graph()
	x := g.Input(c.Input.on(r), autograd.RequiresGrad())
	k := x
	if c.Cross {
		k = g.Input(c.Key.on(r))
	}
	var masks []nn.AttendOption
	if c.Attn != nil {
		masks = append(masks, nn.AttnMask(g.Input(c.Attn.on(r))))
	}
	if c.Padding != nil {
		masks = append(masks, nn.KeyPaddingMask(g.Input(c.Padding.on(r))))
	}
	before := r.allocated()
	out, weights := l.AttendWeights(x, k, k, c.Average, masks...)
	out.Keep()
	weights.Keep()
	require.NoError(t, out.Square().Sum(nil, false).Add(weights.Square().Sum(nil, false)).Backward())
	for _, v := range []struct {
		want array
		got  *autograd.Variable
	}{{c.Out, out}, {c.Weights, weights}} {
		value, err := v.got.Tensor()
		require.NoError(t, err)
		v.want.requireNear(t, value, "result")
	}
	c.InputGrad.requireNear(t, x.Grad(), "gradient of the input")
	same := l.Attend(x, k, k, masks...)
	value, err := same.Tensor()
	require.NoError(t, err)
	c.Out.requireNear(t, value, "Attend")
	g.Release()
	for _, n := range nn.NamedParameters(l) {
		c.Grads[n.Name].requireNear(t, n.Parameter.Grad(), n.Name)
		n.Parameter.ZeroGrad()
	}
	require.Equal(t, before, r.allocated())
}

func TestAttendWeights_DropsOutAndRefuses(t *testing.T) {
	r := onHost(t)
	l := nn.MultiheadAttention(4, 2, nn.AttentionDropout(0.5))
	r.place(l, nn.Seed(1))
	g := r.graph(autograd.NoGrad(), autograd.WithGenerator(tensor.NewGenerator(1)))
	x := g.Ones(tensor.Float32, 8, 1, 4)
	_, w := l.AttendWeights(x, x, x, false)
	v, err := w.Float64s()
	require.NoError(t, err)
	require.Contains(t, v, 0.0)
	require.Contains(t, v, 0.25, "1/8, doubled")
	l.AttendWeights(x, g.Ones(tensor.Float32, 8, 1, 3), x, true)
	var shape *tensor.ShapeError
	require.ErrorAs(t, g.Err(), &shape)
	g.Release()
	out, none := l.AttendWeights(nil, nil, nil, true)
	require.Nil(t, out)
	require.Nil(t, none)
	for _, l := range []*nn.MultiheadAttentionLayer{nil, {}} {
		g = r.graph()
		x = g.Ones(tensor.Float32, 8, 1, 4)
		l.AttendWeights(x, x, x, true)
		require.Error(t, g.Err())
		g.Release()
	}
}
