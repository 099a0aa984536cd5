package nn_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// recurrent is a layer or a cell.
type recurrent interface {
	nn.Layer
	fmt.Stringer
}

var recurrents = map[string]func() recurrent{
	"lstm":       func() recurrent { return nn.LSTM(3, 4) },
	"lstm zeros": func() recurrent { return nn.LSTM(3, 4) },
	"lstm all": func() recurrent {
		return nn.LSTM(3, 4, nn.Layers(2), nn.BatchFirst(), nn.Bidirectional())
	},
	"lstm no bias":      func() recurrent { return nn.LSTM(2, 3, nn.Layers(3), nn.NoRNNBias()) },
	"lstm alone":        func() recurrent { return nn.LSTM(3, 4, nn.Bidirectional()) },
	"lstm one sequence": func() recurrent { return nn.LSTM(64, 8, nn.BatchFirst()) },
	"gru one sequence":  func() recurrent { return nn.GRU(64, 8, nn.BatchFirst()) },
	"gru":               func() recurrent { return nn.GRU(3, 4) },
	"gru zeros":         func() recurrent { return nn.GRU(3, 4, nn.BatchFirst()) },
	"gru all":           func() recurrent { return nn.GRU(3, 4, nn.Layers(2), nn.BatchFirst(), nn.Bidirectional()) },
	"gru no bias":       func() recurrent { return nn.GRU(2, 3, nn.NoRNNBias()) },
	"gru alone":         func() recurrent { return nn.GRU(3, 4, nn.Layers(2)) },
	"rnn":               func() recurrent { return nn.RNN(3, 4) },
	"rnn alone":         func() recurrent { return nn.RNN(3, 4, nn.NoRNNBias()) },
	"rnn relu all": func() recurrent {
		return nn.RNN(3, 4, nn.Layers(2), nn.NonlinearityReLU(), nn.BatchFirst(), nn.Bidirectional())
	},
	"lstm projected": func() recurrent { return nn.LSTM(3, 4, nn.ProjSize(2)) },
	"lstm projected all": func() recurrent {
		return nn.LSTM(3, 4, nn.Layers(2), nn.ProjSize(2), nn.NoRNNBias(), nn.Bidirectional())
	},
	"lstm lengths":           func() recurrent { return nn.LSTM(3, 4) },
	"lstm lengths all":       func() recurrent { return nn.LSTM(3, 4, nn.Layers(2), nn.BatchFirst(), nn.Bidirectional()) },
	"gru lengths all":        func() recurrent { return nn.GRU(3, 4, nn.Layers(2), nn.Bidirectional()) },
	"rnn lengths":            func() recurrent { return nn.RNN(3, 4, nn.Bidirectional()) },
	"lstm projected lengths": func() recurrent { return nn.LSTM(3, 4, nn.ProjSize(2), nn.Bidirectional()) },
	"gru lengths full":       func() recurrent { return nn.GRU(3, 4) },

	"lstm cell":       func() recurrent { return nn.LSTMCell(3, 4) },
	"lstm cell alone": func() recurrent { return nn.LSTMCell(3, 4, nn.NoRNNBias()) },
	"gru cell":        func() recurrent { return nn.GRUCell(3, 4) },
	"gru cell alone":  func() recurrent { return nn.GRUCell(3, 4) },
	"rnn cell":        func() recurrent { return nn.RNNCell(3, 4) },
	"rnn cell alone":  func() recurrent { return nn.RNNCell(3, 4, nn.NoRNNBias(), nn.NonlinearityReLU()) },
}

// rnnNumbers are those of testdata/rnn.py.
func rnnNumbers(k, n int, scale float64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = (math.Mod(float64(i*7+k*13+i*i*3), 29)/14.5 - 1) * scale
	}
	return v
}

type rnnCase struct {
	Name    string
	X       []int
	States  [][]int
	Lengths []int // nil for sequences of one length
	Names   []string
	Text    string
	Results [][]float64
	Shapes  [][]int
	Grads   [][]float64
	Weights [][]float64
}

