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
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/tensor"
)

// A Backward that does not begin on one rank ends the group: the others wait for its gradients.
func TestBackward_ThatIsRefusedEndsTheGroup(t *testing.T) {
	for name, c := range map[string]struct {
		backward func(r *rank, y *autograd.Variable) error
		is       error
		text     string
	}{
		"no scalar":             {func(_ *rank, y *autograd.Variable) error { return y.Backward() }, nil, "needs WithGradient"},
		"a gradient of a shape": {func(r *rank, y *autograd.Variable) error { return seeded(r, y, 3, 3) }, nil, "WithGradient"},
		"two gradients":         {func(r *rank, y *autograd.Variable) error { return seeded(r, y.Mean(nil, false), 0, 0) }, nil, "WithGradient has 2 gradients for 1"},
		"released": {func(_ *rank, y *autograd.Variable) error {
			loss := y.Mean(nil, false)
			y.Graph().Release()
			return loss.Backward()
		}, autograd.ErrReleased, "released"},
		"a loss that has failed": {func(r *rank, y *autograd.Variable) error { return y.MatMul(y).Mean(nil, false).Backward() }, nil, "matmul"},
		"no gradient":            {func(_ *rank, y *autograd.Variable) error { return y.Detach().Mean(nil, false).Backward() }, nil, "depends on no leaf that requires a gradient"},
	} {
		for stage := range 4 {
			t.Run(fmt.Sprintf("%s, ZeRO %d", name, stage), func(t *testing.T) {
				succeed(t, 2, func(r *rank) error {
					return withModel(r, newScaled(), []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
						defer d.ZeroGrad()
						g, x := r.graph(2, inputs)
						defer g.Release()
						y, err := d.Forward(x), error(nil)
						if r.comm.Rank() == 1 {
							err = c.backward(r, y)
							if c.is != nil {
								require.ErrorIs(r.t, err, c.is)
							}
						} else {
							if err = y.Mean(nil, false).Backward(); err == nil { // it has not needed the other
								_, err = d.Gather(1)
							}
							require.ErrorIs(r.t, err, comm.ErrAborted)
						}
						require.ErrorContains(r.t, err, "parallel: rank 1: Backward: ")
						require.ErrorContains(r.t, err, c.text)
						_, again := d.Gather(1)
						require.Error(r.t, again)
						return nil
					})
				})
			})
		}
	}
}

// seeded is a pass that starts with tensors of a shape, two of them if it has no dimension.
func seeded(r *rank, y *autograd.Variable, rows, columns int) error {
	n := 1
	var shape []int
	if rows > 0 {
		shape = []int{rows, columns}
	} else {
		n = 2
	}
	var seeds []*tensor.Tensor
	for range n {
		s, err := tensor.Ones(r.exec, tensor.Float32, shape...)
		if err != nil {
			return err
		}
		defer s.Release()
		seeds = append(seeds, s)
	}
	return y.Backward(autograd.WithGradient(seeds...))
}

// A second pass of a graph that one rank has not kept is refused there while the others make it.
func TestBackward_ASecondPassThatIsRefusedEndsTheGroup(t *testing.T) {
	for stage := range 4 {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			succeed(t, 2, func(r *rank) error {
				return withModel(r, newScaled(), []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
					defer d.ZeroGrad()
					g, x := r.graph(2, inputs)
					defer g.Release()
					loss := d.Forward(x).Square().Mean(nil, false)
					var opts []autograd.BackwardOption
					if r.comm.Rank() == 0 {
						opts = append(opts, autograd.RetainGraph())
					}
					if err := loss.Backward(opts...); err != nil {
						return err
					}
					err := loss.Backward()
					if err == nil {
						_, err = d.Gather(1)
					}
					require.ErrorContains(r.t, err, "parallel: rank 1: Backward: ")
					require.ErrorContains(r.t, err, "a second time")
					return nil
				})
			})
		})
	}
}

