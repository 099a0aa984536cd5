package nn_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/tensor"
)

func names(list []nn.Named) (all []string) {
	for _, n := range list {
		all = append(all, n.Name)
	}
	return all
}

// coder is a model as users write them, whose fields may be assigned to.
type coder struct {
	nn.Base
	enc, dec *nn.LinearLayer
	act      nn.Layer
	blocks   []nn.Layer
	scale    *autograd.Parameter
}

func newCoder() *coder {
	n := &coder{enc: nn.Linear(4, 4), dec: nn.Linear(4, 4), act: nn.ReLU(), blocks: []nn.Layer{nn.Linear(4, 4, nn.NoBias()), nn.Tanh()}}
	nn.RegisterField(&n.Base, "enc", &n.enc)
	nn.RegisterField(&n.Base, "act", &n.act)
	nn.RegisterList(&n.Base, "blocks", &n.blocks)
	nn.RegisterField(&n.Base, "dec", &n.dec)
	n.RegisterParameterField("scale", &n.scale)
	return n
}

func (n *coder) Forward(x *autograd.Variable) *autograd.Variable {
	return x.Graph().Scope(func() *autograd.Variable {
		h := n.act.Forward(n.enc.Forward(x))
		for _, b := range n.blocks {
			h = b.Forward(h)
		}
		if n.scale != nil {
			h = h.Mul(x.Graph().Param(n.scale))
		}
		return n.dec.Forward(h)
	})
}

func TestTying_AnAssignmentSharesForAllThatAModuleDoes(t *testing.T) {
	r := onHost(t)
	n := newCoder()
	n.dec.Weight = n.enc.Weight
	want := []string{"enc.weight", "enc.bias", "blocks.0.weight", "dec.bias"}
	require.Equal(t, want, names(nn.NamedParameters(n)))
	require.Len(t, n.Parameters(), 4)
	r.place(n, nn.Seed(1))
	require.EqualValues(t, 2*512+2*512, r.allocated(), "two weights and two biases, of 512 bytes each: no ghost")

	x := r.tensor([]float32{1, 2, 3, 4}, 1, 4)
	opt := optim.SGD(n.Parameters(), optim.LR(0.1))
	before := valuesOf(t, n.enc.Weight)
	g := r.graph()
	require.NoError(t, n.Forward(g.Input(x)).Sum(nil, false).Backward())
	require.NoError(t, opt.Step())
	g.Release()
	for i, gr := range gradOf(t, n.enc.Weight) {
		require.InDelta(t, before[i]-0.1*gr, valuesOf(t, n.dec.Weight)[i], 1e-6, "one step, not two")
	}

	var file bytes.Buffer
	require.NoError(t, nn.Save(&file, n))
	other := newCoder()
	other.dec.Weight = other.enc.Weight
	r.place(other, nn.Seed(2))
	require.NoError(t, nn.Load(&file, other))
	require.Equal(t, r.forward(n, x), r.forward(other, x))
	n.Release()
	other.Release()
	require.EqualValues(t, 512, r.allocated(), "the input")
}

func gradOf(t *testing.T, p *autograd.Parameter) []float64 {
	t.Helper()
	v, err := p.Grad().Float64s()
	require.NoError(t, err)
	return v
}

func TestTying_AfterTo_LeavesTheOldParameterToItsOwner(t *testing.T) {
	r := onHost(t)
	n := newCoder()
	r.place(n, nn.Seed(1))
	old := n.dec.Weight
	n.dec.Weight = n.enc.Weight
	require.NotContains(t, n.Parameters(), old)
	old.Release()
	var file bytes.Buffer
	require.NoError(t, nn.Save(&file, n), "what is not in the model is not asked for")
	n.Release()
	require.Zero(t, r.allocated())
}

