package nn_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

func TestLoRA_IsWhatPyTorchComputes(t *testing.T) {
	var cases []struct {
		Rank                  int
		Alpha                 float64
		X, Weight, Bias, A, B []float64
		Out                   []float64
		XGrad                 []float64 `json:"x_grad"`
		AGrad                 []float64 `json:"a_grad"`
		BGrad                 []float64 `json:"b_grad"`
	}
	text, err := os.ReadFile("testdata/lora.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &cases))
	r := onHost(t)
	for _, c := range cases {
		var opts []nn.LayerOption
		if c.Bias == nil {
			opts = append(opts, nn.NoBias())
		}
		l := nn.LoRA(nn.Linear(5, 4, opts...), c.Rank, c.Alpha)
		r.place(l, nn.DType(tensor.Float64))
		for _, set := range []struct {
			p      *autograd.Parameter
			values []float64
		}{{l.BaseLayer.Weight, c.Weight}, {l.BaseLayer.Bias, c.Bias}, {l.A.Weight, c.A}, {l.B.Weight, c.B}} {
			if set.p != nil {
				require.NoError(t, tensor.CopyFromSlice(set.p.Tensor(), set.values))
			}
		}
		in, err := tensor.FromSlice(r.exec, c.X, 2, 3, 5)
		require.NoError(t, err)
		g := r.graph()
		x := g.Input(in, autograd.RequiresGrad())
		out := l.Forward(x).Keep()
		require.NoError(t, out.Mul(out).Sum(nil, false).Backward())
		compare := func(want []float64, got *tensor.Tensor) {
			values, err := got.Float64s()
			require.NoError(t, err)
			require.InDeltaSlice(t, want, values, 1e-12)
		}
		value, err := out.Tensor()
		require.NoError(t, err)
		compare(c.Out, value)
		compare(c.XGrad, x.Grad())
		compare(c.AGrad, l.A.Weight.Grad())
		compare(c.BGrad, l.B.Weight.Grad())
		require.Nil(t, l.BaseLayer.Weight.Grad(), "it is frozen")
		g.Release()
		in.Release()
		l.Release()
	}
}

// An adapter is put beside a layer that has its values, saved alone, and loaded again into a model without values.
func TestLoRA_BesideALoadedLayer_IsSavedAndLoadedAlone(t *testing.T) {
	r := onHost(t)
	linear := nn.Linear(3, 2)
	r.place(linear, nn.Seed(1))
	base := contents(t, linear)
	l := nn.LoRA(linear, 2, 4)
	r.place(l, nn.Seed(2))
	require.Equal(t, base, contents(t, linear), "what has a value keeps it")
	x := r.tensor([]float32{1, 2, 3}, 1, 3)
	require.Equal(t, r.forward(linear, x), r.forward(l, x), "B is zero")
	var names []string
	for _, n := range nn.NamedParameters(l) {
		names = append(names, n.Name)
		require.Equal(t, strings.HasPrefix(n.Name, "lora_"), n.Parameter.RequiresGrad(), n.Name)
	}
	require.Equal(t, []string{"base_layer.weight", "base_layer.bias", "lora_A.weight", "lora_B.weight"}, names)
	require.NoError(t, l.B.Weight.Tensor().FillInPlace(0.5))

	whole := contents(t, l)
	again := nn.LoRA(nn.Linear(3, 2), 2, 4)
	r.place(again, nn.Unset())
	require.NoError(t, nn.Load(bytes.NewReader(whole), again, nn.Partial(nil), nn.Only(func(name string) bool { return strings.HasPrefix(name, "lora_") })))
	require.NoError(t, nn.Load(bytes.NewReader(base), again, nn.Rename(func(name string) string { return "base_layer." + name }),
		nn.Only(func(name string) bool { return strings.HasPrefix(name, "base_") })))
	require.Equal(t, whole, contents(t, again))
	require.Equal(t, "LoRA(Linear(in_features=3, out_features=2, bias=True), rank=2, alpha=4)", l.String())
}

func TestLoRA_OfWhatCannotBe_IsAnErrorOfItsUses(t *testing.T) {
	r := onHost(t)
	for name, l := range map[string]*nn.LoRALayer{
		"nil": nn.LoRA(nil, 2, 1), "rank": nn.LoRA(nn.Linear(2, 2), 0, 1), "alpha": nn.LoRA(nn.Linear(2, 2), 1, math.NaN()),
	} {
		var wrong *nn.ArgumentError
		require.ErrorAs(t, l.To(r.dev), &wrong, name)
		g := r.graph()
		l.Forward(g.Input(r.tensor([]float32{1, 2}, 1, 2)))
		require.ErrorAs(t, g.Err(), &wrong, name)
		g.Release()
	}
	ok := nn.LoRA(nn.Linear(2, 2), 1, 1)
	ok.A = nil
	var wrong *nn.ArgumentError
	require.ErrorAs(t, ok.To(r.dev), &wrong)
}
