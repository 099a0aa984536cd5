package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/examples/internal/classify"
	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/examples/mnist/dataset"
	"github.com/cistern-ml/cistern/internal/fakecuda"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// digits is the whole database, which is unpacked once.
func digits(t *testing.T) (train, test dataset.Set) {
	t.Helper()
	sets, err := unpacked()
	require.NoError(t, err)
	return sets[0], sets[1]
}

var unpacked = sync.OnceValues(func() (sets [2]dataset.Set, err error) {
	sets[0], sets[1], err = dataset.Load("")
	return sets, err
})

// small trains few units on few digits: three steps of an epoch, the last one on fewer digits.
func small(t *testing.T, dev device.Device, epochs int, stdout io.Writer) (r classify.Report, err error) {
	t.Helper()
	all, test := digits(t)
	first := func(s dataset.Set, n int) dataset.Set {
		return dataset.Set{Images: s.Images[:n*s.Rows*s.Cols], Labels: s.Labels[:n], Rows: s.Rows, Cols: s.Cols}
	}
	s, err := session.On(dev, 1)
	if err != nil {
		return r, err
	}
	o := classify.Options{Epochs: epochs, Batch: 16, Seed: 1, LR: 2e-3}
	model := func(rows, cols int) (nn.Layer, error) { return network(rows*cols, 8), nil }
	figures, err := classify.Train(s, o, model, first(all, 40), first(test, 32), stdout, io.Discard)
	if err != nil {
		return r, err
	}
	return *figures, nil
}

// onHost is what an epoch count gives on a host device.
func onHost(t *testing.T, epochs int) classify.Report {
	t.Helper()
	dev := host.New(host.Capacity(64 << 20))
	defer func() { require.NoError(t, dev.Close()) }()
	r, err := small(t, dev, epochs, io.Discard)
	require.NoError(t, err)
	return r
}

// requireSame compares losses of all steps, by that of the last one, and what was recognized. Sums are formed in another order.
func requireSame(t *testing.T, want, got classify.Report) {
	t.Helper()
	require.InEpsilon(t, want.FirstLoss, got.FirstLoss, 1e-5)
	require.InEpsilon(t, want.LastLoss, got.LastLoss, 1e-4)
	require.Equal(t, want.Accuracy, got.Accuracy)
	require.Equal(t, want.Steps, got.Steps)
	require.Equal(t, want.Leaf, got.Leaf)
	require.Equal(t, got.Leaf, got.AfterRelease)
	require.Zero(t, got.AtEnd)
}

func TestCUDA_LearnsWhatTheHostDoes(t *testing.T) {
	want := onHost(t, 3)
	require.NotEqual(t, want.FirstLoss, want.LastLoss)
	dev, rig := emulatedtest.New(t)
	for _, greedy := range []bool{false, true} {
		rig.Greedy(greedy)
		var stdout bytes.Buffer
		got, err := small(t, dev, 3, &stdout)
		require.NoError(t, err)
		requireSame(t, want, got)
		require.Contains(t, stdout.String(), "cuda:0")
	}
}

// The same by the PTX that a GPU would get.
func TestCUDA_LearnsByThePTXWhatTheHostDoes(t *testing.T) {
	want := onHost(t, 3)
	dev, _ := emulatedtest.NewPTX(t)
	got, err := small(t, dev, 3, io.Discard)
	require.NoError(t, err)
	requireSame(t, want, got)
}

// trainOnce trains on a new device, to which prepare does something before. Whatever happens, the allocator ends with nothing,
// and so does the driver, which emulatedtest sees to. It returns the device too, for what is left to ask.
func trainOnce(t *testing.T, prepare func(*fakecuda.Library), settings ...func(*fakecuda.Library)) (classify.Report, *cuda.Device, error) {
	t.Helper()
	dev, rig := emulatedtest.New(t, settings...)
	alloc, err := memory.For(dev)
	require.NoError(t, err)
	prepare(rig.Library)
	r, err := small(t, dev, 1, io.Discard)
	rig.ClearFaults()
	stats := alloc.Stats()
	require.Zero(t, stats.AllocatedBytes.All.Current, "after %v", err)
	require.Zero(t, stats.ActiveBytes.All.Current, "after %v", err)
	return r, dev, err
}

