package autograd_test

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// blockStep is a training step of a residual block of 64 channels on 8 by 8 places in one memory format: it returns the result and the gradients of
// image and kernels, and the peak of the memory.
func blockStep(t *testing.T, r *rig, dt tensor.DType, f tensor.MemoryFormat) (all [][]float64, peak int64) {
	t.Helper()
	r.resetPeak()
	g := r.graph()
	defer g.Release()
	in := func(seed uint64, scale float64, shape ...int) *autograd.Variable {
		x, err := tensor.RandN(r.exec, tensor.NewGenerator(seed), dt, shape...)
		require.NoError(t, err)
		defer x.Release()
		require.NoError(t, x.MulScalarInPlace(scale))
		last, err := x.ToMemoryFormat(f)
		require.NoError(t, err)
		defer last.Release()
		return g.Input(last, autograd.RequiresGrad())
	}
	x, first, second := in(1, 1, 2, 64, 8, 8), in(2, 0.05, 64, 64, 3, 3), in(3, 0.05, 64, 64, 3, 3)
	same := tensor.Conv{Padding: []int{1}}
	norm := func(v *autograd.Variable) *autograd.Variable { return v.BatchNorm(nil, nil, nil, nil, true, 0.1, 1e-5) }
	y := norm(norm(x.Conv2d(first, nil, same)).ReLU().Conv2d(second, nil, same)).Add(x).ReLU().Keep()
	require.NoError(t, y.Mul(y).Mean(nil, false).MulScalar(100).Backward())
	require.Equal(t, f, y.MemoryFormat())
	peak = r.peak() // reading numbers takes copies
	if r.dev.ID().Kind == device.Sim {
		return nil, peak
	}
	return [][]float64{valuesOf(t, y), values(t, x.Grad()), values(t, first.Grad()), values(t, second.Grad())}, peak
}

// The kernels of an emulated GPU give what the host gives in both formats, and with the channels last they are launched less often: image, result and
// kernels are read where they are.
func TestEmulatedGPU_ChannelsLastIsTheSameInFewerLaunches(t *testing.T) {
	want, _ := blockStep(t, onHost(t), tensor.Float32, tensor.ContiguousFormat)
	dev, driver := emulatedtest.NewPTX(t) // whose launches the driver counts
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, alloc.Close()) })
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	r := &rig{t: t, dev: dev, alloc: alloc, exec: e}
	driver.Set("counts", "1")
	launches := func(f tensor.MemoryFormat) (n, turns int) {
		before := launchesOf(t, driver.Counts())
		got, _ := blockStep(t, r, tensor.Float16, f)
		for i := range want {
			off, all := 0.0, 0.0 // squares: single elements are others where rounding decides on which side of 0 a ReLU is
			for k, x := range want[i] {
				off, all = off+(x-got[i][k])*(x-got[i][k]), all+x*x
			}
			require.Less(t, math.Sqrt(off/all), 0.02, "%s, %d", f, i)
		}
		for name, count := range launchesOf(t, driver.Counts()) {
			n += count - before[name]
			if strings.HasPrefix(name, "channels_last") {
				turns += count - before[name]
			}
		}
		return n, turns
	}
	first, copies := launches(tensor.ContiguousFormat)
	last, left := launches(tensor.ChannelsLast)
	require.Equal(t, 12, copies, "two operands of each of two convolutions, forward and in both gradients")
	require.Equal(t, 2, left, "the kernels of gradients of images, which sum over their rows")
	require.Zero(t, r.allocated())
	require.Less(t, last, first)
}

// launchesOf are the launches of each kernel.
func launchesOf(t *testing.T, counts []string) map[string]int {
	t.Helper()
	all := map[string]int{}
	for _, line := range counts {
		name, rest, _ := strings.Cut(line, " launches=")
		count, _, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(count)
		require.NoError(t, err, line)
		all[name] = n
	}
	return all
}

// A step takes the same memory in both formats, computed or simulated.
func TestChannelsLast_TakesTheMemoryThatIsSimulated(t *testing.T) {
	var peaks []int64
	for _, f := range []tensor.MemoryFormat{tensor.ContiguousFormat, tensor.ChannelsLast} {
		for _, r := range []*rig{onHost(t), onSim(t)} {
			_, peak := blockStep(t, r, tensor.Float32, f)
			peaks = append(peaks, peak)
		}
	}
	require.Equal(t, slices.Repeat([]int64{peaks[0]}, 4), peaks)
}
