package parallel_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
)

// A pass may use the model more often than the passes from which GradientsInParts has learned in how many parts gradients come, or less often.
func TestGradientsInParts_LearnsFromPassesWithMoreUses(t *testing.T) {
	for name, uses := range map[string][]int{"more": {1, 2, 3, 3}, "in turns": {1, 2, 1, 2, 2}, "less": {3, 1, 2, 3}} {
		for _, oneGraph := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, one graph %v", name, oneGraph), func(t *testing.T) {
				sharedOutInParts(t, func(r *rank, _ *nn.SequentialModule, d *parallel.DataParallel) error {
					var unit [][]float64 // the gradients of one use
					g, x := r.graph(2, 16)
					defer func() { g.Release() }()
					for i, n := range uses {
						if !oneGraph && i > 0 {
							g.Release()
							g, x = r.graph(2, 16)
						}
						if err := usedTimes(d, x, n).Backward(); err != nil {
							return fmt.Errorf("pass %d, of %d uses: %w", i, n, err)
						}
						if unit == nil {
							unit = gradients(r.t, d)
							for _, v := range unit {
								for k := range v {
									v[k] /= float64(n)
								}
							}
						}
						requireTimes(r.t, float64(n), unit, gradients(r.t, d))
						d.ZeroGrad()
					}
					return nil
				})
			})
		}
	}
}

// Of two losses of one graph whose forward passes were all made before, the first backward pass sees the uses of both.
func TestGradientsInParts_OfForwardPassesBeforeBothBackwardPasses(t *testing.T) {
	sharedOutInParts(t, func(r *rank, _ *nn.SequentialModule, d *parallel.DataParallel) error {
		var unit [][]float64
		for range 3 {
			g, x := r.graph(2, 16)
			defer g.Release()
			once, twice := usedTimes(d, x, 1), usedTimes(d, x, 2)
			if err := once.Backward(); err != nil {
				return err
			}
			if unit == nil {
				unit = gradients(r.t, d)
			}
			requireTimes(r.t, 1, unit, gradients(r.t, d))
			d.ZeroGrad()
			if err := twice.Backward(); err != nil {
				return err
			}
			requireTimes(r.t, 2, unit, gradients(r.t, d))
			d.ZeroGrad()
		}
		return nil
	})
}

// regions uses one layer in as many checkpointed regions as the test says.
type regions struct {
	nn.Base
	Layer *nn.LinearLayer
	times int
}

func (m *regions) Forward(x *autograd.Variable) *autograd.Variable {
	return m.Scope(x, func(*autograd.Graph) *autograd.Variable {
		for range m.times {
			x = nn.Checkpointed(m.Layer).Forward(x).Tanh()
		}
		return x
	})
}

// What cannot be known before the parts come is an error that does not ask for the option that is there.
func TestGradientsInParts_OfMoreRegionsThanWereLearnedIsTold(t *testing.T) {
	for stage := range 4 {
		for _, err := range together(ranks(t, 2), func(r *rank) error {
			m := nn.New(&regions{Layer: nn.Linear(16, 16), times: 2})
			return withModel(r, m, []parallel.Option{parallel.ZeRO(stage), parallel.GradientsInParts()}, func(d *parallel.DataParallel) error {
				for _, n := range []int{2, 1, 2} {
					m.times = n
					require.NoError(r.t, r.backward(d, 16))
				}
				m.times = 3
				return r.backward(d, 16)
			})
		}) {
			require.ErrorContains(t, err, "make the pass with most of them first", "ZeRO %d", stage)
			require.NotContains(t, err.Error(), "ask for")
		}
	}
}

// Where the bucket has waited for another gradient, more regions are those of one process.
func TestGradientsInParts_OfMoreRegionsIsRightWhereTheBucketHasWaited(t *testing.T) {
	times := []int{1, 2, 3}
	newModel := func() (*regions, *nn.SequentialModule) {
		m := nn.New(&regions{Layer: nn.Linear(16, 16)})
		return m, nn.Sequential(nn.Linear(16, 16), m)
	}
	one := ranks(t, 1)[0]
	var want []float64
	for _, n := range times {
		m, all := newModel()
		m.times = n
		require.NoError(t, all.To(one.dev, nn.Seed(1), nn.WithAllocator(one.alloc)))
		require.NoError(t, passOf(one, all.Forward))
		norm, err := optim.ClipGradNorm(all.Parameters(), math.Inf(1))
		require.NoError(t, err)
		want = append(want, norm)
		all.Release()
	}
	for stage := range 4 {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			succeed(t, 2, func(r *rank) error {
				m, all := newModel()
				opts := []parallel.Option{parallel.ZeRO(stage), parallel.GradientsInParts()}
				if stage == 3 { // what the checkpoint runs again
					opts = append(opts, parallel.Units(m.Layer))
				}
				return withModel(r, all, opts, func(d *parallel.DataParallel) error {
					for i, n := range times {
						m.times = n
						if err := r.backward(d, 16); err != nil {
							return err
						}
						norm, err := d.ClipGradNorm(math.Inf(1))
						if err != nil {
							return err
						}
						require.InEpsilon(r.t, want[i], norm, 1e-5)
						d.ZeroGrad()
					}
					return nil
				})
			})
		})
	}
}

// sharedOutInParts is sharedOut for all stages, with GradientsInParts.
func sharedOutInParts(t *testing.T, f func(r *rank, m *nn.SequentialModule, d *parallel.DataParallel) error) {
	t.Helper()
	for stage := range 4 {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			succeed(t, 2, func(r *rank) error {
				m := nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 4))
				return withModel(r, m, []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(64, 64), parallel.GradientsInParts()}, func(d *parallel.DataParallel) error {
					return f(r, m, d)
				})
			})
		})
	}
}

// usedTimes is a loss over n uses of the model.
func usedTimes(d *parallel.DataParallel, x *autograd.Variable, n int) *autograd.Variable {
	loss := d.Forward(x).Square().Mean(nil, false)
	for range n - 1 {
		loss = loss.Add(d.Forward(x).Square().Mean(nil, false))
	}
	return loss
}

// requireTimes compares gradients with n times those of one use.
func requireTimes(t testing.TB, n float64, one, have [][]float64) {
	t.Helper()
	for i, v := range have {
		for k := range v {
			require.InDelta(t, n*one[i][k], v[k], 1e-4)
		}
	}
}