// The passes of a GAN, in one graph, concern the model that they reach: the generator's waits for the loss that comes to it.
func TestBackward_ConcernsTheModelsThatItReaches(t *testing.T) {
	const batch, steps = 4, 4
	type model struct {
		forward func(x *autograd.Variable) *autograd.Variable
		opt     *optim.Grouped
		zero    func()
	}
	newGen := func() *nn.SequentialModule { return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, inputs)) }
	newDisc := func() *nn.SequentialModule { return nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, 1)) }
	// run makes the steps with this rank's share of the batch
	run := func(r *rank, gen, disc model, share, shares int) error {
		for step := range steps {
			err := func() error {
				g := autograd.NewGraph(r.dev, autograd.WithAllocator(r.alloc))
				defer g.Release()
				rows := batch / shares
				noise, real := make([]float32, batch*3), make([]float32, batch*inputs)
				for i := range noise {
					noise[i] = float32((i*7+step*3)%11-5) / 5
				}
				for i := range real {
					real[i] = float32((i*5+step)%13-6) / 6
				}
				z := autograd.FromSlice(g, noise[share*rows*3:(share+1)*rows*3], rows, 3)
				x := autograd.FromSlice(g, real[share*rows*inputs:(share+1)*rows*inputs], rows, inputs)
				fake := gen.forward(z)
				onReal, onFake := disc.forward(x), disc.forward(fake.Detach())
				lossD := onReal.BCEWithLogitsLoss(onReal.OnesLike(), autograd.MeanReduction).
					Add(onFake.BCEWithLogitsLoss(onFake.MulScalar(0), autograd.MeanReduction))
				if err := errors.Join(lossD.Backward(), disc.opt.Step()); err != nil {
					return err
				}
				if step%2 == 1 { // the generator learns half as often
					disc.zero()
					return nil
				}
				again := disc.forward(fake)
				if err := again.BCEWithLogitsLoss(again.OnesLike(), autograd.MeanReduction).Backward(); err != nil {
					return err
				}
				err := gen.opt.Step()
				gen.zero()
				disc.zero()
				return err
			}()
			if err != nil {
				return fmt.Errorf("step %d: %w", step, err)
			}
		}
		return nil
	}
	made := func(r *rank) (gen, disc *nn.SequentialModule) {
		gen, disc = newGen(), newDisc()
		require.NoError(r.t, errors.Join(gen.To(r.dev, nn.Seed(1), nn.WithAllocator(r.alloc)), disc.To(r.dev, nn.Seed(2), nn.WithAllocator(r.alloc))))
		return gen, disc
	}
	one := ranks(t, 1)[0]
	gen, disc := made(one)
	plain := func(m *nn.SequentialModule) model {
		return model{m.Forward, optim.SGD(m.Parameters(), optim.LR(0.5)), m.ZeroGrad}
	}
	require.NoError(t, run(one, plain(gen), plain(disc), 0, 1))
	wantGen, err := valuesOf(gen)
	require.NoError(t, err)
	wantDisc, err := valuesOf(disc)
	require.NoError(t, err)
	gen.Release()
	disc.Release()
	for name, opts := range map[string][]parallel.Option{
		"ZeRO 0": nil, "ZeRO 1": {parallel.ZeRO(1)}, "ZeRO 2": {parallel.ZeRO(2)}, "ZeRO 3": {parallel.ZeRO(3)}, "FindUnused": {parallel.FindUnused()}, "FindUnused, ZeRO 2": {parallel.FindUnused(), parallel.ZeRO(2)},
	} {
		t.Run(name, func(t *testing.T) {
			all := ranks(t, 2)
			for i, err := range together(all, func(r *rank) (err error) {
				gen, disc := made(r)
				defer gen.Release()
				defer disc.Release()
				opts := append([]parallel.Option{parallel.BucketBytes(100, 100)}, opts...)
				dg, err := parallel.Data(gen, r.comm, opts...)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, dg.Close()) }()
				dd, err := parallel.Data(disc, r.comm, opts...)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, dd.Close()) }()
				of := func(d *parallel.DataParallel) model {
					return model{d.Forward, optim.SGD(d.Parameters(), optim.LR(0.5)), d.ZeroGrad}
				}
				if err := run(r, of(dg), of(dd), r.comm.Rank(), 2); err != nil {
					return err
				}
				haveGen, err := wholeValues(dg, gen)
				if err != nil {
					return err
				}
				haveDisc, err := wholeValues(dd, disc)
				for name, v := range wantGen {
					require.InDeltaSlice(r.t, v, haveGen[name], 1e-5, name)
				}
				for name, v := range wantDisc {
					require.InDeltaSlice(r.t, v, haveDisc[name], 1e-5, name)
				}
				return err
			}) {
				require.NoError(t, err, "rank %d", i)
			}
			requireNothingKept(t, all)
		})
	}
}

// A pass that reaches no model of the graph is the error that it is with one.
func TestBackward_ThatReachesNoModelIsTold(t *testing.T) {
	all := ranks(t, 2)
	for i, err := range together(all, func(r *rank) error {
		return withModel(r, newScaled(), nil, func(a *parallel.DataParallel) error {
			return withModel(r, newScaled(), nil, func(b *parallel.DataParallel) error {
				g, x := r.graph(2, inputs)
				defer g.Release()
				leaf := g.Input(mustOnes(r), autograd.RequiresGrad())
				y := a.Forward(x).Detach().Add(b.Forward(x).Detach())
				var unused *parallel.UnusedError
				require.ErrorAs(r.t, y.Mean(nil, false).Mul(leaf).Backward(), &unused)
				return nil
			})
		})
	}) {
		require.NoError(t, err, "rank %d", i)
	}
}

// mustOnes is a scalar one that lasts as long as the rank.
func mustOnes(r *rank) *tensor.Tensor {
	one, err := tensor.Ones(r.exec, tensor.Float32)
	require.NoError(r.t, err)
	r.t.Cleanup(one.Release)
	return one
}

// A graph that has failed before Run has no forward pass, and ends the group as one that fails in it.
func TestRun_InAGraphThatHasFailedEndsTheGroup(t *testing.T) {
	for stage := range 4 {
		succeed(t, 2, func(r *rank) error {
			return withModel(r, newScaled(), []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
				defer d.ZeroGrad()
				g, x := r.graph(2, inputs)
				defer g.Release()
				if r.comm.Rank() == 1 {
					_ = x.MatMul(x)
				}
				err := d.Forward(x).Mean(nil, false).Backward()
				if err == nil { // it has not needed the other
					_, err = d.Gather(1)
				}
				require.ErrorContains(r.t, err, "matmul")
				if r.comm.Rank() == 0 {
					require.ErrorIs(r.t, err, comm.ErrAborted)
				}
				return nil
			})
		})
	}
}
