package parallel_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/tensor"
)

func TestClipGradNormAsync_ClipsAsClipGradNorm(t *testing.T) {
	for stage := range 4 {
		c := small(stage)
		c.clip = 0.1
		unread := trained(t, 2, c)
		c.read = true
		require.Equal(t, trained(t, 2, c), unread, "ZeRO %d", stage)
		c.clip = 100
		require.NotEqual(t, trained(t, 2, c), unread, "it clips")
	}
}

func TestClipGradNormAsync_DoesNotWait(t *testing.T) {
	for stage := range 4 {
		waits := 0
		dev := sim.New(1<<30, sim.OnCall(func(c sim.Call) {
			if c.Kind == sim.CallCopyToHost || c.Kind == sim.CallStreamSync || c.Kind == sim.CallEventSync || c.Kind == sim.CallDeviceSync {
				waits++
			}
		}))
		r := newRank(t, dev)
		var err error
		r.comm, err = comm.Simulated(dev, 0, 2)
		require.NoError(t, err)
		require.NoError(t, withModel(r, even(), []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
			if err := r.backward(d, 64); err != nil {
				return err
			}
			defer d.ZeroGrad()
			waits = 0
			require.NoError(t, d.ClipGradNormAsync(1))
			require.Zero(t, waits, "ZeRO %d", stage)
			_, err := d.ClipGradNorm(1)
			require.Equal(t, 1, waits, "ZeRO %d", stage)
			return err
		}))
	}
}

// Ranks that clip to different limits would go apart.
func TestClipGradNorm_OfDifferentLimitsIsAMismatchOnAllRanks(t *testing.T) {
	for stage := 1; stage < 4; stage++ {
		for _, n := range []int{2, 3} {
			all := ranks(t, n)
			for i, err := range together(all, func(r *rank) error {
				return withModel(r, even(), []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
					if err := r.backward(d, 64); err != nil {
						return err
					}
					before := gradients(r.t, d)
					limit := []float64{0.002, 0.001, 0.003}[r.comm.Rank()] // of which the mean of three is one
					_, err := d.ClipGradNorm(limit)
					require.Equal(r.t, before, gradients(r.t, d), "nothing is scaled")
					return err
				})
			}) {
				var e *parallel.MismatchError
				require.ErrorAs(t, err, &e, "ZeRO %d, rank %d", stage, i)
				require.Equal(t, "ClipGradNorm", e.Call)
				require.EqualError(t, e, "parallel: rank 1 calls ClipGradNorm with another argument than rank 0: rank 0 gives 0.002, and rank 1 gives 0.001")
			}
			requireNothingKept(t, all)
		}
	}
}

// Where nothing waits, the numbers say it.
func TestClipGradNormAsync_OfDifferentLimitsIsNaN(t *testing.T) {
	for stage := 1; stage < 4; stage++ {
		for _, differ := range []bool{false, true} {
			succeed(t, 3, func(r *rank) error {
				return withModel(r, even(), []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
					if err := r.backward(d, 64); err != nil {
						return err
					}
					defer d.ZeroGrad()
					limit := 0.002
					if differ && r.comm.Rank() == 1 {
						limit = math.Nextafter(limit, 1)
					}
					if err := d.ClipGradNormAsync(limit); err != nil {
						return err
					}
					found := false
					for _, v := range gradients(r.t, d) {
						found = found || slices.ContainsFunc(v, math.IsNaN)
					}
					require.Equal(r.t, differ, found, "ZeRO %d", stage)
					return nil
				})
			})
		}
	}
}

// A limit of one rank that cannot be one keeps it from the sum, for which the others wait.
func TestClipGradNorm_OfABadLimitOnOneRankEndsTheGroup(t *testing.T) {
	for stage := range 4 {
		for name, clip := range map[string]func(d *parallel.DataParallel, limit float64) error{
			"ClipGradNorm":      func(d *parallel.DataParallel, limit float64) error { _, err := d.ClipGradNorm(limit); return err },
			"ClipGradNormAsync": (*parallel.DataParallel).ClipGradNormAsync,
		} {
			all := ranks(t, 2)
			errs := make([]error, len(all))
			for i, err := range together(all, func(r *rank) error {
				return withModel(r, even(), []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
					if err := r.backward(d, 64); err != nil {
						return err
					}
					defer d.ZeroGrad()
					limit := 1.0
					if r.comm.Rank() == 1 {
						limit = math.NaN()
					}
					errs[r.comm.Rank()] = clip(d, limit)
					return nil // no rank ends the group but by that
				})
			}) {
				require.NoError(t, err, "rank %d", i)
			}
			require.ErrorContains(t, errs[1], name+": norm NaN; it must be a number that is not negative")
			if stage == 0 {
				require.NoError(t, errs[0])
				continue
			}
			require.ErrorIs(t, errs[0], comm.ErrAborted, "ZeRO %d", stage)
			require.ErrorContains(t, errs[0], "norm NaN")
		}
	}
}

// A norm that the group has not summed scales nothing, on streams that are queues too.
func TestClipGradNorm_OfALostGroupLeavesTheGradients(t *testing.T) {
	for stage := 1; stage < 4; stage++ {
		for _, async := range []bool{false, true} {
			all := ranks(t, 2)
			for i, err := range together(all, func(r *rank) error {
				return lostInClip(r, stage, async)
			}) {
				require.Error(t, err, "rank %d", i)
			}
			requireNothingKept(t, all)
		}
	}
}

// lostInClip loses the last rank in its clip, and returns the error of that or of what waits next.
func lostInClip(r *rank, stage int, async bool) error {
	s, err := r.dev.NewStream()
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	model := even()
	if err := model.To(r.dev, nn.Seed(1), nn.WithAllocator(r.alloc), nn.WithStream(s)); err != nil {
		return err
	}
	defer model.Release()
	over := false
	d, err := parallel.Data(model, lost(r.comm, &over), parallel.ZeRO(stage))
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	g := autograd.NewGraph(r.dev, autograd.WithAllocator(r.alloc), autograd.WithStream(s))
	defer g.Release()
	x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float32, 2, 64) })
	if err := d.Forward(x).Square().Mean(nil, false).Backward(); err != nil {
		return err
	}
	defer d.ZeroGrad()
	before := gradients(r.t, d)
	over = r.comm.Rank() == r.comm.Size()-1
	if async {
		err = d.ClipGradNormAsync(1e-6)
	} else {
		_, err = d.ClipGradNorm(1e-6)
		require.Error(r.t, err)
	}
	if waited := s.Synchronize(r.t.Context()); err == nil {
		err = waited
	}
	require.Equal(r.t, before, gradients(r.t, d), "ZeRO %d, async %v", stage, async)
	return err
}
