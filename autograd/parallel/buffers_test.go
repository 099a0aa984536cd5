package parallel_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/tensor"
)

// As DDP does, evaluation begins with the buffers of rank 0.
func TestBroadcastBuffers_EvaluationHasThoseOfRank0(t *testing.T) {
	for _, broadcast := range []bool{true, false} {
		all, means := ranks(t, 2), make([][]float64, 2)
		for i, err := range together(all, func(r *rank) error {
			norm := nn.BatchNorm1d(8)
			m := nn.Sequential(nn.Linear(4, 8), norm)
			return withModel(r, m, []parallel.Option{parallel.BroadcastBuffers(broadcast)}, func(d *parallel.DataParallel) error {
				defer d.ZeroGrad()
				pass := func(opts ...autograd.Option) error {
					g := autograd.NewGraph(r.dev, append(opts, autograd.WithAllocator(r.alloc))...)
					defer g.Release()
					x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) {
						return tensor.Full(e, float64(1+r.comm.Rank()), tensor.Float32, 2, 4)
					})
					loss := d.Forward(x).Mean(nil, false)
					if g.GradEnabled() {
						return loss.Backward()
					}
					_, err := loss.Item()
					return err
				}
				err := pass()
				nn.Eval(m)
				sent := r.comm.Stats()
				for range 2 {
					err = errors.Join(err, pass(autograd.NoGrad()))
					if want := r.comm.Stats(); !broadcast {
						require.Equal(r.t, sent, want)
					}
				}
				var failed error
				means[r.comm.Rank()], failed = norm.RunningMean.Tensor().Float64s()
				return errors.Join(err, failed)
			})
		}) {
			require.NoError(t, err, "rank %d", i)
		}
		if broadcast {
			require.Equal(t, means[0], means[1])
		} else {
			require.NotEqual(t, means[0], means[1])
		}
		requireNothingKept(t, all)
	}
}