func TestLoad_TakesASharedParameterUnderAnyOfItsNames(t *testing.T) {
	r := onHost(t)
	untied, tied := newCoder(), newCoder()
	r.place(untied, nn.Seed(1))
	tied.dec.Weight = tied.enc.Weight
	r.place(tied, nn.Seed(2))
	var file bytes.Buffer
	require.NoError(t, nn.Save(&file, untied))
	require.NoError(t, nn.Load(&file, tied), "both names, as in PyTorch's state_dict")
	require.Equal(t, valuesOf(t, untied.dec.Weight), valuesOf(t, tied.enc.Weight), "the last in the file counts")

	file.Reset()
	require.NoError(t, nn.Save(&file, tied))
	require.NoError(t, nn.Load(&file, untied), "it is in the file under both")
	require.Equal(t, valuesOf(t, tied.enc.Weight), valuesOf(t, untied.dec.Weight))
	require.NotSame(t, untied.enc.Weight, untied.dec.Weight)

	file.Reset()
	part := nn.Sequential(tied.dec)
	require.NoError(t, nn.Save(&file, part))
	only := nn.Rename(func(name string) string { return strings.Replace(name, "0.", "dec.", 1) })
	require.NoError(t, tied.enc.Weight.Tensor().FillInPlace(0))
	require.NoError(t, nn.Load(bytes.NewReader(file.Bytes()), untied, nn.Partial(nil), only))
	require.NoError(t, nn.Load(&file, tied, nn.Partial(nil), only))
	require.Equal(t, valuesOf(t, untied.dec.Weight), valuesOf(t, tied.enc.Weight), "the second name alone will do")
}

func TestParts_FollowTheirFields(t *testing.T) {
	r := onHost(t)
	n := newCoder()
	n.act = nn.Checkpointed(nn.Linear(4, 4))
	n.blocks = append(n.blocks, nn.Linear(4, 4))
	n.scale = autograd.DeclareParameter("another name", nn.Ones, 4)
	require.Equal(t, []string{"scale", "enc.weight", "enc.bias", "act.weight", "act.bias", "blocks.0.weight", "blocks.2.weight", "blocks.2.bias",
		"dec.weight", "dec.bias"}, names(nn.NamedState(n)))
	r.place(n)
	nn.Eval(n)
	require.False(t, n.blocks[2].(*nn.LinearLayer).Training())
	n.Parts()[0].Module = nn.ReLU()
	require.Same(t, n.enc, n.Parts()[0].Module, "Parts is a copy")
	require.Contains(t, nn.Describe("Coder", n), "(blocks): ModuleList(\n    (0): Linear(in_features=4, out_features=4, bias=False)")
	require.Len(t, r.forward(n, r.tensor(make([]float32, 4), 1, 4)), 4)
}

func TestSequentialSet_ReplacesWhatRunsAndWhatIsListed(t *testing.T) {
	r := onHost(t)
	m := nn.Sequential(nn.Linear(2, 2), nn.ReLU())
	require.NoError(t, m.Set(0, nn.Linear(2, 3, nn.NoBias())))
	require.Equal(t, []string{"0.weight"}, names(nn.NamedParameters(m)))
	r.place(m)
	require.Len(t, r.forward(m, r.tensor([]float32{1, 2}, 1, 2)), 3)
	var bad *nn.ArgumentError
	for i, other := range map[int]nn.Layer{-1: nn.ReLU(), 2: nn.ReLU(), 0: nil, 1: nn.Sequential(m)} {
		require.ErrorAs(t, m.Set(i, other), &bad)
	}
}

func TestNames_ThatCannotBeRegisteredAreReportedByTheFirstUse(t *testing.T) {
	r := onHost(t)
	p := func(name string) *autograd.Parameter { return autograd.DeclareParameter(name, nn.Zeros, 1) }
	for want, register := range map[string]func(b *nn.Base){
		`nn: the name "": a name may not be empty`: func(b *nn.Base) { b.Register("", nn.ReLU()) },
		`nn: the name "a.b": a name has no dots, which separate the names of a path; RegisterList registers the elements of a slice`: func(b *nn.Base) { b.Register("a.b", nn.ReLU()) },
		`nn: the name "w": the module has something of this name already`: func(b *nn.Base) {
			b.RegisterParameter(p("w"))
			b.RegisterBuffer(p("w"))
		},
		`nn: the name "part": the module has something of this name already`: func(b *nn.Base) {
			part, q := nn.ReLU(), p("q")
			nn.RegisterField(b, "part", &part)
			b.RegisterParameterField("part", &q)
		},
	} {
		n := new(sharing)
		register(&n.Base)
		var name *nn.NameError
		require.ErrorAs(t, n.To(r.dev), &name)
		require.EqualError(t, name, want)
		require.ErrorAs(t, nn.Save(new(bytes.Buffer), n), &name)
		require.ErrorAs(t, nn.Load(bytes.NewReader(nil), n), &name)
		require.ErrorAs(t, n.Parameters()[0].Materialize(r.exec, nil, tensor.Float32), &name)
		require.ErrorContains(t, nn.Sequential(n).To(r.dev), "nn: module 0: the name ")
		require.Zero(t, r.allocated())
	}
}

