package parallel_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/nn/memreport"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// odd is a model with a batch norm, something frozen, and sizes that no number of ranks divides.
func odd() nn.Layer {
	frozen := nn.Linear(33, 33)
	frozen.SetRequiresGrad(false)
	return nn.Sequential(nn.Linear(inputs, 33), nn.BatchNorm1d(33), frozen, nn.Linear(33, 71), nn.ReLU(), nn.Linear(71, classes))
}

// After backward and after the step a rank holds what Predict says, to the byte, by the allocator's own count.
func TestPredict_IsWhatTheAllocatorCounts(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4} {
		for stage := range 4 {
			for name, opt := range map[string]struct {
				state int
				dtype tensor.DType
				make  func(ps []*autograd.Parameter) *optim.Grouped
			}{
				"AdamW":    {2, tensor.Float32, func(ps []*autograd.Parameter) *optim.Grouped { return optim.AdamW(ps) }},
				"momentum": {1, tensor.Float32, sgd},
				"bfloat16": {2, tensor.BFloat16, func(ps []*autograd.Parameter) *optim.Grouped { return optim.AdamW(ps) }},
				"masters":  {2, tensor.BFloat16, func(ps []*autograd.Parameter) *optim.Grouped { return optim.AdamW(ps) }},
			} {
				if name == "masters" && stage == 0 {
					continue
				}
				t.Run(fmt.Sprintf("%d ranks, ZeRO %d, %s", n, stage, name), func(t *testing.T) {
					c := training{model: odd, opt: opt.make, steps: 2, batch: 24, dtype: opt.dtype}
					c.options = []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(2000, 5000)}
					if name == "masters" {
						c.options = append(c.options, parallel.MasterWeights())
					}
					seen := 0
					c.watch = func(r *rank, d *parallel.DataParallel, o *optim.Grouped, step int, when string) error {
						h, err := parallel.Predict(odd(), opt.dtype, r.comm.Rank(), n, opt.state, c.options...)
						if err != nil {
							return err
						}
						if step == 0 && when == "backward" {
							h.State = 0
						}
						have := uint64(r.alloc.Stats().RequestedBytes.All.Current)
						if r.comm.Rank() == 0 {
							seen++
						}
						if have != h.Total() {
							return fmt.Errorf("rank %d, step %d, %s: %d bytes, predicted %d: %+v", r.comm.Rank(), step, when, have, h.Total(), h)
						}
						return nil
					}
					trained(t, n, c)
					require.Equal(t, 4, seen)
				})
			}
		}
	}
}

// The table of the paper, for a model that shards divide evenly: bytes per rank for K = 8 (float32 Adam).
func TestPredict_IsThePapersTable(t *testing.T) {
	const psi, n = 1024 * 64, 64
	model := func() nn.Module {
		return nn.Sequential(nn.Linear(256, 128, nn.NoBias()), nn.Linear(128, 256, nn.NoBias()))
	}
	for stage, want := range []uint64{16 * psi, 8*psi + 8*psi/n, 4*psi + 12*psi/n, 16 * psi / n} {
		for _, rank := range []int{0, 17, n - 1} {
			h, err := parallel.Predict(model(), tensor.Float32, rank, n, 2, parallel.ZeRO(stage))
			require.NoError(t, err)
			require.Equal(t, want, h.Total(), "ZeRO %d, rank %d", stage, rank)
		}
	}
	for _, bad := range []func() (parallel.Held, error){
		func() (parallel.Held, error) { return parallel.Predict(nil, tensor.Float32, 0, 1, 2) },
		func() (parallel.Held, error) { return parallel.Predict(model(), tensor.Float32, 1, 1, 2) },
		func() (parallel.Held, error) { return parallel.Predict(model(), tensor.Float32, 0, 1, -1) },
		func() (parallel.Held, error) { return parallel.Predict(model(), tensor.Int64, 0, 1, 2) },
		func() (parallel.Held, error) {
			return parallel.Predict(model(), tensor.Float32, 0, 1, 2, parallel.ZeRO(5))
		},
	} {
		_, err := bad()
		var e *parallel.Error
		require.ErrorAs(t, err, &e)
	}
}

