package parallel_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
)

// reading is a model that uses the weight of one of its parts by itself, when that has run: as a language model whose head is its embedding. The part may be within a checkpoint, as may be the use.
type reading struct {
	nn.Base
	A, B, C *nn.LinearLayer
	within  bool
}

func newReading(within bool) *reading {
	return nn.New(&reading{A: nn.Linear(inputs, 16), B: nn.Linear(16, 16), C: nn.Linear(inputs, classes), within: within})
}

func (m *reading) Forward(x *autograd.Variable) *autograd.Variable {
	return m.Scope(x, func(*autograd.Graph) *autograd.Variable {
		x = m.B.Forward(m.A.Forward(x)).Tanh()
		use := func(in []*autograd.Variable) *autograd.Variable {
			return in[0].MatMul(in[0].Graph().Param(m.A.Weight))
		}
		if m.within {
			return m.C.Forward(autograd.Checkpoint(use, x))
		}
		return m.C.Forward(use([]*autograd.Variable{x}))
	})
}

func TestZeRO3_GathersAUnitAgainForTheModelsOwnUseOfIt(t *testing.T) {
	for _, within := range []bool{false, true} {
		for _, parts := range []bool{false, true} {
			t.Run(fmt.Sprintf("within a checkpoint %v, in parts %v", within, parts), func(t *testing.T) {
				c := training{model: func() nn.Layer { return newReading(within) }, steps: 4, opt: sgd, accumulate: 2}
				c.options = []parallel.Option{parallel.ZeRO(3)}
				if parts {
					c.options = append(c.options, parallel.GradientsInParts())
				}
				c.watch = func(r *rank, d *parallel.DataParallel, _ *optim.Grouped, _ int, when string) error {
					if when != "step" {
						return nil
					}
					held := r.alloc.Stats().AllocatedBytes.All.Current
					have, err := r.evaluate(d.Forward)
					require.Equal(r.t, held, r.alloc.Stats().AllocatedBytes.All.Current)
					return errors.Join(err, d.Whole(func() error {
						want, err := r.evaluate(d.Module().(nn.Layer).Forward)
						require.Equal(r.t, want, have)
						return err
					}))
				}
				requireClose(t, single(t, c), trained(t, 2, c), 2e-5)
			})
		}
	}
}
