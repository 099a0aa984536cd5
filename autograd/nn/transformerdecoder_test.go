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

// decoderGolden is what PyTorch computed: see testdata/transformerdecoder.py.
type decoderGolden struct {
	Name               string
	Input, Memory, Out array
	InputGrad          array  `json:"input_grad"`
	MemoryGrad         *array `json:"memory_grad"`
	Parameters, Grads  map[string]array
}

func TestTransformerDecoders_ComputeWhatPyTorchComputes(t *testing.T) {
	text, err := os.ReadFile("testdata/transformerdecoder.json")
	require.NoError(t, err)
	var cases []decoderGolden
	require.NoError(t, json.Unmarshal(text, &cases))
	require.Len(t, cases, 5)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { c.check(t) })
	}
}

// bools is a mask of [rows, len/rows] of numbers, as PyTorch has it: true where something is hidden.
func bools(r *rig, g *autograd.Graph, rows int, v ...float64) *autograd.Variable {
	return g.Input(array{Shape: []int{rows, len(v) / rows}, Data: v, Bool: true}.on(r))
}

// decoding is the module of a case, and what runs it.
func (c *decoderGolden) decoding(r *rig) (nn.Module, func(g *autograd.Graph, x, memory *autograd.Variable) *autograd.Variable) {
	plain := []nn.BlockOption{nn.FeedForward(6), nn.BlockDropout(0)}
	behind := func(g *autograd.Graph) []nn.AttendOption {
		return []nn.AttendOption{nn.KeyPaddingMask(bools(r, g, 2, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1))}
	}
	self := func(g *autograd.Graph) []nn.AttendOption {
		return []nn.AttendOption{nn.IsCausal(), nn.KeyPaddingMask(bools(r, g, 2, 0, 0, 1, 0, 0, 0))}
	}
	encoder := func() *nn.TransformerBlockLayer { return nn.TransformerBlock(4, 2, plain...) }
	switch c.Name {
	case "decoder layer":
		l := nn.DecoderBlock(4, 2, plain...)
		return l, func(_ *autograd.Graph, x, y *autograd.Variable) *autograd.Variable { return l.Decode(x, y, nil, nil) }
	case "decoder layer norm first":
		l := nn.DecoderBlock(4, 2, append(plain, nn.NormFirst(), nn.ActivationGELU(), nn.BatchFirst(), nn.CausalBlock())...)
		return l, func(g *autograd.Graph, x, y *autograd.Variable) *autograd.Variable {
			return l.Decode(x, y, nil, behind(g))
		}
	case "decoder":
		m := nn.TransformerDecoder(nn.LayerNorm([]int{4}), nn.DecoderBlock(4, 2, plain...), nn.DecoderBlock(4, 2, plain...))
		return m, func(g *autograd.Graph, x, y *autograd.Variable) *autograd.Variable {
			return m.Decode(x, y, self(g), behind(g))
		}
	case "encoder":
		m := nn.TransformerEncoder(nn.LayerNorm([]int{4}), encoder(), encoder())
		return m, func(g *autograd.Graph, x, _ *autograd.Variable) *autograd.Variable { return m.Attend(x, self(g)...) }
	}
	m := nn.TransformerEncoder(nil, encoder(), encoder(), encoder())
	return m, func(_ *autograd.Graph, x, _ *autograd.Variable) *autograd.Variable { return m.Forward(x) }
}

func (c *decoderGolden) check(t *testing.T) {
	r := onHost(t)
	m, run := c.decoding(r)
	c.compare(t, r, m, run)
}

// compare runs a module with the parameters of a case, and compares results and gradients.
func (c *decoderGolden) compare(t *testing.T, r *rig, m nn.Module, run func(g *autograd.Graph, x, memory *autograd.Variable) *autograd.Variable) {
	r.place(m, nn.DType(tensor.Float64))
	named := nn.NamedParameters(m)
	require.Len(t, named, len(c.Parameters))
	for _, n := range named {
		require.Contains(t, c.Parameters, n.Name)
		require.NoError(t, n.Parameter.Tensor().CopyFrom(c.Parameters[n.Name].on(r)))
	}
	g := r.graph()
	x, memory := g.Input(c.Input.on(r), autograd.RequiresGrad()), g.Input(c.Memory.on(r), autograd.RequiresGrad())
	out := run(g, x, memory).Keep()
	require.NoError(t, out.Square().Sum(nil, false).Backward())
	value, err := out.Tensor()
	require.NoError(t, err)
	c.Out.requireNear(t, value, "result")
	c.InputGrad.requireNear(t, x.Grad(), "gradient of the input")
	if c.MemoryGrad != nil {
		c.MemoryGrad.requireNear(t, memory.Grad(), "gradient of the memory")
	}
	for _, n := range named {
		c.Grads[n.Name].requireNear(t, n.Parameter.Grad(), n.Name)
	}
	g.Release()
	copied, err := nn.Clone(m)
	require.NoError(t, err)
	require.Equal(t, names(nn.NamedState(m)), names(nn.NamedState(copied)))
	copied.Release()
}

func TestDecoderBlock_ThatCannotRunIsAnError(t *testing.T) {
	r := onHost(t)
	broken := nn.DecoderBlock(4, 2)
	broken.Norm3 = nil
	for want, l := range map[string]*nn.DecoderBlockLayer{
		"DecoderBlockLayer: the layer is nil": nil, "the field of part self_attn is nil": {}, "the field of part norm3 is nil": broken,
	} {
		g := r.graph()
		y := l.Decode(g.Ones(tensor.Float32, 3, 2, 4), g.Ones(tensor.Float32, 5, 2, 4), nil, nil)
		require.NotNil(t, y)
		require.ErrorContains(t, g.Err(), want)
		g.Release()
	}
	require.Nil(t, broken.Decode(nil, nil, nil, nil))
	for _, m := range []interface {
		Forward(x *autograd.Variable) *autograd.Variable
	}{(*nn.TransformerEncoderModule)(nil), nn.TransformerEncoder(nil, nil)} {
		g := r.graph()
		m.Forward(g.Ones(tensor.Float32, 3, 2, 4))
		require.Error(t, g.Err())
		g.Release()
	}
	require.Equal(t, "DecoderBlock(width=4, heads=2, feed_forward=2048, dropout=0.1, norm_first=False)", broken.String())
}
