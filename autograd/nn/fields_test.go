package nn_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// timedEncoder is an interface of a program's own, whose values are modules.
type timedEncoder interface {
	Encode(x, time *autograd.Variable) *autograd.Variable
}

// timed is a module with two inputs: no nn.Layer.
type timed struct {
	nn.Base
	FC1, FC2 *nn.LinearLayer
}

func (m *timed) Encode(x, time *autograd.Variable) *autograd.Variable {
	return m.Scope(x, func(*autograd.Graph) *autograd.Variable { return m.FC1.Forward(x).Add(m.FC2.Forward(time)) })
}

// shared are fields that several modules embed.
type shared struct {
	SelfAttn *nn.LinearLayer
	hidden   *nn.LinearLayer
}

// found registers nothing.
type found struct {
	nn.Base
	shared
	Enc      timedEncoder
	Blocks   []nn.Layer
	Heads    map[string]*nn.LinearLayer
	ByLevel  map[int][]*nn.LinearLayer
	Scale    *autograd.Parameter
	Gains    []*autograd.Parameter
	Optional *nn.LinearLayer
	Renamed  nn.Module       `nn:"other"`
	Teacher  nn.Module       `nn:"-"`
	act      nn.Layer        // a function needs no names
	again    *nn.LinearLayer // which is in Heads
	Width    int
	Table    map[[2]int]string
	Anything any
}

func newFound() *found {
	bare := func(in, out int) *nn.LinearLayer { return nn.Linear(in, out, nn.NoBias()) }
	n := &found{
		shared: shared{SelfAttn: bare(2, 2)}, Enc: &timed{FC1: bare(2, 2), FC2: bare(1, 2)},
		Blocks: []nn.Layer{bare(2, 2), nil, nn.ReLU(), nn.Sequential(bare(2, 2))},
		Heads:  map[string]*nn.LinearLayer{"b": bare(2, 1), "a": bare(2, 1)}, ByLevel: map[int][]*nn.LinearLayer{10: {bare(2, 2)}, 9: {bare(2, 2)}},
		Scale: autograd.DeclareParameter("any", nn.Ones, 2), Gains: []*autograd.Parameter{nil, autograd.DeclareParameter("any", nn.Ones, 2)},
		Renamed: bare(2, 2), Teacher: bare(3, 3), act: nn.ReLU(), Anything: bare(1, 1),
	}
	n.again = n.Heads["a"]
	return nn.New(n)
}

func TestFields_AreFoundUnderNamesLikePyTorchs(t *testing.T) {
	r := onHost(t)
	n := newFound()
	want := []string{"scale", "self_attn.weight", "enc.fc1.weight", "enc.fc2.weight", "blocks.0.weight", "blocks.3.0.weight", "heads.a.weight", "heads.b.weight",
		"by_level.9.0.weight", "by_level.10.0.weight", "gains.1", "other.weight", "anything.weight"}
	require.Equal(t, want, names(nn.NamedParameters(n)))
	require.Len(t, n.Parameters(), len(want))
	r.place(n, nn.Seed(1))
	require.EqualValues(t, 512*len(want), r.allocated())
	var file bytes.Buffer
	require.NoError(t, nn.Save(&file, n))
	other := newFound()
	r.place(other, nn.Seed(2))
	require.NoError(t, nn.Load(&file, other))
	require.Equal(t, valuesOf(t, n.Enc.(*timed).FC1.Weight), valuesOf(t, other.Enc.(*timed).FC1.Weight))
	nn.Eval(n)
	require.False(t, n.Enc.(*timed).FC1.Training())
	require.Contains(t, fmt.Sprint(n), "found(\n  (self_attn): Linear(in_features=2, out_features=2, bias=False)\n  (enc): timed(\n")
	require.Contains(t, fmt.Sprint(n), "  (heads): ModuleDict(\n    (a): Linear(")
	require.Contains(t, fmt.Sprint(n), "  (gains): ParameterList(\n      (1): Parameter containing: [torch.float32 of size 2]\n  )")
	g := r.graph()
	defer g.Release()
	x, time := g.Input(r.tensor([]float32{1, 2}, 1, 2)), g.Input(r.tensor([]float32{1}, 1, 1))
	require.NoError(t, n.Enc.Encode(x, time).Sum(nil, false).Backward())
	require.NotNil(t, n.Enc.(*timed).FC2.Weight.Grad())
}

// What embeds Base and has no Forward with one input is a module for all that is done with modules.
func TestFields_OfAPartAreFoundWithoutNew(t *testing.T) {
	r := onHost(t)
	m := &timed{FC1: nn.Linear(2, 2), FC2: nn.Linear(1, 2)}
	var unknown *nn.ArgumentError
	require.ErrorAs(t, m.To(r.dev), &unknown, "the Base alone does not know")
	require.ErrorContains(t, m.To(r.dev), "nn.New")
	require.ErrorAs(t, m.Parameters()[0].Err(), &unknown)
	require.Len(t, nn.NamedParameters(m), 4, "functions know")
	outer := new(struct {
		nn.Base
		Part nn.Module
	})
	outer.Part = m
	r.place(nn.New(outer))
	require.Len(t, m.Parameters(), 4, "now it knows")
	require.Equal(t, "timed(\n  (fc1): Linear(in_features=2, out_features=2, bias=True)\n  (fc2): Linear(in_features=1, out_features=2, bias=True)\n)", m.String())
}