func TestRecurrentLayers_GiveTheNumbersOfPyTorch(t *testing.T) {
	text, err := os.ReadFile("testdata/rnn.json")
	require.NoError(t, err)
	var cases []rnnCase
	require.NoError(t, json.Unmarshal(text, &cases))
	require.Len(t, cases, len(recurrents))
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { c.check(t) })
	}
}

func (c *rnnCase) check(t *testing.T) {
	r := onHost(t)
	m := recurrents[c.Name]()
	r.place(m, nn.DType(tensor.Float64))
	require.Equal(t, c.Text, m.String())
	var names []string
	for i, p := range nn.NamedParameters(m) {
		names = append(names, p.Name)
		require.NoError(t, tensor.CopyFromSlice(p.Parameter.Tensor(), rnnNumbers(i+100, p.Parameter.Len(), 0.7)))
	}
	require.Equal(t, c.Names, names)

	g := r.graph()
	defer g.Release()
	leaf := func(k int, shape []int) *autograd.Variable {
		x, err := tensor.FromSlice(r.exec, rnnNumbers(k, tensor.Shape(shape).Len(), 1), shape...)
		require.NoError(t, err)
		defer x.Release()
		return g.Input(x, autograd.RequiresGrad())
	}
	leaves := []*autograd.Variable{leaf(1, c.X), nil, nil}
	for i, s := range c.States {
		leaves[i+1] = leaf(i+2, s)
	}
	results := stateful(m, leaves, c.Lengths...)
	require.NoError(t, g.Err())
	require.Len(t, results, len(c.Results))
	var loss *autograd.Variable
	for i, v := range results {
		v.Keep()
		require.Equal(t, tensor.Shape(c.Shapes[i]), v.Shape())
		part := v.Mul(leaf(i+50, c.Shapes[i])).Sum(nil, false)
		if loss == nil {
			loss = part
		} else {
			loss = loss.Add(part)
		}
	}
	require.NoError(t, loss.Backward())
	for i, v := range results {
		got, err := v.Float64s()
		require.NoError(t, err)
		require.InDeltaSlice(t, c.Results[i], got, 1e-12, "result %d", i)
	}
	for i, want := range c.Grads {
		got, err := leaves[i].Grad().Float64s()
		require.NoError(t, err)
		require.InDeltaSlice(t, want, got, 1e-11, "gradient of input %d", i)
	}
	for i, p := range m.Parameters() {
		got, err := p.Grad().Float64s()
		require.NoError(t, err)
		require.InDeltaSlice(t, c.Weights[i], got, 1e-11, "gradient of %s", p.Name())
	}
}

// stateful runs a layer or a cell and returns the results that there are.
func stateful(m recurrent, in []*autograd.Variable, lengths ...int) (all []*autograd.Variable) {
	var results [3]*autograd.Variable
	switch m := m.(type) {
	case *nn.RNNLayer:
		if results[0], results[1], results[2] = m.ForwardState(in[0], in[1], in[2]); len(lengths) > 0 {
			results[0], results[1], results[2] = m.ForwardLengths(in[0], lengths, in[1], in[2])
		}
	case *nn.RNNCellLayer:
		results[0], results[1] = m.Step(in[0], in[1], in[2])
	}
	for _, v := range results {
		if v != nil {
			all = append(all, v)
		}
	}
	return all
}

func TestRNN_ForwardIsTheOutputFromZeros(t *testing.T) {
	r := onHost(t)
	for name, make := range recurrents {
		m := make()
		r.place(m, nn.Seed(1))
		g := r.graph(autograd.NoGrad())
		shape := []int{4, 2, 3}
		if _, cell := m.(*nn.RNNCellLayer); cell {
			shape = shape[1:]
		}
		if name == "lstm no bias" || name == "gru no bias" {
			shape[len(shape)-1] = 2
		}
		if strings.HasSuffix(name, "one sequence") {
			shape[len(shape)-1] = 64
		}
		x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) {
			return tensor.RandN(e, tensor.NewGenerator(2), tensor.Float32, shape...)
		})
		want, err := stateful(m, []*autograd.Variable{x, nil, nil})[0].Float64s()
		require.NoError(t, err)
		got, err := m.Forward(x).Float64s()
		require.NoError(t, err)
		require.Equal(t, want, got, name)
		g.Release()
	}
}

