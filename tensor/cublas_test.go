package tensor_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/internal/fakecuda"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// The emulated cuBLAS under tensors: PyTorch's tests of its workspace, which here comes from the allocator for each product and
// goes back with it.

// library is a device with cuBLAS, an allocator of its own, and a 64 by 64 matrix of ones.
type library struct {
	*cudatest.Rig
	dev   *cuda.Device
	alloc *memory.Caching
	x     *tensor.Tensor
}

func withLibrary(t *testing.T, settings ...func(*fakecuda.Library)) *library {
	t.Helper()
	r := cudatest.NewCUBLAS(t, 1, settings...)
	l := &library{Rig: r, dev: r.Devices[0]}
	var err error
	l.alloc, err = memory.New(l.dev, memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.alloc.Close()) })
	e, err := tensor.On(l.dev, tensor.WithAllocator(l.alloc))
	require.NoError(t, err)
	ones := make([]float32, 64*64)
	for i := range ones {
		ones[i] = 1
	}
	l.x, err = tensor.FromSlice(e, ones, 64, 64)
	require.NoError(t, err)
	t.Cleanup(l.x.Release)
	return l
}

// allocated is all that was ever allocated, in bytes.
func (l *library) allocated() int64 { return l.alloc.Stats().AllocatedBytes.All.Allocated }

// product multiplies x by itself and checks the numbers.
func (l *library) product(t *testing.T) {
	t.Helper()
	y, err := l.x.MatMul(l.x)
	require.NoError(t, err)
	defer y.Release()
	l.is(t, y, 64)
}

func (l *library) is(t *testing.T, y *tensor.Tensor, want float64) {
	t.Helper()
	values, err := y.Float64s()
	require.NoError(t, err)
	for _, v := range values {
		require.InDelta(t, want, v, 1e-4)
	}
}

const resultBytes = 64 * 64 * 4

// test_cublas_workspace_explicit_allocation: the statistics show the workspace, of the size that the variable asks for.
func TestCUBLAS_WorkspaceIsCountedByTheAllocator(t *testing.T) {
	for value, want := range map[string]int64{"": 8519680, "-1": 8519680, ":4096:8": 32 << 20, ":4096:2": 8 << 20, ":16:8": 128 << 10} {
		t.Setenv(cuda.WorkspaceVariable, value)
		t.Run(value, func(t *testing.T) {
			l := withLibrary(t)
			before, held := l.allocated(), l.alloc.Stats().AllocatedBytes.All.Current
			l.product(t)
			require.EqualValues(t, want+resultBytes, l.allocated()-before)
			require.Equal(t, held, l.alloc.Stats().AllocatedBytes.All.Current, "it is released with the product")
			require.Equal(t, held+want+resultBytes, l.alloc.Stats().AllocatedBytes.All.Peak)
			require.Equal(t, 1, l.Calls()["cublasGemmEx"])
		})
	}
}

// What _cuda_clearCublasWorkspaces is for needs no function: nothing is held between products, and EmptyCache gives the memory
// back to the driver.
func TestCUBLAS_WorkspaceGoesBackToTheDriverWithTheCache(t *testing.T) {
	l := withLibrary(t)
	free := func() uint64 {
		require.NoError(t, l.alloc.EmptyCache())
		info, err := l.dev.MemInfo()
		require.NoError(t, err)
		return info.Free
	}
	before := free()
	l.product(t)
	require.Equal(t, before, free())
}

// Streams have a workspace each while they need it: the emulated library writes over all of it.
func TestCUBLAS_ProductsOnStreamsShareNothing(t *testing.T) {
	l := withLibrary(t)
	require.NoError(t, l.dev.Synchronize(context.Background()))
	l.Hold() // everything is on its way at once
	var results []*tensor.Tensor
	for range 3 {
		s := l.Stream(l.dev)
		e, err := tensor.On(l.dev, tensor.WithAllocator(l.alloc), tensor.WithStream(s))
		require.NoError(t, err)
		x := l.x.On(e)
		y, err := x.MatMul(x)
		require.NoError(t, err)
		z, err := y.MatMul(x)
		require.NoError(t, err)
		y.Release()
		x.Release()
		results = append(results, z)
	}
	l.Release()
	for _, z := range results {
		l.is(t, z, 64*64)
		z.Release()
	}
	require.Equal(t, 1, l.Calls()["cublasCreate_v2"], "one handle for all streams")
}

