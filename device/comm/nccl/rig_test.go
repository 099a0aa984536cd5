package nccl

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/internal/fakecuda"
	"github.com/stretchr/testify/require"
)

// The ranks of these tests are goroutines of one process, each with an emulated GPU of its own, and the emulated NCCL, which is in the same
// library as the driver. Freeing memory waits for no device there: as it is, one rank would wait for what another rank's GPU waits for.

// patient is how long a test waits for what should take seconds, on a machine that may be busy.
const patient = 60 * time.Second

// together runs a function for each of n ranks at the same time, and returns their errors.
func together(n int, f func(rank int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for rank := range n {
		wg.Go(func() { errs[rank] = f(rank) })
	}
	wg.Wait()
	return errs
}

// withGroup opens a group on emulated GPUs, runs a function for each rank, and closes the group: with the rig, which finds what is left.
func withGroup(t *testing.T, n int, options Options, f func(c comm.Comm, d *cuda.Device) error, settings ...func(*fakecuda.Library)) []error {
	t.Helper()
	rig := cudatest.New(t, n, append(settings, func(l *fakecuda.Library) { l.Set("free_sync", "0") })...)
	return onRig(t, rig, options, f)
}

func onRig(t *testing.T, rig *cudatest.Rig, options Options, f func(c comm.Comm, d *cuda.Device) error) []error {
	t.Helper()
	options.Library = rig.Path()
	n := len(rig.Devices)
	meetAt := filepath.Join(t.TempDir(), "meet")
	ended := make(chan []error, 1)
	go func() {
		ended <- together(n, func(rank int) error {
			c, err := Open(rig.Devices[rank], ByFile(rank, n, meetAt), options)
			if err != nil {
				return fmt.Errorf("Open: %w", err)
			}
			err = f(c, rig.Devices[rank])
			return errors.Join(err, c.Close())
		})
	}()
	select {
	case errs := <-ended:
		return errs
	case <-time.After(patient):
		require.Fail(t, "the ranks have not ended")
		return nil
	}
}

// fine fails the test for the first error.
func fine(t *testing.T, errs []error) {
	t.Helper()
	for rank, err := range errs {
		require.NoError(t, err, "rank %d", rank)
	}
}
