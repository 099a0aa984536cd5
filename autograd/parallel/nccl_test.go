package parallel_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/comm/nccl"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/internal/fakecuda"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
)

// ncclRanks are n ranks on emulated GPUs, a goroutine each, with the emulated NCCL. Freeing memory waits for no device: in one process it would wait for
// what another rank's GPU waits for.
func ncclRanks(t *testing.T, n int, options nccl.Options) []*rank {
	t.Helper()
	rig := emulatedtest.Load(t, cudatest.New(t, n, func(l *fakecuda.Library) { l.Set("free_sync", "0") }))
	all := make([]*rank, n)
	for i := range all {
		all[i] = rankOn(t, rig.Devices[i])
	}
	options.Library, options.TimeLimit = rig.Path(), limit
	comms, meetAt := make([]comm.Comm, n), filepath.Join(t.TempDir(), "meet")
	for i, err := range atOnce(n, func(i int) (err error) {
		comms[i], err = nccl.Open(rig.Devices[i], nccl.ByFile(i, n, meetAt), options)
		return err
	}) {
		require.NoError(t, err, "rank %d", i)
		all[i].comm = comms[i]
	}
	t.Cleanup(func() { // together, as NCCL ends
		require.NoError(t, errors.Join(atOnce(n, func(i int) error { return comms[i].Close() })...))
	})
	return all
}

// atOnce runs f for n numbers at the same time, and returns the errors.
func atOnce(n int, f func(i int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errs
}

// Ranks on GPUs with NCCL train as one process with n times the batch does.
func TestData_TrainsWithNCCLAsOneProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("the emulated GPU is slow")
	}
	for _, n := range []int{2, 4}[:fulltests.Or(2, 1)] {
		for _, stage := range []int{0, 3, 1, 2}[:fulltests.Or(4, 2)] {
			for _, accumulate := range []int{1, 2}[:fulltests.Or(2, 1)] {
				t.Run(fmt.Sprintf("%d ranks, ZeRO %d, %d parts", n, stage, accumulate), func(t *testing.T) {
					c := training{options: []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(200, 1000)}, accumulate: accumulate, steps: 6, seed: 3}
					want := single(t, c)
					have := trainedOn(t, ncclRanks(t, n, nccl.Options{Check: true}), c)
					requireClose(t, want, have, 2e-4)
				})
			}
		}
	}
}

// A rank that fails in training ends the others, which hold nothing then.
func TestData_EndsWithNCCL(t *testing.T) {
	if testing.Short() {
		t.Skip("the emulated GPU is slow")
	}
	c := training{options: []parallel.Option{parallel.ZeRO(3)}, steps: 6}
	c.defaults()
	failure := errors.New("out of luck")
	c.watch = func(r *rank, _ *parallel.DataParallel, _ *optim.Grouped, step int, _ string) error {
		if step == 2 && r.comm.Rank() == 1 {
			return failure
		}
		return nil
	}
	all := ncclRanks(t, 2, nccl.Options{})
	errs := together(all, func(r *rank) error {
		_, err := c.run(r)
		return err
	})
	require.ErrorIs(t, errs[1], failure)
	require.ErrorIs(t, errs[0], comm.ErrAborted)
	var e *comm.Error
	require.ErrorAs(t, errs[0], &e)
	require.Equal(t, 1, e.Peer)
	for i, r := range all {
		require.Zero(t, r.alloc.Stats().AllocatedBytes.All.Current, "rank %d", i)
	}
}
