package parallel_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/comm/commtest"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

var errInjected = errors.New("injected")

// nth fails one of many calls.
type nth struct {
	calls atomic.Int64
	at    int64
}

func (n *nth) call() error {
	if n.calls.Add(1) == n.at {
		return errInjected
	}
	return nil
}

// poor is an allocator that has no memory for one request.
type poor struct {
	memory.Allocator
	*nth
}

func (p poor) Alloc(bytes uint64, s device.Stream) (memory.Block, error) {
	if err := p.call(); err != nil {
		return memory.Block{}, err
	}
	return p.Allocator.Alloc(bytes, s)
}

// broken is a Comm of which one call fails.
func broken(c comm.Comm, n *nth) comm.Comm {
	return commtest.Hooked{Comm: c, Before: func(device.Stream, comm.Call) error { return n.call() }}
}

// small is a training that a test can repeat many times.
func small(stage int) training {
	c := training{steps: 2, accumulate: 2, clip: 1, seed: 1}
	c.model = func() nn.Layer {
		return nn.Sequential(nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.Checkpointed(nn.Sequential(nn.Linear(8, 8), nn.Tanh())), nn.Linear(8, classes))
	}
	c.options = []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(100, 300)}
	c.defaults()
	return c
}

// everyNth runs with the call at failing, for each that there is, or with strides. run returns whether it came so far.
func everyNth(t *testing.T, stride int, run func(t *testing.T, at int64) (reached bool)) {
	t.Helper()
	stride = fulltests.Or(min(2, stride), stride)
	for at := int64(1); run(t, at); at += int64(stride) {
		require.Less(t, at, int64(100000))
	}
}

// A rank on which one thing fails ends the others: all have an error, those of the others name it, and nobody keeps memory.
func failsEverywhere(t *testing.T, stride int, with func(r *rank, n *nth)) {
	for stage := range 4 {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) { failsIn(t, stride, small(stage), with) })
	}
}

// failsIn is that for one training.
func failsIn(t *testing.T, stride int, c training, with func(r *rank, n *nth)) {
	t.Helper()
	failed := 0
	everyNth(t, stride, func(t *testing.T, at int64) bool {
		all, n := ranks(t, 2), &nth{at: at}
		caching := []memory.Allocator{all[0].alloc, all[1].alloc}
		with(all[1], n)
		errs := together(all, func(r *rank) error { _, err := c.run(r); return err })
		for i := range all {
			require.NoError(t, all[i].dev.Synchronize(t.Context()), "call %d", at)
			require.Zero(t, caching[i].Stats().AllocatedBytes.All.Current, "call %d, rank %d: %v", at, i, errs[1])
			require.Zero(t, caching[i].Stats().NumDeferredFrees, "call %d, rank %d: %v", at, i, errs[1])
		}
		if n.calls.Load() < at {
			require.NoError(t, errors.Join(errs...))
			return false
		}
		failed++
		require.ErrorIs(t, errs[1], errInjected, "call %d", at)
		if errs[0] != nil { // not what only frees, or what comes when the other has done all that it has in common
			require.ErrorIs(t, errs[0], comm.ErrAborted, "call %d: %v", at, errs[1])
			require.ErrorContains(t, errs[0], "rank 1", "call %d", at)
		}
		return true
	})
	require.Greater(t, failed, 5)
}

// poorly makes one of a rank's allocations fail.
func poorly(r *rank, n *nth) {
	r.alloc = poor{r.alloc, n}
	e, err := tensor.On(r.dev, tensor.WithAllocator(r.alloc))
	require.NoError(r.t, err)
	r.exec = e
}

// partly makes one of its collectives fail.
func partly(r *rank, n *nth) { r.comm = broken(r.comm, n) }

func TestData_EveryAllocationThatFailsEndsAllRanks(t *testing.T) { failsEverywhere(t, 23, poorly) }

func TestData_EveryCollectiveThatFailsEndsAllRanks(t *testing.T) { failsEverywhere(t, 3, partly) }

// So where ZeRO 3 gathers a unit again, for a checkpoint in it and for the model's own use of it.
func TestZeRO3_WhatFailsInAUnitThatIsGatheredAgainEndsAllRanks(t *testing.T) {
	c := training{steps: 2, model: func() nn.Layer { return newReading(true) }, options: []parallel.Option{parallel.ZeRO(3)}}
	if fulltests.Enabled() {
		c.accumulate = 2
	}
	c.defaults()
	failsIn(t, 17, c, poorly)
	failsIn(t, 3, c, partly)
	c.model = func() nn.Layer {
		return modelOf(newResidual(nn.Checkpointed(feedForward())), nn.Checkpointed(newResidual(nn.Checkpointed(feedForward()))))
	}
	failsIn(t, 29, c, poorly)
	failsIn(t, 5, c, partly)
}

// frees are the kinds of calls that only frees and waits make, whose failure has nobody to tell: the allocator tries again.
func frees(k sim.CallKind) bool {
	return k == sim.CallFree || k == sim.CallStreamSync || k == sim.CallEventQuery || k == sim.CallEventSync
}

// closes are those that give something else than memory back, which is not back then.
func closes(k sim.CallKind) bool { return k == sim.CallEventClose || k == sim.CallStreamClose }

// Every call of the driver, launches among them, fails in turn on a rank, and nothing is kept.
func TestData_EveryDriverCallThatFailsKeepsNothing(t *testing.T) {
	for stage := range 4 {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			c := small(stage)
			everyNth(t, 211, func(t *testing.T, at int64) bool {
				dev := sim.New(1 << 30)
				alloc := memory.NewDirect(dev)
				e, err := tensor.On(dev, tensor.WithAllocator(alloc))
				require.NoError(t, err)
				group, err := comm.Simulated(dev, 0, 2)
				require.NoError(t, err)
				n, kind := &nth{at: at}, sim.CallKind(0)
				dev.Inject(func(call sim.Call) error {
					err := n.call()
					if err != nil {
						kind = call.Kind
					}
					return err
				})
				_, err = c.run(&rank{t: t, dev: dev, alloc: alloc, exec: e, comm: group})
				dev.Inject(nil)
				reached := n.calls.Load() >= at
				if reached && !frees(kind) {
					require.ErrorIs(t, err, errInjected, "call %d, %v", at, kind)
				} else if !reached {
					require.NoError(t, err)
				}
				require.NoError(t, errors.Join(group.Close(), alloc.EmptyCache()))
				require.Zero(t, alloc.Stats().AllocatedBytes.All.Current, "call %d, %v: %v", at, kind, err)
				if live := dev.Live(); !closes(kind) {
					require.Zero(t, live.Events, "call %d, %v: %v", at, kind, err)
					require.Zero(t, live.Streams, "call %d, %v: %v", at, kind, err)
				}
				require.NoError(t, dev.Close())
				return reached
			})
		})
	}
}

// A rank that dies in the middle of a pass, here by its forward pass, ends the others, which name it.
func TestData_ARankThatDiesEndsTheOthers(t *testing.T) {
	for stage := range 4 {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			all := ranks(t, 4)
			died := errors.New("died of something of its own")
			for i, err := range together(all, func(r *rank) error {
				m := even()
				return withModel(r, m, []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
					for step := range 5 {
						if step == 3 && r.comm.Rank() == 2 {
							return died
						}
						if err := r.backward(d, 64); err != nil {
							return err
						}
					}
					return nil
				})
			}) {
				require.ErrorIs(t, err, died, "rank %d", i)
				if i != 2 {
					require.ErrorContains(t, err, "rank 2", "rank %d", i)
				}
			}
			requireNothingKept(t, all)
		})
	}
}
