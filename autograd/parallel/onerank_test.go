package parallel_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/tensor"
)

// What one rank does and the others do not.

// onRank1 trains for three steps, the second of which rank 1 makes in its own way, and returns the values of all ranks; each fails by itself.
func onRank1(t *testing.T, n int, opts []parallel.Option, way func(r *rank, m *nn.SequentialModule, d *parallel.DataParallel) func() error) ([]map[string][]float64, []error) {
	t.Helper()
	all, values := ranks(t, n), make([]map[string][]float64, n)
	errs := together(all, func(r *rank) error {
		m := nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 4))
		return withModel(r, m, append(opts, parallel.BucketBytes(64, 64)), func(d *parallel.DataParallel) error {
			defer d.ZeroGrad()
			opt := optim.SGD(d.Parameters(), optim.LR(0.1))
			defer opt.Release()
			pass := func() error { return r.backward(d, 16) }
			for step := range 3 {
				do := pass
				if step == 1 && r.comm.Rank() == 1 {
					do = way(r, m, d)
				}
				if err := errorsInTurn(do, opt.Step); err != nil {
					return err
				}
				opt.ZeroGrad()
			}
			have, err := wholeValues(d, m)
			values[r.comm.Rank()] = have
			return err
		})
	})
	requireNothingKept(t, all)
	return values, errs
}

// frozen is a way that freezes the first weight for its pass.
func frozen(r *rank, m *nn.SequentialModule, d *parallel.DataParallel) func() error {
	return func() error {
		m.Parameters()[0].SetRequiresGrad(false)
		defer m.Parameters()[0].SetRequiresGrad(true)
		return r.backward(d, 16)
	}
}

// A parameter that one rank alone freezes has a gradient of zeros there with FindUnused, and is what all ranks are told without.
func TestSetRequiresGrad_OnOneRankAlone(t *testing.T) {
	for _, n := range []int{2, 4} {
		for stage := range 4 {
			t.Run(fmt.Sprintf("%d ranks, ZeRO %d", n, stage), func(t *testing.T) {
				_, errs := onRank1(t, n, []parallel.Option{parallel.ZeRO(stage)}, frozen)
				for _, err := range errs {
					require.ErrorContains(t, err, "rank 1: Run: parameter \"0.weight\": it is frozen, and was trained when Data was called: SetRequiresGrad comes before Data, or ask for FindUnused")
				}

				opts := []parallel.Option{parallel.ZeRO(stage), parallel.FindUnused()}
				have, errs := onRank1(t, n, opts, frozen)
				want, others := onRank1(t, n, opts, func(r *rank, m *nn.SequentialModule, d *parallel.DataParallel) func() error {
					return func() error {
						defer m.Parameters()[0].RegisterHook(func(g *tensor.Tensor) (*tensor.Tensor, error) { return g.MulScalar(0) }).Remove()
						return r.backward(d, 16)
					}
				})
				for i := range n {
					require.NoError(t, errs[i])
					require.NoError(t, others[i])
					require.Equal(t, want[0], have[i])
				}
			})
		}
	}
}

// A gradient that one rank alone sets is in the mean of all if it is there before a pass; after it, it is that of the rank's parts, of which all ranks have the step. With ZeRO 0 the rank then has a step of its own.
func TestSetGrad_OnOneRankAlone(t *testing.T) {
	for _, n := range []int{2, 4} {
		for stage := range 4 {
			for _, before := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d ranks, ZeRO %d, before the pass %v", n, stage, before), func(t *testing.T) {
					values, errs := onRank1(t, n, []parallel.Option{parallel.ZeRO(stage)}, func(r *rank, _ *nn.SequentialModule, d *parallel.DataParallel) func() error {
						pass := func() error { return r.backward(d, 16) }
						set := func() error { return setTo(r, 3, d.Parameters()...) }
						if before {
							return func() error { return errorsInTurn(set, pass) }
						}
						return func() error { return errorsInTurn(pass, set) }
					})
					for i := range n {
						require.NoError(t, errs[i])
						if stage == 0 && !before && i == 1 {
							require.NotEqual(t, values[0], values[i])
						} else {
							require.Equal(t, values[0], values[i])
						}
					}
				})
			}
		}
	}
}
