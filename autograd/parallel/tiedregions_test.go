package parallel_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/parallel"
)

// unscoped is a layer with a parameter of its own whose forward pass does not say that it runs.
type unscoped struct {
	nn.Base
	In     *nn.LinearLayer
	Weight *autograd.Parameter
}

func (m *unscoped) Forward(x *autograd.Variable) *autograd.Variable {
	return m.In.Forward(x).Mul(x.Graph().Param(m.Weight))
}

// What ZeRO 3 cannot gather in time says what the model lacks; with that it trains.
func TestZeRO3_OfAValueThatIsAwaySaysWhatIsMissing(t *testing.T) {
	tied := func() nn.Layer {
		a, b := nn.Linear(16, 16), nn.Linear(16, 16)
		b.Weight = a.Weight
		return nn.Sequential(nn.Linear(16, 16), nn.Checkpointed(a), nn.Tanh(), nn.Checkpointed(b))
	}
	for name, c := range map[string]struct {
		model func() nn.Layer
		opts  []parallel.Option
		text  string
	}{
		"tied in checkpointed layers":           {tied, nil, "checkpointed layers that share it need GradientsInParts, an option of Data"},
		"tied in checkpointed layers, in parts": {tied, []parallel.Option{parallel.GradientsInParts()}, ""},
		"no Scope": {func() nn.Layer {
			return nn.Sequential(nn.Linear(16, 16), nn.New(&unscoped{In: nn.Linear(16, 16), Weight: nn.Linear(1, 16, nn.NoBias()).Weight}))
		}, nil, "the Forward of a module of one's own must call Base.Scope"},
	} {
		t.Run(name, func(t *testing.T) {
			for i, err := range together(ranks(t, 2), func(r *rank) error {
				return withModel(r, c.model(), append(c.opts, parallel.ZeRO(3)), func(d *parallel.DataParallel) error {
					defer d.ZeroGrad()
					for pass := range 2 {
						if err := passOf(r, d.Forward); err != nil {
							return fmt.Errorf("pass %d: %w", pass, err)
						}
					}
					return nil
				})
			}) {
				if c.text == "" {
					require.NoError(t, err, "rank %d", i)
				} else {
					require.ErrorContains(t, err, c.text, "rank %d", i)
				}
			}
		})
	}
}
