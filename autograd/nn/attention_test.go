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

// array is a tensor in a golden file.
type array struct {
	Shape []int
	Data  []float64
	Bool  bool
}

// attentionGolden is what PyTorch computed: see testdata/attention.py.
type attentionGolden struct {
	Name                     string
	Embed, Heads, KDim, VDim int
	BatchFirst               bool `json:"batch_first"`
	Bias                     bool
	Masks, Parameters, Grads map[string]array
	Given                    []array
	GivenGrads               []array `json:"given_grads"`
	Out                      array
}

func (a array) on(r *rig) *tensor.Tensor {
	r.t.Helper()
	x, err := tensor.FromSlice(r.exec, a.Data, append([]int{}, a.Shape...)...)
	require.NoError(r.t, err)
	r.t.Cleanup(x.Release)
	if !a.Bool {
		return x
	}
	b, err := x.To(tensor.Bool)
	require.NoError(r.t, err)
	r.t.Cleanup(b.Release)
	return b
}

func (a array) requireNear(t *testing.T, got *tensor.Tensor, what string) {
	t.Helper()
	require.NotNil(t, got, what)
	require.Equal(t, tensor.Shape(a.Shape), got.Shape(), what)
	v, err := got.Float64s()
	require.NoError(t, err)
	require.InDeltaSlice(t, a.Data, v, 1e-12, what)
}

func (c *attentionGolden) layer() *nn.MultiheadAttentionLayer {
	opts := []nn.AttentionLayerOption{nn.KDim(c.KDim), nn.VDim(c.VDim)}
	if c.BatchFirst {
		opts = append(opts, nn.BatchFirst())
	}
	if !c.Bias {
		opts = append(opts, nn.AttentionNoBias())
	}
	return nn.MultiheadAttention(c.Embed, c.Heads, opts...)
}

func TestMultiheadAttention_ComputesWhatPyTorchComputes(t *testing.T) {
	text, err := os.ReadFile("testdata/attention.json")
	require.NoError(t, err)
	var cases []attentionGolden
	require.NoError(t, json.Unmarshal(text, &cases))
	require.NotEmpty(t, cases)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { c.check(t) })
	}
}

func (c *attentionGolden) check(t *testing.T) {
	r := onHost(t)
	l := c.layer()
	r.place(l, nn.DType(tensor.Float64))
	named := nn.NamedParameters(l)
	require.Len(t, named, len(c.Parameters))
	for _, p := range named {
		require.Equal(t, tensor.Shape(c.Parameters[p.Name].Shape), p.Parameter.Shape(), p.Name)
		require.NoError(t, p.Parameter.Tensor().CopyFrom(c.Parameters[p.Name].on(r)))
	}
	g := r.graph()
	defer g.Release()
	var opts []nn.AttendOption
	for name, option := range map[string]func(*autograd.Variable) nn.AttendOption{"attn_mask": nn.AttnMask, "key_padding_mask": nn.KeyPaddingMask} {
		if m, ok := c.Masks[name]; ok {
			opts = append(opts, option(g.Input(m.on(r))))
		}
	}
	var given []*autograd.Variable
	for _, x := range c.Given {
		given = append(given, g.Input(x.on(r), autograd.RequiresGrad()))
	}
	q, k, v := given[0], given[0], given[0]
	if len(given) == 3 {
		k, v = given[1], given[2]
	}
	out := l.Attend(q, k, v, opts...).Keep()
	require.NoError(t, out.Mul(out).Sum(nil, false).Backward())
	value, err := out.Tensor()
	require.NoError(t, err)
	c.Out.requireNear(t, value, "result")
	for i, x := range given {
		c.GivenGrads[i].requireNear(t, x.Grad(), "gradient of an operand")
	}
	for _, p := range named {
		c.Grads[p.Name].requireNear(t, p.Parameter.Grad(), p.Name)
	}
}

func TestMultiheadAttention_HidesTheFutureWithAndWithoutPadding(t *testing.T) {
	r := onHost(t)
	l := nn.MultiheadAttention(4, 2, nn.BatchFirst())
	r.place(l, nn.Seed(3))
	x := r.tensor([]float32{1, 2, 3, 4, 4, 3, 2, 1, 0, 1, 0, 1}, 1, 3, 4)
	run := func(opts ...nn.AttendOption) []float64 {
		g := r.graph(autograd.NoGrad())
		defer g.Release()
		v := g.Input(x)
		if len(opts) > 1 {
			opts[1] = nn.KeyPaddingMask(g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Zeros(e, tensor.Bool, 1, 3) }))
		}
		f, err := l.Attend(v, v, v, opts...).Float64s()
		require.NoError(t, err)
		return f
	}
	all, causal := run(), run(nn.IsCausal())
	require.NotEqual(t, all[:4], causal[:4])
	require.InDeltaSlice(t, all[8:], causal[8:], 1e-6, "the last row sees everything either way")
	require.InDeltaSlice(t, causal, run(nn.IsCausal(), nil), 1e-6)
}

