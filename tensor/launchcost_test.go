package tensor_test

import (
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/internal/invariants"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// launches are operations of one kernel on a CUDA device whose driver returns from a launch at once: what is left is the cost of
// the way from an operation to the driver.
func launches(t testing.TB) map[string]func() (*tensor.Tensor, error) {
	dev, rig := emulatedtest.New(t)
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, alloc.Close()) })
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	e = e.Owned()
	ones := func(shape ...int) *tensor.Tensor {
		x := must(t)(tensor.Ones(e, tensor.Float32, shape...))
		t.Cleanup(x.Release)
		return x
	}
	x, y, row, w := ones(64, 32), ones(64, 32), ones(32), ones(32, 64)
	transposed := must(t)(x.Transpose(0, 1))
	t.Cleanup(transposed.Release)
	all := map[string]func() (*tensor.Tensor, error){
		"Add":           func() (*tensor.Tensor, error) { return x.Add(y) },
		"Add broadcast": func() (*tensor.Tensor, error) { return x.Add(row) },
		"Add strided":   func() (*tensor.Tensor, error) { return transposed.Add(w) },
		"MulScalar":     func() (*tensor.Tensor, error) { return x.MulScalar(2) },
		"ReLU":          x.ReLU,
		"Softmax":       func() (*tensor.Tensor, error) { return x.Softmax(1) },
		"Sum":           func() (*tensor.Tensor, error) { return x.Sum([]int{1}, false) },
		"MatMul":        func() (*tensor.Tensor, error) { return x.MatMul(w) },
		"Contiguous":    func() (*tensor.Tensor, error) { return transposed.Clone() },
	}
	for _, f := range all {
		must(t)(f()).Release() // kernels are loaded, memory is there
	}
	rig.InstantLaunch(true)
	t.Cleanup(func() { rig.InstantLaunch(false) })
	return all
}

func TestLaunches_AllocateOnlyTheHandleOfTheResult(t *testing.T) {
	if invariants.Enabled || raceEnabled {
		t.Skip("the checks of these builds allocate")
	}
	for name, f := range launches(t) {
		require.LessOrEqual(t, heapAllocs(t, f), 1.0, name)
	}
}

// BenchmarkLaunch is the time from the call of an operation to the entry of cuLaunchKernel and back, and of releasing the result.
// best-ns/op is that of the best thousand in a row: what it costs when nothing else wants the processor.
func BenchmarkLaunch(b *testing.B) {
	all := launches(b)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f := all[name]
		b.Run(name, func(b *testing.B) {
			const row = 1000
			best, n, start := time.Duration(math.MaxInt64), 0, time.Now()
			b.ReportAllocs()
			for b.Loop() {
				y, err := f()
				if err != nil {
					b.Fatal(err)
				}
				y.Release()
				if n++; n%row == 0 {
					now := time.Now()
					best, start = min(best, now.Sub(start)), now
				}
			}
			if n >= row {
				b.ReportMetric(float64(best)/row, "best-ns/op")
			}
		})
	}
}