// requireOneError demands an error of one line that tells what happened, once.
func requireOneError(t *testing.T, err error, what string) {
	t.Helper()
	require.ErrorContains(t, err, what)
	require.Equal(t, 1, strings.Count(err.Error(), what), "%v", err)
	require.NotContains(t, err.Error(), "\n")
	require.NotContains(t, err.Error(), "still in use")
	var typed *device.Error
	require.ErrorAs(t, err, &typed)
}

// Each function of the driver that the program uses fails at its first call, its last one and some between. The program ends with
// one error that names the driver's, or gets over it and is right.
func TestCUDA_EndsWithOneErrorWhereverTheDriverFails(t *testing.T) {
	want := onHost(t, 1)
	calls, failed := map[string]int{}, 0
	t.Run("without faults", func(t *testing.T) {
		dev, rig := emulatedtest.New(t)
		before := rig.Calls()
		_, err := small(t, dev, 1, io.Discard)
		require.NoError(t, err)
		for f, n := range rig.Calls() {
			calls[f] = n - before[f]
		}
	})
	for _, f := range slices.Sorted(maps.Keys(calls)) {
		n := calls[f]
		for i, nth := range slices.Compact([]int{min(1, n), min(2, n), (n + 1) / 2, n}) {
			if nth == 0 || (i+len(f))%fulltests.Or(1, 3) != 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s %d of %d", f, nth, n), func(t *testing.T) {
				got, _, err := trainOnce(t, func(l *fakecuda.Library) { l.Fail(f, nth, 999) })
				if err == nil {
					requireSame(t, want, got)
					return
				}
				failed++
				requireOneError(t, err, "CUDA_ERROR_UNKNOWN")
			})
		}
	}
	require.Greater(t, failed, len(calls)/2)
}

func TestCUDA_EndsWithOneErrorWhenAKernelFails(t *testing.T) {
	for _, nth := range []int{1, 5, 40, 80} {
		t.Run(fmt.Sprint(nth), func(t *testing.T) {
			_, dev, err := trainOnce(t, func(l *fakecuda.Library) { l.Fail("work", nth, 700) })
			require.Error(t, dev.Err())
			requireOneError(t, err, "CUDA_ERROR_ILLEGAL_ADDRESS")
		})
	}
}

func TestCUDA_EndsWithOneErrorWhenMemoryRunsOut(t *testing.T) {
	short := 0
	for mebi := uint64(1); mebi <= 9; mebi += 2 {
		t.Run(fmt.Sprint(mebi), func(t *testing.T) {
			_, _, err := trainOnce(t, func(*fakecuda.Library) {}, func(l *fakecuda.Library) { l.Capacity(0, mebi<<20) })
			if err == nil {
				return
			}
			short++
			require.ErrorIs(t, err, memory.ErrOutOfMemory)
			require.Equal(t, 1, strings.Count(err.Error(), "out of memory"), "%v", err)
			require.NotContains(t, err.Error(), "\n")
		})
	}
	require.Positive(t, short)
}

// What somebody forgets to release is told: a block by the allocator, which gives it back all the same, memory that the driver
// gave directly by the driver.
func TestCUDA_ALeakIsFound(t *testing.T) {
	dev, rig := emulatedtest.New(t)
	memoryLeaks := func() []string {
		return slices.DeleteFunc(rig.Leaks(), func(line string) bool { return !strings.Contains(line, "cuMemAlloc_v2") })
	}
	e, err := tensor.On(dev)
	require.NoError(t, err)
	_, err = tensor.Zeros(e.Owned(), tensor.Float32, 1000)
	require.NoError(t, err)
	_, err = small(t, dev, 1, io.Discard)
	var leak *memory.LeakError
	require.ErrorAs(t, err, &leak)
	require.ErrorContains(t, err, "1 block, 4096 bytes")
	require.Empty(t, memoryLeaks())

	p, err := dev.Malloc(12345)
	require.NoError(t, err)
	_, err = small(t, dev, 1, io.Discard)
	require.NoError(t, err)
	require.Len(t, memoryLeaks(), 1)
	require.Contains(t, memoryLeaks()[0], "12345")
	require.NoError(t, dev.Free(p))
	require.Empty(t, memoryLeaks())
}
