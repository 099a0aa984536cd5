package parallel_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/tensor"
)

// A model may be given to Data again, with any stage, when Unshard has made it whole, or Close after Whole with ZeRO 0 to 2: it trains on as in one process, and a rank has the bytes of the stage that it is in, and then those of the model alone.
func TestData_AgainAfterUnshardOrClose(t *testing.T) {
	const rounds, width = 3, 128 // whatever arrays they are in, parameters of a multiple of that length fill the allocator's blocks
	newModel := func() *nn.SequentialModule {
		return nn.Sequential(nn.Linear(width, 8, nn.NoBias()), nn.BatchNorm1d(8, nn.Affine(false)), nn.Tanh(), nn.Linear(8, width))
	}
	pass := func(r *rank, forward func(*autograd.Variable) *autograd.Variable) error {
		g := autograd.NewGraph(r.dev, autograd.WithAllocator(r.alloc))
		defer g.Release()
		values := make([]float32, 3*width)
		for i := range values {
			values[i] = float32(i*7%13-6) / 6
		}
		x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.FromSlice(e, values, 3, width) })
		return forward(x).Square().Mean(nil, false).Backward()
	}
	train := func(opt *optim.Grouped, backward func() error) error {
		for range 2 {
			if err := errorsInTurn(backward, opt.Step); err != nil {
				return err
			}
			opt.ZeroGrad()
		}
		return nil
	}
	one, m := ranks(t, 1)[0], newModel()
	require.NoError(t, m.To(one.dev, nn.Seed(1), nn.WithAllocator(one.alloc)))
	var want [rounds]map[string][]float64
	for k := range want {
		opt := optim.SGD(m.Parameters(), optim.LR(0.1))
		require.NoError(t, train(opt, func() error { return pass(one, m.Forward) }))
		opt.Release()
		var err error
		want[k], err = valuesOf(m)
		require.NoError(t, err)
	}
	m.Release()
	for first := range 4 {
		for second := range 4 {
			for _, bySync := range []bool{false, true} {
				if bySync && first != 3 || !fulltests.Enabled() && second != (first+3)%4 && second != first {
					continue
				}
				t.Run(fmt.Sprintf("ZeRO %d and %d, SyncBatchNorm %v", first, second, bySync), func(t *testing.T) {
					succeed(t, 2, func(r *rank) error {
						m := newModel()
						if err := m.To(r.dev, nn.Seed(1), nn.WithAllocator(r.alloc)); err != nil {
							return err
						}
						defer m.Release()
						held := func() int64 { return r.alloc.Stats().AllocatedBytes.All.Current }
						alone := held()
						var within [rounds]int64
						for k, stage := range []int{first, second, first} {
							opts := []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(1024, 1<<16)}
							if bySync {
								opts = append(opts, parallel.SyncBatchNorm())
							}
							d, err := parallel.Data(m, r.comm, opts...)
							if err != nil {
								return err
							}
							opt := optim.SGD(d.Parameters(), optim.LR(0.1))
							if err := train(opt, func() error { return pass(r, d.Forward) }); err != nil {
								return err
							}
							opt.Release()
							within[k] = held()
							end := d.Unshard
							if k == 1 && stage < 3 {
								end = func() error {
									return errorsInTurn(func() error { return d.Whole(func() error { return nil }) }, d.Close)
								}
							}
							if err := end(); err != nil {
								return err
							}
							have, err := valuesOf(m)
							if err != nil {
								return err
							}
							for name, v := range want[k] {
								require.InDeltaSlice(r.t, v, have[name], 1e-5, "%s in round %d", name, k)
							}
						}
						require.Equal(r.t, within[0], within[2])
						require.Equal(r.t, alone, held())
						if first == 3 {
							require.Less(r.t, within[0], alone)
						}
						for _, p := range m.Parameters() { // they are ordinary ones again
							require.Nil(r.t, p.Grad())
						}
						if err := pass(r, m.Forward); err != nil {
							return err
						}
						m.ZeroGrad()
						return nil
					})
				})
			}
		}
	}
}