// A rank that is alone on a simulated device has the peak of one that trains in a group, to the byte.
func TestData_PeakOfASimulatedRankIsThatOfARealOne(t *testing.T) {
	for _, n := range []int{2, 4} {
		for stage := range 4 {
			for _, parts := range []int{1, 2} {
				t.Run(fmt.Sprintf("%d ranks, ZeRO %d, %d parts", n, stage, parts), func(t *testing.T) {
					c := training{steps: 3, batch: 48, accumulate: parts, model: func() nn.Layer {
						return nn.Sequential(nn.Linear(inputs, 96), nn.GELU(), nn.Linear(96, 160), nn.ReLU(), nn.Linear(160, 64), nn.Linear(64, classes))
					}}
					c.options = []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(8000, 20000)}
					c.defaults()
					peaks := make([]int64, n)
					c.watch = func(r *rank, _ *parallel.DataParallel, _ *optim.Grouped, _ int, _ string) error {
						peaks[r.comm.Rank()] = r.alloc.Stats().AllocatedBytes.All.Peak
						return nil
					}
					trained(t, n, c)
					real := slices.Clone(peaks)
					for i := range n {
						r := newRank(t, sim.New(1<<30))
						var err error
						r.comm, err = comm.Simulated(r.dev, i, n)
						require.NoError(t, err)
						_, err = c.run(r)
						require.NoError(t, err)
						require.NoError(t, r.comm.Close())
						require.Zero(t, r.alloc.Stats().AllocatedBytes.All.Current)
					}
					require.Equal(t, real, peaks)
				})
			}
		}
	}
}

// A memory report of a step knows what the arrays are for: there is nothing that nobody has asked for, and the optimizer's state is the rank's part of it.
func TestData_MemoryReportsKnowWhatArraysAreFor(t *testing.T) {
	for stage := range 4 {
		for _, master := range []bool{false, true} {
			if master && stage == 0 {
				continue
			}
			t.Run(fmt.Sprintf("ZeRO %d, master weights %v", stage, master), func(t *testing.T) {
				dt, opts := tensor.Float32, []parallel.Option{parallel.ZeRO(stage)}
				if master {
					dt, opts = tensor.BFloat16, append(opts, parallel.MasterWeights())
				}
				r := newRank(t, sim.New(1<<30))
				group, err := comm.Simulated(r.dev, 1, 4)
				require.NoError(t, err)
				m := nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
				require.NoError(t, m.To(r.dev, nn.WithAllocator(r.alloc), nn.DType(dt)))
				defer m.Release()
				d, err := parallel.Data(m, group, opts...)
				require.NoError(t, err)
				defer func() { require.NoError(t, d.Close()) }()
				opt := optim.AdamW(d.Parameters())
				defer opt.Release()
				step := func() error {
					g := autograd.NewGraph(r.dev, autograd.WithAllocator(r.alloc))
					defer g.Release()
					x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, dt, 4, 256) })
					if err := d.Forward(x).Mean(nil, false).Backward(); err != nil {
						return err
					}
					defer opt.ZeroGrad()
					return opt.Step()
				}
				require.NoError(t, step())
				report, err := memreport.Measure(r.dev, step, memreport.WithAllocator(r.alloc), memreport.WithOptimizer(opt))
				require.NoError(t, err)
				h, err := parallel.Predict(m, dt, 1, 4, 2, opts...)
				require.NoError(t, err)
				at := report.AtPeak
				require.EqualValues(t, report.Peak, at.Total())
				require.Zero(t, at.Other, "%+v", at)
				require.Less(t, at.Workspace, uint64(h.Total()/50), "%+v", at)
				require.InDelta(t, h.State, at.OptimizerState, 4096, "%+v", at)
				require.GreaterOrEqual(t, at.Parameters+512, h.Parameters+h.Master, "%+v", at)
			})
		}
	}
}

// A program that is far ahead of its device, here by whole steps, takes no more memory for it: nothing that was released waits for other streams.
func TestData_TakesNoMemoryForBeingAheadOfTheDevice(t *testing.T) {
	for stage := range 4 {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			r := newRank(t, sim.New(1<<30, sim.ManualStreams()))
			group, err := comm.Simulated(r.dev, 0, 4)
			require.NoError(t, err)
			m := nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.BatchNorm1d(64), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
			require.NoError(t, m.To(r.dev, nn.WithAllocator(r.alloc)))
			defer m.Release()
			d, err := parallel.Data(m, group, parallel.ZeRO(stage), parallel.BucketBytes(10000, 10000))
			require.NoError(t, err)
			defer func() { require.NoError(t, d.Close()) }()
			opt := optim.AdamW(d.Parameters())
			defer opt.Release()
			r.alloc.(*memory.Caching).ResetPeakStats()
			for range 4 {
				r.comm = group
				require.NoError(t, r.backward(d, 64))
				require.NoError(t, opt.Step())
				opt.ZeroGrad()
			}
			s := r.alloc.Stats()
			require.Equal(t, s.AllocatedBytes.All.Peak, s.ActiveBytes.All.Peak)
			require.Greater(t, s.AllocatedBytes.All.Peak, int64(100000))
		})
	}
}
