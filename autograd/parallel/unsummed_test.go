package parallel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
)

// Between the forward and the backward pass that sums, too, an optimizer has the rank's parts alone: the gradients of NoSync would stay, and be summed. The model's ZeroGrad makes it good there as elsewhere.
func TestZeroGrad_OfAnOptimizerBeforeTheBackwardPassIsTold(t *testing.T) {
	for _, how := range []string{"good", "left", "left, in NoSync", "left, with FindUnused", "left, nothing reached"} {
		t.Run(how, func(t *testing.T) {
			for stage := 1; stage <= 3; stage++ {
				options := []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(64, 64)}
				if how == "left, with FindUnused" || how == "left, nothing reached" {
					options = append(options, parallel.FindUnused())
				}
				all := ranks(t, 2)
				for i, err := range together(all, func(r *rank) error {
					m := nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 4))
					return withModel(r, m, options, func(d *parallel.DataParallel) error {
						opt := optim.SGD(d.Parameters(), optim.LR(1))
						if err := r.backward(d, 16); err != nil {
							return err
						}
						once := gradients(r.t, d)
						d.ZeroGrad()
						if err := d.NoSync(func() error { return r.backward(d, 16) }); err != nil {
							return err
						}
						pass := func() error {
							g, x := r.graph(2, 16)
							defer g.Release()
							loss := d.Forward(x).Square().Mean(nil, false)
							if how == "left, nothing reached" {
								other := nn.Linear(16, 2)
								if err := other.To(r.dev, nn.WithAllocator(r.alloc)); err != nil {
									return err
								}
								defer other.Release()
								loss = other.Forward(x).Sum(nil, false)
							}
							opt.ZeroGrad()
							if how == "good" {
								m.ZeroGrad()
							}
							return loss.Backward()
						}
						if how == "good" {
							if err := pass(); err != nil {
								return err
							}
							require.Equal(r.t, once, gradients(r.t, d))
							d.ZeroGrad()
							return nil
						}
						last := pass
						if how == "left, in NoSync" {
							last = func() error { return d.NoSync(pass) }
						}
						require.ErrorContains(r.t, last(), "call DataParallel.ZeroGrad or the model's")
						return nil
					})
				}) {
					require.NoError(t, err, "ZeRO %d, rank %d", stage, i)
				}
				requireNothingKept(t, all)
			}
		})
	}
}

// Ranks that go on alone with what each has added up would differ, or have lost it. The group goes on, so that nothing of the training is lost by the error.
func TestUnshard_WhileGradientsWaitToBeSummedIsRefused(t *testing.T) {
	sharedOut(t, []int{0, 1, 2, 3}, func(r *rank, _ int, m *nn.SequentialModule, d *parallel.DataParallel) error {
		pass := func() error { return r.backward(d, 16) }
		const why = "wait to be summed over the ranks: make a pass outside of NoSync first"
		if err := d.NoSync(func() error {
			if err := pass(); err != nil {
				return err
			}
			require.ErrorContains(r.t, d.Unshard(), why)
			return nil
		}); err != nil {
			return err
		}
		require.ErrorContains(r.t, d.Unshard(), why)
		if err := pass(); err != nil { // they are summed now
			return err
		}
		if err := d.NoSync(pass); err != nil {
			return err
		}
		require.ErrorContains(r.t, d.Unshard(), why)
		d.ZeroGrad()
		if err := d.Unshard(); err != nil {
			return err
		}
		_, err := valuesOf(m)
		return err
	})
}

// Where one rank alone has some, all ranks have the error, and none waits.
func TestUnshard_WhileGradientsOfOneRankWaitIsRefusedOnAll(t *testing.T) {
	sharedOut(t, []int{1, 2, 3}, func(r *rank, _ int, _ *nn.SequentialModule, d *parallel.DataParallel) error {
		if err := d.NoSync(func() error { return r.backward(d, 16) }); err != nil {
			return err
		}
		if r.comm.Rank() == 1 {
			d.ZeroGrad()
		}
		require.ErrorContains(r.t, d.Unshard(), "wait to be summed over the ranks")
		d.ZeroGrad()
		return d.Unshard()
	})
}
