package nn_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

func TestTransformer_ComputesWhatPyTorchComputes(t *testing.T) {
	text, err := os.ReadFile("testdata/transformerpair.json")
	require.NoError(t, err)
	var cases []decoderGolden
	require.NoError(t, json.Unmarshal(text, &cases))
	require.Len(t, cases, 2)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			r := onHost(t)
			m := nn.Transformer(4, 2, 1, 1, nn.FeedForward(6), nn.BlockDropout(0))
			masks := func(*autograd.Graph) nn.TransformerMasks { return nn.TransformerMasks{} }
			if c.Name == "masked" {
				m = nn.Transformer(4, 2, 2, 1, nn.FeedForward(6), nn.BlockDropout(0), nn.ActivationGELU(), nn.BatchFirst(), nn.NormFirst(), nn.CausalBlock())
				masks = func(g *autograd.Graph) nn.TransformerMasks {
					behind := []nn.AttendOption{nn.KeyPaddingMask(bools(r, g, 2, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1))}
					return nn.TransformerMasks{Source: behind, Memory: behind, Target: []nn.AttendOption{nn.KeyPaddingMask(bools(r, g, 2, 0, 0, 1, 0, 0, 0))}}
				}
			}
			c.compare(t, r, m, func(g *autograd.Graph, target, source *autograd.Variable) *autograd.Variable {
				return m.Forward(source, target, masks(g))
			})
		})
	}
}

// As in PyTorch all matrices start uniform within ±sqrt(6/(in+out)), those of the last projections too.
func TestTransformer_StartsAsPyTorchDoes(t *testing.T) {
	r := onHost(t)
	m := nn.Transformer(32, 4, 1, 1, nn.FeedForward(48))
	r.place(m, nn.Seed(1))
	for _, n := range nn.NamedParameters(m) {
		s := n.Parameter.Shape()
		if len(s) < 2 {
			continue
		}
		bound, most := math.Sqrt(6/float64(s[0]+s[1])), 0.0
		for _, v := range valuesOf(t, n.Parameter) {
			most = max(most, math.Abs(v))
		}
		require.LessOrEqual(t, most, bound*1.0001, n.Name)
		require.Greater(t, most, bound*0.95, n.Name)
	}
	require.Contains(t, m.String(), "Transformer(\n  (encoder): TransformerEncoder(\n    (layers): ModuleList(\n")
}

func TestTransformer_ThatCannotRunIsAnError(t *testing.T) {
	r := onHost(t)
	var wrong *nn.ArgumentError
	require.ErrorAs(t, nn.Transformer(4, 2, -1, 1).To(r.dev), &wrong)
	require.ErrorAs(t, nn.Transformer(4, 2, 1, 1<<31-1).To(r.dev), &wrong)
	m := nn.Transformer(4, 2, 1, 1, nn.FeedForward(4))
	r.place(m)
	decoder := m.Decoder
	defer func() { m.Decoder = decoder }() // it is released with the model
	m.Decoder = nil
	g := r.graph()
	defer g.Release()
	m.Forward(g.Ones(tensor.Float32, 2, 1, 4), g.Ones(tensor.Float32, 2, 1, 4), nn.TransformerMasks{})
	require.ErrorAs(t, g.Err(), &wrong)
}
