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
	"github.com/cistern-ml/cistern/device/comm"
)

// pair is two models of one shape that a rank trains on one communicator.
type pair struct {
	r   *rank
	ds  [2]*parallel.DataParallel
	opt [2]*optim.Grouped
}

// withPair runs f with two models of the same shapes.
func withPair(r *rank, model func() nn.Layer, opts []parallel.Option, f func(p *pair) error) error {
	return withModel(r, model(), opts, func(first *parallel.DataParallel) error {
		return withModel(r, model(), opts, func(second *parallel.DataParallel) error {
			p := &pair{r: r, ds: [2]*parallel.DataParallel{first, second}}
			for i, d := range p.ds {
				p.opt[i] = optim.SGD(d.Parameters(), optim.LR(0.1))
				defer p.opt[i].Release()
				defer d.ZeroGrad()
			}
			return f(p)
		})
	})
}

func (p *pair) step(i int) error {
	defer p.opt[i].ZeroGrad()
	return errors.Join(p.r.backward(p.ds[i], inputs), p.opt[i].Step())
}

// requireBothNamed checks that all ranks have the error of calls for two models.
func requireBothNamed(t *testing.T, errs []error) {
	t.Helper()
	for i, err := range errs {
		require.ErrorIs(t, err, comm.ErrMismatch, "rank %d", i)
		require.ErrorContains(t, err, "model 1: ", "rank %d", i)
		require.ErrorContains(t, err, "model 2: ", "rank %d", i)
	}
}

// Ranks that come to models of the same shapes in another order would train each by the other's gradients.
func TestData_ModelsOfOneShapeAreToldApart(t *testing.T) {
	model := func() nn.Layer { return nn.Sequential(nn.Linear(inputs, 8), nn.Linear(8, 4)) }
	for name, order := range map[string]func(rank int) []int{
		"in another order": func(rank int) []int { return []int{rank, 1 - rank} },
		"one pass alone": func(rank int) []int {
			if rank == 1 {
				return []int{1, 0}
			}
			return []int{0}
		},
	} {
		for stage := range 4 {
			t.Run(fmt.Sprintf("%s, ZeRO %d", name, stage), func(t *testing.T) {
				all := ranks(t, 2)
				requireBothNamed(t, together(all, func(r *rank) error {
					return withPair(r, model, []parallel.Option{parallel.ZeRO(stage)}, func(p *pair) error {
						for _, i := range []int{0, 1, 0} { // all alike
							if err := p.step(i); err != nil {
								return fmt.Errorf("alike: %v", err)
							}
						}
						for _, i := range order(r.comm.Rank()) {
							if err := p.step(i); err != nil {
								return err
							}
						}
						return nil
					})
				}))
				requireNothingKept(t, all)
			})
		}
	}
}

// So are all other calls of a DataParallel.
func TestData_EachCallSaysForWhichModelItIs(t *testing.T) {
	norms := func() nn.Layer { return nn.Sequential(nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.Linear(8, 4)) }
	evaluate := func(p *pair, d *parallel.DataParallel) error { _, err := p.r.evaluate(d.Forward); return err }
	for name, c := range map[string]struct {
		opts []parallel.Option
		call func(p *pair, i int) error
	}{
		"buffers":     {nil, func(p *pair, i int) error { return evaluate(p, p.ds[i]) }},
		"batch norms": {[]parallel.Option{parallel.SyncBatchNorm(), parallel.BroadcastBuffers(false)}, func(p *pair, i int) error { return p.r.backward(p.ds[i], inputs) }},
		"units":       {[]parallel.Option{parallel.ZeRO(3), parallel.BroadcastBuffers(false)}, func(p *pair, i int) error { return evaluate(p, p.ds[i]) }},
		"Whole":       {[]parallel.Option{parallel.ZeRO(3)}, func(p *pair, i int) error { return p.ds[i].Whole(func() error { return nil }) }},
		"question":    {[]parallel.Option{parallel.ZeRO(2)}, func(p *pair, i int) error { return p.ds[i].Unshard() }},
		"clip":        {[]parallel.Option{parallel.ZeRO(1)}, func(p *pair, i int) error { _, err := p.ds[i].ClipGradNorm(1); return err }},
		"clip, async": {[]parallel.Option{parallel.ZeRO(1)}, func(p *pair, i int) error { return p.ds[i].ClipGradNormAsync(1) }},
		"scaler":      {[]parallel.Option{parallel.ZeRO(1)}, func(p *pair, i int) error { return scaled0(p, i) }},
		"Gather":      {nil, func(p *pair, i int) error { _, err := p.ds[i].Gather(1); return err }},
		"checkpoint": {nil, func(p *pair, i int) error {
			return parallel.NewCheckpoint(p.ds[i]).Write(p.r.t.Context(), p.r.t.TempDir(), 1)
		}},
		"used and order": {[]parallel.Option{parallel.FindUnused(), parallel.BroadcastBuffers(false)}, func(p *pair, i int) error { return p.r.backward(p.ds[i], inputs) }},
	} {
		t.Run(name, func(t *testing.T) {
			all := ranks(t, 2)
			requireBothNamed(t, together(all, func(r *rank) error {
				return withPair(r, norms, c.opts, func(p *pair) error {
					for i := range p.ds {
						if err := p.step(i); err != nil {
							return fmt.Errorf("alike: %v", err)
						}
					}
					return c.call(p, r.comm.Rank())
				})
			}))
			requireNothingKept(t, all)
		})
	}
}

// scaled0 asks the ranks for the overflow of a model.
func scaled0(p *pair, i int) error {
	scaler := amp.NewGradScaler(amp.AgreedBy(p.ds[i]))
	defer scaler.Release()
	return errors.Join(p.r.backward(p.ds[i], inputs), scaler.Unscale(p.opt[i]))
}

// A model that is alone has no number in errors, also when others were there before; and ranks need not close theirs at the same time.
func TestData_NumbersDoNotDependOnWhenRanksClose(t *testing.T) {
	all := ranks(t, 2)
	model := func(r *rank) (nn.Layer, *parallel.DataParallel) {
		m := nn.Linear(inputs, 4)
		require.NoError(r.t, m.To(r.dev, nn.WithAllocator(r.alloc)))
		d, err := parallel.Data(m, r.comm)
		require.NoError(r.t, err)
		return m, d
	}
	errs := together(all, func(r *rank) error {
		var open []func()
		for k := range 4 { // rank 1 closes each one later than rank 0
			m, d := model(r)
			if err := r.backward(d, inputs); err != nil {
				return fmt.Errorf("model %d: %w", k, err)
			}
			d.ZeroGrad()
			open = append(open, func() { require.NoError(r.t, d.Close()); m.Release() })
			if at := k - r.comm.Rank(); at >= 0 {
				open[at]()
			}
		}
		if r.comm.Rank() == 1 {
			open[3]()
		}
		m, d := model(r)
		defer m.Release()
		g, x := r.graph(2, inputs)
		defer g.Release()
		forward := d.Forward
		if r.comm.Rank() == 1 {
			forward = func(*autograd.Variable) *autograd.Variable { _, err := d.Gather(1); g.Fail(err); return x }
		}
		err := forward(x).Square().Mean(nil, false).Backward()
		return errors.Join(err, d.Close())
	})
	for i, err := range errs {
		require.ErrorIs(t, err, comm.ErrMismatch, "rank %d", i)
		require.ErrorContains(t, err, "all-reduce of bucket 0", "rank %d", i)
		require.NotContains(t, err.Error(), "model", "rank %d", i)
	}
	requireNothingKept(t, all)
}
