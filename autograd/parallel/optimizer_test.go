package parallel_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
)

// An optimizer of the model's own parameters sees no gradients where ranks have parts of them: it would train nothing.
func TestOptimizerOfTheModelsParameters_IsRefusedWhereTheyAreSharded(t *testing.T) {
	for stage := range 4 {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			succeed(t, 2, func(r *rank) error {
				m := nn.Sequential(nn.Linear(16, 4))
				before := optim.SGD(m.Parameters(), optim.LR(1e-3))
				return withModel(r, m, []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
					after := optim.AdamW(m.Parameters())
					defer after.Release()
					lbfgs := optim.LBFGS(m.Parameters())
					defer lbfgs.Release()
					lbfgs.SetClosure(func() (float64, error) { return 0, nil })
					if err := r.backward(d, 16); err != nil {
						return err
					}
					defer d.ZeroGrad()
					for name, o := range map[string]optim.Optimizer{"SGD": before, "AdamW": after, "LBFGS": lbfgs} {
						err := o.Step()
						if stage == 0 {
							if name != "LBFGS" {
								require.NoError(r.t, err)
							}
							continue
						}
						require.ErrorIs(r.t, err, optim.ErrInvalid)
						require.ErrorContains(r.t, err, name)
						require.ErrorContains(r.t, err, `"0.weight"`)
						require.ErrorContains(r.t, err, "make the optimizer of DataParallel.Parameters")
					}
					return nil
				})
			})
		})
	}
}

// After Unshard the parameters are ordinary ones.
func TestOptimizerOfTheModelsParameters_TrainsAfterUnshard(t *testing.T) {
	all := ranks(t, 1)
	r := all[0]
	m := nn.Linear(16, 4)
	require.NoError(t, withModel(r, m, []parallel.Option{parallel.ZeRO(3)}, func(d *parallel.DataParallel) error {
		require.NoError(t, d.Unshard())
		opt := optim.SGD(m.Parameters(), optim.LR(1))
		before, err := m.Weight.Tensor().Float64s()
		require.NoError(t, err)
		g, x := r.graph(2, 16)
		defer g.Release()
		require.NoError(t, m.Forward(x).Square().Mean(nil, false).Backward())
		require.NoError(t, opt.Step())
		after, err := m.Weight.Tensor().Float64s()
		require.NoError(t, err)
		require.NotEqual(t, before, after)
		return nil
	}))
	requireNothingKept(t, all)
}