// A product with a bias or an activation takes what its algorithm needs: the unified workspace of PyTorch's cuBLASLt grows with
// it (test_cublas_unified_workspace_reallocation), here there is nothing to grow.
func TestCUBLAS_EpiloguesTakeTheWorkspaceOfTheirAlgorithm(t *testing.T) {
	l := withLibrary(t)
	bias, err := l.x.Select(0, 0)
	require.NoError(t, err)
	defer bias.Release()
	before := l.allocated()
	y, err := tensor.Linear(l.x, l.x, bias)
	require.NoError(t, err)
	l.is(t, y, 65)
	y.Release()
	require.EqualValues(t, 1<<20+resultBytes, l.allocated()-before)
	require.Equal(t, 1, l.Calls()["cublasLtMatmul"])
}

// test_repeat_graph_capture_cublas_workspace_memory: captures take the workspace from their pool, and do not pile up memory.
func TestCUBLAS_RepeatedCapturesHoldNoMoreMemory(t *testing.T) {
	l := withLibrary(t)
	s := l.Stream(l.dev)
	e, err := tensor.On(l.dev, tensor.WithAllocator(l.alloc), tensor.WithStream(s))
	require.NoError(t, err)
	x := l.x.On(e)
	defer x.Release()
	l.product(t)
	var reserved int64
	for i := range 20 {
		var y *tensor.Tensor
		g, err := l.alloc.CaptureGraph(s, func() (err error) {
			y, err = x.MatMul(x)
			return err
		})
		require.NoError(t, err)
		require.GreaterOrEqual(t, l.poolBytes(g), uint64(8519680), "the workspace is of the capture's pool")
		require.NoError(t, g.Replay(s))
		l.is(t, y, 64)
		y.Release()
		require.NoError(t, g.Close())
		require.NoError(t, l.alloc.EmptyCache())
		now := l.alloc.Stats().ReservedBytes.All.Current
		if i == 0 {
			reserved = now
		}
		require.Equal(t, reserved, now, "capture %d", i)
	}
}

// poolBytes is what a capture's pool has of the device.
func (l *library) poolBytes(g *memory.Graph) (bytes uint64) {
	for _, s := range g.Pool().Snapshot().Segments {
		bytes += uint64(s.TotalSize)
	}
	return bytes
}

// A history names the workspace by the function that took it.
func TestCUBLAS_WorkspaceCanBeToldFromTensorsInAHistory(t *testing.T) {
	l := withLibrary(t)
	require.NoError(t, l.alloc.RecordHistory(memory.HistoryOptions{}))
	defer l.alloc.StopHistory()
	l.product(t)
	found := 0
	for _, e := range l.alloc.Snapshot().DeviceTraces[0] {
		if e.Action == memory.ActionAlloc && e.Size >= 8519680 {
			var names []string
			for _, f := range e.Frames {
				names = append(names, f.Name)
			}
			require.Contains(t, strings.Join(names, " "), "kernelWorkspace")
			found++
		}
	}
	require.Equal(t, 1, found)
}

// Without room for the workspace the product fails as any operation does, and holds nothing.
func TestCUBLAS_WorkspaceThatDoesNotFitIsAnOutOfMemoryError(t *testing.T) {
	l := withLibrary(t, func(lib *fakecuda.Library) { lib.Capacity(0, 8<<20) })
	before := l.alloc.Stats().AllocatedBytes.All.Current
	_, err := l.x.MatMul(l.x)
	require.ErrorIs(t, err, memory.ErrOutOfMemory)
	require.ErrorContains(t, err, "MatMul")
	require.Equal(t, before, l.alloc.Stats().AllocatedBytes.All.Current)
}

// A failure of the library is an error of the operation; the result and the workspace are given back.
func TestCUBLAS_FailuresAreErrorsOfTheOperation(t *testing.T) {
	l := withLibrary(t)
	before := l.alloc.Stats().AllocatedBytes.All.Current
	l.Fail("cublasGemmEx", 1, 13)
	_, err := l.x.MatMul(l.x)
	require.ErrorIs(t, err, device.ErrLaunch)
	require.ErrorContains(t, err, "MatMul")
	require.ErrorContains(t, err, "CUBLAS_STATUS_EXECUTION_FAILED (13)")
	require.Equal(t, before, l.alloc.Stats().AllocatedBytes.All.Current)
	l.product(t)
}
