package parallel_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/tensor"
)

// uneven is a model, and an optimizer, that one process or a rank trains by batches of examples.
type uneven struct {
	r       *rank
	forward func(x *autograd.Variable) *autograd.Variable
}

// pass is one over some examples, whose loss is the sum over them, by weight.
func (u *uneven) pass(examples []int64, weight float64) error {
	g := autograd.NewGraph(u.r.dev, autograd.WithAllocator(u.r.alloc))
	defer g.Release()
	values := make([]float32, 0, len(examples)*inputs)
	for _, i := range examples {
		for k := range inputs {
			values = append(values, float32((int(i)*7+k*5)%13-6)/6)
		}
	}
	x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.FromSlice(e, values, len(examples), inputs) })
	return u.forward(x).Square().Sum(nil, false).MulScalar(weight).Backward()
}

// batchesOf cuts a list into batches, of which the last may be shorter.
func batchesOf(list []int64, size int) (all [][]int64) {
	for from := 0; from < len(list); from += size {
		all = append(all, list[from:min(from+size, len(list))])
	}
	return all
}

// Batches that are shorter on one rank, or empty, are those of one process if each loss is weighed by its examples, as docs/parallel.md says. A sampler's are as long on all ranks, and so are its last ones.
func TestForward_OfBatchesOfOtherLengthsOnOtherRanks(t *testing.T) {
	newModel := func() *nn.SequentialModule {
		return nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, classes))
	}
	dealt := func(n int, opts ...parallel.SamplerOption) [2][][]int64 {
		var all [2][][]int64
		for rank := range all {
			all[rank] = batchesOf(order(t, parallel.NewSampler(n, rank, 2, opts...)), 3)
		}
		return all
	}
	for name, batches := range map[string][2][][]int64{
		"a sampler's, even":    dealt(12),
		"a sampler's, padded":  dealt(9),
		"a sampler's, dropped": dealt(9, parallel.DropLast()),
		"one shorter":          {{{0, 2, 4}, {6, 8, 10}}, {{1, 3, 5}, {7}}},
		"one empty":            {{{0, 2, 4}, {6}}, {{1, 3, 5}, {}}},
	} {
		require.Len(t, batches[1], len(batches[0]))
		one, m := ranks(t, 1)[0], newModel()
		require.NoError(t, m.To(one.dev, nn.Seed(1), nn.WithAllocator(one.alloc)))
		alone, opt := &uneven{one, m.Forward}, sgd(m.Parameters())
		for k := range batches[0] {
			all := append(append([]int64{}, batches[0][k]...), batches[1][k]...)
			require.NoError(t, errors.Join(alone.pass(all, 1/float64(len(all))), opt.Step()))
			opt.ZeroGrad()
		}
		want, err := valuesOf(m)
		require.NoError(t, err)
		opt.Release()
		m.Release()
		for stage := range 4 {
			t.Run(fmt.Sprintf("%s, ZeRO %d", name, stage), func(t *testing.T) {
				succeed(t, 2, func(r *rank) error {
					m := newModel()
					return withModel(r, m, []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(64, 200)}, func(d *parallel.DataParallel) error {
						u, opt := &uneven{r, d.Forward}, sgd(d.Parameters())
						defer opt.Release()
						for k, own := range batches[r.comm.Rank()] {
							all := len(batches[0][k]) + len(batches[1][k])
							if err := errorsInTurn(func() error { return u.pass(own, 2/float64(all)) }, opt.Step); err != nil {
								return err
							}
							opt.ZeroGrad()
						}
						have, err := wholeValues(d, m)
						for name, v := range want {
							require.InDeltaSlice(r.t, v, have[name], 1e-5, name)
						}
						return err
					})
				})
			})
		}
	}
}

// Ranks with other numbers of batches are not joined: the rank that is in a pass still has an error that names the one that has come to its end, at once where that calls something else or closes, and else within the limit.
func TestForward_OfMoreBatchesOnOneRankEndsTheGroup(t *testing.T) {
	type ending struct {
		call  func(r *rank, d *parallel.DataParallel, m nn.Module) error
		slow  []int // stages in which it is for the limit
		plain []int // of them those that are tested if tests do not run in full
	}
	for what, end := range map[string]ending{
		"Gather": {func(_ *rank, d *parallel.DataParallel, _ nn.Module) error { _, err := d.Gather(1); return err }, nil, nil},
		"checkpoint": {func(r *rank, d *parallel.DataParallel, _ nn.Module) error {
			return parallel.NewCheckpoint(d).Write(r.t.Context(), r.t.TempDir(), 1)
		}, nil, nil},
		"Unshard": {func(_ *rank, d *parallel.DataParallel, _ nn.Module) error { return d.Unshard() }, []int{0}, nil},
		"closes": {func(r *rank, d *parallel.DataParallel, _ nn.Module) error {
			return errors.Join(d.Close(), r.comm.Close())
		}, nil, nil},
		"Whole": {func(_ *rank, d *parallel.DataParallel, m nn.Module) error { _, err := wholeValues(d, m); return err }, []int{0, 1, 2, 3}, nil},
		"evaluates": {func(r *rank, d *parallel.DataParallel, _ nn.Module) error {
			_, err := r.evaluate(d.Forward)
			return err
		}, []int{0, 1, 2, 3}, []int{2}},
		"nothing": {func(*rank, *parallel.DataParallel, nn.Module) error { return nil }, []int{0, 1, 2, 3}, []int{0, 3}},
	} {
		for stage := range 4 {
			if slices.Contains(end.slow, stage) && !slices.Contains(end.plain, stage) && !fulltests.Enabled() {
				continue
			}
			t.Run(fmt.Sprintf("%s, ZeRO %d", what, stage), func(t *testing.T) {
				all := ranksWithin(t, time.Second/4, 2)
				errs := together(all, func(r *rank) error {
					m := nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, classes))
					return withModel(r, m, []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(64, 200)}, func(d *parallel.DataParallel) error {
						defer d.ZeroGrad()
						opt := sgd(d.Parameters())
						defer opt.Release()
						step := func() error {
							return errorsInTurn(func() error { return r.backward(d, inputs) }, opt.Step, func() error { opt.ZeroGrad(); return nil })
						}
						if err := errorsInTurn(step, step); err != nil {
							return err
						}
						if r.comm.Rank() == 1 {
							return end.call(r, d, m)
						}
						return errorsInTurn(step, step)
					})
				})
				require.ErrorContains(t, errs[0], "parallel: rank 0: ")
				require.ErrorContains(t, errs[0], "rank 1")
				requireNothingKept(t, all)
			})
		}
	}
}