func TestFields_ThatAreRegisteredComeFirstUnderThatNameAlone(t *testing.T) {
	n := newFound()
	n.Register("first", n.Renamed)
	nn.RegisterField(&n.Base, "table", &n.SelfAttn)
	n.RegisterBufferField("scale", &n.Scale)
	all := names(nn.NamedState(n))
	require.Equal(t, []string{"first.weight", "table.weight", "enc.fc1.weight"}, all[:3])
	require.NotContains(t, all, "other.weight")
	require.Equal(t, "scale", all[len(all)-1], "a buffer, and no parameter as well")

	again := nn.Linear(2, 2, nn.NoBias())
	n.Register("first", again)
	require.Same(t, again, n.Parts()[0].Module, "a second part of one name takes the place of the first")
	require.Contains(t, names(nn.NamedState(n)), "other.weight", "it is in its field all the same")
	p := autograd.DeclareParameter("p", nn.Ones, 1)
	n.RegisterParameter(autograd.DeclareParameter("p", nn.Ones, 2))
	n.RegisterParameter(p)
	require.Contains(t, n.Parameters(), p)
	require.NoError(t, nn.Check(n))
}

func TestFields_ThatAreForgottenAreNamed(t *testing.T) {
	r := onHost(t)
	const remedy = " that is no part of the model: export the field, register it (RegisterField, RegisterParameterField), or tag it `nn:\"-\"` if another model has it"
	for want, c := range map[string]func(n *found){
		"nn: module: the field again of found holds a module (LinearLayer)" + remedy:     func(n *found) { n.again = nn.Linear(1, 1) },
		"nn: module: the field act of found holds a module (DropoutLayer)" + remedy:      func(n *found) { n.act = nn.Dropout(0.5) },
		"nn: module: the field hidden of found holds a module (LinearLayer)" + remedy:    func(n *found) { n.hidden = nn.Linear(1, 1) },
		"nn: module other: the field in of forgetting holds a module (adapter)" + remedy: func(n *found) { n.Renamed = &forgetting{in: []any{1, newAdapter(true)}} },
		"nn: module other: the field p of forgetting holds a parameter" + remedy:         func(n *found) { n.Renamed = &forgetting{p: autograd.DeclareParameter("p", nn.Ones, 1)} },
		"nn: module other: the name \"tied\": two fields have it, or a field and something that is registered: tag one (`nn:\"another\"`)": func(n *found) {
			n.Renamed = new(doubled)
		},
		"nn: the name \"a.b\": it is a key of a map of modules, which must be a name without dots": func(n *found) { n.Heads["a.b"] = nn.Linear(1, 1) },
		"nn: module: it is a copy of another one, whose fields are registered; make each by its constructor": func(n *found) {
			*n = *newFound()
		},
	} {
		n := newFound()
		c(n)
		require.EqualError(t, nn.Check(n), want)
		require.EqualError(t, nn.Save(new(bytes.Buffer), n), want)
		require.Error(t, n.To(r.dev, nn.WithAllocator(r.alloc)))
		require.Zero(t, r.allocated())
	}
}

type forgetting struct {
	nn.Base
	in []any
	p  *autograd.Parameter
}

type doubled struct {
	nn.Base
	First, Second tensor.Shape
	Tied          []nn.Module
	TiedAgain     []nn.Module `nn:"tied"`
}

// looped is a child that knows its parent.
type looped struct {
	nn.Base
	parent *found
	Own    *autograd.Parameter
}

func TestFields_MayPointBackToWhatIsAround(t *testing.T) {
	n := newFound()
	n.Renamed = &looped{parent: n, Own: autograd.DeclareParameter("own", nn.Ones, 1)}
	require.NoError(t, nn.Check(n))
	require.Contains(t, names(nn.NamedState(n)), "other.own")
}

func TestFields_EmbeddingAnotherModuleAddToIt(t *testing.T) {
	r := onHost(t)
	m := nn.New(&struct {
		nn.LinearLayer
		Scale *autograd.Parameter
	}{LinearLayer: nn.LinearLayer{Weight: autograd.DeclareParameter("weight", nn.Ones, 2, 2)}, Scale: autograd.DeclareParameter("", nn.Ones, 2)})
	require.Equal(t, []string{"weight", "scale"}, names(nn.NamedState(m)))
	r.place(m)
	require.Equal(t, []float64{3, 3}, r.forward(m, r.tensor([]float32{1, 2}, 1, 2)))

	deeper := nn.New(&struct{ *found }{newFound()})
	require.Contains(t, names(nn.NamedState(deeper)), "enc.fc1.weight")
	require.NoError(t, nn.Check(deeper))
}
