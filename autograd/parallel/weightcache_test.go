package parallel_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/tensor"
)

// accumulates trains by passes of which the last sums, with casts of weights that several graphs share, and returns the losses. The cache is released before each step, or never.
type accumulates struct {
	r       *rank
	forward func(x *autograd.Variable) *autograd.Variable
	noSync  func(func() error) error
	opt     *optim.Grouped
	weights *amp.WeightCache // nil for none
	release bool
	between bool // evaluates between two passes of a step
}

func (c *accumulates) train() (losses []float64, err error) {
	const steps, parts = 4, 3
	forward := func(step, part int, backward bool) error {
		opts := []autograd.Option{autograd.WithAllocator(c.r.alloc), amp.Autocast(tensor.BFloat16)}
		if c.weights != nil {
			opts[1] = amp.Autocast(tensor.BFloat16, c.weights)
		}
		if !backward {
			opts = append(opts, autograd.NoGrad())
		}
		g := autograd.NewGraph(c.r.dev, opts...)
		defer g.Release()
		x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) {
			return tensor.Full(e, float64(step+2*part+1)/8, tensor.Float32, 2, 16)
		})
		loss := c.forward(x).Square().Mean(nil, false)
		v, err := loss.Item()
		losses = append(losses, v)
		if backward {
			err = errors.Join(err, loss.Backward())
		}
		return err
	}
	pass := func(step, part int) error { return forward(step, part, true) }
	for step := range steps {
		for part := range parts - 1 {
			if err := c.noSync(func() error { return pass(step, part) }); err != nil {
				return nil, err
			}
			if !c.between {
				continue
			}
			if err := forward(step, part, false); err != nil {
				return nil, err
			}
		}
		if err := pass(step, parts-1); err != nil {
			return nil, err
		}
		if c.release {
			c.weights.Release()
		}
		if err := c.opt.Step(); err != nil {
			return nil, err
		}
		c.opt.ZeroGrad()
	}
	return losses, nil
}

// Casts of weights that graphs share are those of the weights as they are: in the passes of an accumulation the same, to the bit what each graph would cast for itself, and after a step, which other ranks have made of their parts, new ones.
func TestWeightCache_IsThatOfTheWeightsThatRanksHave(t *testing.T) {
	newModel := func() *nn.SequentialModule {
		return nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Checkpointed(nn.Linear(8, 8)), nn.Linear(8, 4))
	}
	one, m := ranks(t, 1)[0], newModel()
	for _, evaluates := range []bool{false, true} {
		require.NoError(t, m.To(one.dev, nn.Seed(1), nn.WithAllocator(one.alloc)))
		alone := &accumulates{r: one, forward: m.Forward, noSync: func(f func() error) error { return f() }, opt: sgd(m.Parameters()), between: evaluates}
		want, err := alone.train()
		require.NoError(t, err)
		alone.opt.Release()
		m.Release()
		for stage := range 4 {
			var plain []float64
			for _, cache := range []string{"none", "released", "kept"} {
				t.Run(fmt.Sprintf("ZeRO %d, cache %s, evaluates %v", stage, cache, evaluates), func(t *testing.T) {
					losses := make([][]float64, 2)
					succeed(t, 2, func(r *rank) error {
						m := newModel()
						return withModel(r, m, []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(64, 200)}, func(d *parallel.DataParallel) error {
							c := &accumulates{r: r, forward: d.Forward, noSync: d.NoSync, opt: sgd(d.Parameters()), release: cache == "released", between: evaluates}
							defer c.opt.Release()
							if cache != "none" {
								c.weights = amp.NewWeightCache()
								defer c.weights.Release()
							}
							have, err := c.train()
							losses[r.comm.Rank()] = have
							return err
						})
					})
					require.Equal(t, losses[0], losses[1])
					require.InDeltaSlice(t, want, losses[0], 2e-2)
					if cache == "none" {
						plain = losses[0]
					}
					require.Equal(t, plain, losses[0])
				})
			}
		}
	}
}