func TestNames_AreReportedByForwardToo(t *testing.T) {
	r := onHost(t)
	l := nn.Linear(2, 2)
	l.RegisterParameter(autograd.DeclareParameter("bias", nn.Zeros, 2))
	g := r.graph()
	defer g.Release()
	l.Forward(g.Input(r.tensor([]float32{1, 2}, 1, 2)))
	var name *nn.NameError
	require.ErrorAs(t, g.Err(), &name)
	require.Equal(t, "bias", name.Name)
}

func TestFields_ThatAreNilOrCopiedAreErrorsAndNotPanics(t *testing.T) {
	r := onHost(t)
	copied := *newCoder()
	circle := newCoder()
	circle.act = nn.Sequential(circle)
	wrapped := nn.Checkpointed(nn.ReLU())
	wrapped.Layer = wrapped
	for name, c := range map[string]struct {
		m    func(n *coder)
		want string
	}{
		"parameter": {func(n *coder) { n.dec.Weight = nil }, "nn: parameter dec.weight: the field is nil"},
		"module":    {func(n *coder) { n.dec = nil }, "nn: part dec: the module is nil"},
		"interface": {func(n *coder) { n.act = nil }, "nn: part act: the module is nil"},
		"element":   {func(n *coder) { n.blocks[1] = nil }, "nn: part blocks.1: the module is nil"},
		"cycle":     {func(n *coder) { n.blocks[1] = n }, "nn: part blocks.1: the module is a part of itself"},
		"wrapper":   {func(n *coder) { n.act = wrapped }, "nn: Checkpointed: the module is a part of itself"},
		"emptied":   {func(n *coder) { n.act = &nn.CheckpointModule{} }, "nn: Checkpointed: the module is nil"},
		"field":     {func(n *coder) { n.RegisterBufferField("b", nil) }, `nn: "b": the pointer to the field is nil`},
		"pointer":   {func(n *coder) { nn.RegisterList[nn.Layer](&n.Base, "b", nil) }, `nn: "b": the pointer to the field is nil`},
		"nothing":   {func(n *coder) { n.RegisterParameter(nil) }, "nn: RegisterParameter: the parameter is nil"},
		"copy":      {func(n *coder) { *n = copied }, "nn: module: it is a copy of another one, whose fields are registered; make each by its constructor"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newCoder()
			c.m(n)
			var bad *nn.ArgumentError
			require.ErrorAs(t, n.To(r.dev, nn.WithAllocator(r.alloc)), &bad)
			require.EqualError(t, bad, c.want)
			require.ErrorAs(t, nn.Save(new(bytes.Buffer), n), &bad)
			require.NotEmpty(t, nn.NamedState(n))
			require.NotEmpty(t, nn.Describe("Coder", n))
			nn.Eval(n)
			n.Release()
		})
	}
	require.Error(t, circle.To(r.dev))
}

func TestDescriptions_OfLayersWithoutParametersDoNotPanic(t *testing.T) {
	for _, m := range []nn.Layer{&nn.LinearLayer{}, &nn.ConvLayer{}, &nn.ConvTransposeLayer{}, &nn.EmbeddingLayer{}, &nn.EmbeddingBagLayer{},
		&nn.BatchNormLayer{}, &nn.LayerNormLayer{}, &nn.MultiheadAttentionLayer{}, &nn.RNNLayer{}, &nn.CheckpointModule{}} {
		require.NotEmpty(t, fmt.Sprint(m))
	}
}