func TestRNN_DropoutActsBetweenLayersInTrainingOnly(t *testing.T) {
	r := onHost(t)
	m := nn.LSTM(3, 8, nn.Layers(2), nn.DropoutBetween(0.5))
	r.place(m, nn.Seed(1))
	require.Equal(t, "LSTM(3, 8, num_layers=2, dropout=0.5)", m.String())
	run := func(seed uint64) []float64 {
		g := r.graph(autograd.NoGrad(), autograd.WithGenerator(tensor.NewGenerator(seed)))
		defer g.Release()
		x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float32, 4, 2, 3) })
		v, err := m.Forward(x).Float64s()
		require.NoError(t, err)
		return v
	}
	require.NotEqual(t, run(1), run(2))
	nn.Eval(m)
	require.Equal(t, run(1), run(2))
}

func TestRNN_WrongShapesAreErrorsOfTheGraph(t *testing.T) {
	r := onHost(t)
	m := nn.LSTM(3, 4)
	r.place(m)
	for _, shape := range [][]int{{5, 2, 4}, {0, 2, 3}} {
		g := r.graph()
		x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Zeros(e, tensor.Float32, shape...) })
		m.Forward(x)
		var wrong *tensor.ShapeError
		require.ErrorAs(t, g.Err(), &wrong)
		require.ErrorContains(t, g.Err(), "autograd: lstm")
		g.Release()
	}
	out, h, c := m.ForwardState(nil, nil, nil)
	require.Nil(t, out)
	require.Nil(t, h)
	require.Nil(t, c)
}

func TestRNN_RefusesStatesOfOtherLayersThanItsOwn(t *testing.T) {
	r := onHost(t)
	input := func(g *autograd.Graph, shape ...int) *autograd.Variable {
		return g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float32, shape...) })
	}
	for name, c := range map[string]struct {
		layer *nn.RNNLayer
		x     []int
		h, c  []int
	}{
		"two layers for one":       {nn.LSTM(3, 4), []int{5, 2, 3}, []int{2, 2, 4}, []int{2, 2, 4}},
		"one cell for two layers":  {nn.LSTM(3, 4, nn.Layers(2)), []int{5, 2, 3}, []int{2, 2, 4}, []int{1, 2, 4}},
		"one direction for two":    {nn.GRU(3, 4, nn.Bidirectional()), []int{5, 2, 3}, []int{1, 2, 4}, nil},
		"the batch at its place":   {nn.GRU(3, 4, nn.BatchFirst()), []int{2, 5, 3}, []int{1, 5, 4}, nil},
		"without the batch":        {nn.LSTM(3, 4), []int{5, 2, 3}, []int{1, 4}, nil},
		"a batch for one sequence": {nn.LSTM(3, 4), []int{5, 3}, []int{1, 1, 4}, nil},
	} {
		r.place(c.layer)
		g := r.graph()
		var cell *autograd.Variable
		if c.c != nil {
			cell = input(g, c.c...)
		}
		c.layer.ForwardState(input(g, c.x...), input(g, c.h...), cell)
		var shape *tensor.ShapeError
		require.ErrorAs(t, g.Err(), &shape, name)
		require.Contains(t, shape.Op, c.layer.String(), name)
		g.Release()
	}
	var value *tensor.ValueError
	g := r.graph()
	defer g.Release()
	gru := nn.GRU(3, 4)
	r.place(gru)
	gru.ForwardState(input(g, 5, 2, 3), nil, input(g, 1, 2, 4))
	require.ErrorAs(t, g.Err(), &value, "a GRU has no cell")
	other := r.graph()
	defer other.Release()
	cell := nn.GRUCell(3, 4)
	r.place(cell)
	cell.Step(input(other, 2, 3), nil, input(other, 2, 4))
	require.ErrorAs(t, other.Err(), &value, "a GRU has no cell")
}