// The rows of a chunk at the end see what they see in the whole sequence, also beside a mask of padding that hides nothing.
func TestMultiheadAttention_OfTheLastRowsIsThatOfTheWhole(t *testing.T) {
	r := onHost(t)
	l := nn.MultiheadAttention(4, 2, nn.BatchFirst())
	r.place(l, nn.Seed(3))
	x := r.tensor([]float32{1, 2, 3, 4, 4, 3, 2, 1, 0, 1, 0, 1}, 1, 3, 4)
	run := func(first int, opts ...nn.AttendOption) []float64 {
		g := r.graph(autograd.NoGrad())
		defer g.Release()
		v := g.Input(x)
		if len(opts) > 1 {
			opts[1] = nn.KeyPaddingMask(g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Zeros(e, tensor.Bool, 1, 3) }))
		}
		f, err := l.Attend(v.Narrow(1, first, 3-first), v, v, opts...).Float64s()
		require.NoError(t, err)
		return f
	}
	whole := run(0, nn.IsCausal())
	for first := range 3 {
		require.InDeltaSlice(t, whole[4*first:], run(first, nn.CausalLowerRight()), 1e-6)
		require.InDeltaSlice(t, whole[4*first:], run(first, nn.CausalLowerRight(), nil), 1e-6)
	}
	require.NotEqual(t, whole[4:8], run(1, nn.IsCausal())[:4], "IsCausal begins with the first key")
}

func TestMultiheadAttention_DropsWeightsInTrainingOnly(t *testing.T) {
	r := onHost(t)
	l := nn.MultiheadAttention(4, 2, nn.AttentionDropout(0.5))
	r.place(l, nn.Seed(3))
	x := r.tensor(make([]float32, 24), 6, 1, 4)
	require.NoError(t, x.FillInPlace(1))
	require.NoError(t, l.InProjBias.Tensor().FillInPlace(1))
	run := func() []float64 {
		g := r.graph(autograd.NoGrad(), autograd.WithGenerator(tensor.NewGenerator(1)))
		defer g.Release()
		f, err := l.Forward(g.Input(x)).Float64s()
		require.NoError(t, err)
		return f
	}
	training := run()
	nn.Eval(l)
	require.NotEqual(t, training, run())
}

func TestMultiheadAttention_RefusesMasksOfOtherShapes(t *testing.T) {
	r := onHost(t)
	x := r.tensor(make([]float32, 24), 2, 3, 4)
	for name, mask := range map[string]func(m *autograd.Variable) nn.AttendOption{"attn_mask": nn.AttnMask, "key_padding_mask": nn.KeyPaddingMask} {
		l := nn.MultiheadAttention(4, 2)
		r.place(l)
		g := r.graph()
		v := g.Input(x)
		l.Attend(v, v, v, mask(v))
		require.ErrorContains(t, g.Err(), name)
		g.Release()

		for _, shape := range [][]int{{3, 2}, {9}} { // [N, S], and one that is wrong too
			g = r.graph()
			l.Attend(g.Input(x), g.Input(x), g.Input(x), mask(g.Input(zeros(t, r, i64, shape...))))
			var wrong *tensor.DTypeError
			require.ErrorAs(t, g.Err(), &wrong, name)
			var op *autograd.OpError
			require.ErrorAs(t, g.Err(), &op)
			require.Equal(t, tensor.Shape{2, 3, 4}, op.Operands[0].Shape, "the query comes first")
			require.Equal(t, tensor.Int64, op.Operands[1].DType)
			g.Release()
		}
	}
	require.Nil(t, nn.MultiheadAttention(4, 2).Forward(nil))
	require.Equal(t, "MultiheadAttention(embed_dim=4, num_heads=2)", nn.MultiheadAttention(4, 2).String())
}

func TestLosses_AreThoseOfTheVariable(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	p, y := g.Input(r.tensor([]float32{0.2, 0.6}, 2)), g.Input(r.tensor([]float32{0.5, 0.25}, 2))
	for name, c := range map[string]struct{ got, want *autograd.Variable }{
		"smooth": {nn.SmoothL1Loss(0.1)(p, y), p.SmoothL1Loss(y, 0.1, autograd.MeanReduction)},
		"huber":  {nn.HuberLoss(0.1, autograd.SumReduction)(p, y), p.HuberLoss(y, 0.1, autograd.SumReduction)},
		"bce":    {nn.BCELoss()(p, y), p.BCELoss(y, autograd.MeanReduction)},
		"kl":     {nn.KLDivLoss(false, autograd.BatchMeanReduction)(p, y), p.KLDivLoss(y, false, autograd.BatchMeanReduction)},
	} {
		want, err := c.want.Item()
		require.NoError(t, err, name)
		got, err := c.got.Item()
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}
}