func TestDropout_OfNothingIsItsInput(t *testing.T) {
	r := onHost(t)
	gen := tensor.NewGenerator(1)
	before := gen.State()
	for name, drop := range map[string]func(x *autograd.Variable) *autograd.Variable{
		"layer":    nn.Dropout(0).Forward,
		"variable": func(x *autograd.Variable) *autograd.Variable { return x.Dropout(0) },
		"evaluation": func(x *autograd.Variable) *autograd.Variable {
			d := nn.Dropout(0.5)
			nn.Eval(d)
			return d.Forward(x)
		},
	} {
		g := r.graph(autograd.WithGenerator(gen))
		x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float32, 2, 3) })
		require.Same(t, x, drop(x), name)
		require.NoError(t, g.Err())
		g.Release()
	}
	require.Equal(t, before, gen.State(), "nothing was drawn")
}

func TestForwardLengths_NothingOfThePaddingIsRead(t *testing.T) {
	r := onHost(t)
	l := nn.GRU(1, 2, nn.Bidirectional())
	r.place(l, nn.Seed(1))
	nan := float32(math.NaN())
	g := r.graph()
	x := g.Input(r.tensor([]float32{1, 2, 3, nan, 4, nan}, 3, 2, 1), autograd.RequiresGrad())
	out, last, cell := l.ForwardLengths(x, []int{3, 1}, nil, nil)
	require.Nil(t, cell)
	require.NoError(t, out.Sum(nil, false).Add(last.Sum(nil, false)).Backward())
	for _, p := range append(l.Parameters(), nil) {
		grad := x.Grad()
		if p != nil {
			grad = p.Grad()
		}
		v, err := grad.Float64s()
		require.NoError(t, err)
		for _, e := range v {
			require.False(t, math.IsNaN(e))
		}
	}
	g.Release()
}

func TestForwardLengths_RefusesOthers(t *testing.T) {
	r := onHost(t)
	l := nn.LSTM(1, 2)
	r.place(l, nn.Seed(1))
	for want, lengths := range map[string][]int{
		"1 lengths for a batch of 2 sequences":              {3},
		"0 lengths for a batch of 2 sequences":              nil,
		"the length of sequence 1 is 4; it must be in 1..3": {1, 4},
		"the length of sequence 0 is 0; it must be in 1..3": {0, 3},
	} {
		g := r.graph()
		out, last, cell := l.ForwardLengths(g.Ones(tensor.Float32, 3, 2, 1), lengths, nil, nil)
		require.ErrorContains(t, g.Err(), want)
		require.NotNil(t, out)
		require.NotNil(t, last)
		require.NotNil(t, cell)
		g.Release()
	}
	g := r.graph()
	defer g.Release()
	l.ForwardLengths(g.Ones(tensor.Float32, 3, 1), []int{1}, nil, nil)
	require.ErrorContains(t, g.Err(), "lengths are for batches, [T, N, 1]")
}

func TestRNNOptions_ThatTheUnitsDoNotHaveAreErrors(t *testing.T) {
	r := onHost(t)
	var bad *nn.ArgumentError
	for want, m := range map[string]nn.Module{
		"nn: GRU: it has no option ProjSize":                                                       nn.GRU(1, 4, nn.ProjSize(2)),
		"nn: LSTM: it has no option NonlinearityReLU":                                              nn.LSTM(1, 4, nn.NonlinearityReLU()),
		"nn: LSTM: a projection to 4 features; there must be at least 1 and less than the 4 units": nn.LSTM(1, 4, nn.ProjSize(4)),
		"nn: LSTM: a projection to 0 features; there must be at least 1 and less than the 4 units": nn.LSTM(1, 4, nn.ProjSize(0)),
		"nn: LSTMCell: it has no option ProjSize":                                                  nn.LSTMCell(1, 4, nn.ProjSize(2)),
	} {
		err := m.To(r.dev)
		require.ErrorAs(t, err, &bad)
		require.ErrorContains(t, err, want)
	}
	g := r.graph()
	defer g.Release()
	l := nn.RNN(1, 2)
	r.place(l)
	l.ForwardState(g.Ones(tensor.Float32, 0, 2, 1), nil, nil)
	require.ErrorContains(t, g.Err(), "the sequence has no steps")
}
