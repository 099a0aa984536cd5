package tensor_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// unscaleLayouts make a gradient of a given type whose 100 elements are 4, in layouts that PyTorch's tests use too.
var unscaleLayouts = map[string]func(t testing.TB, e tensor.Exec, dt tensor.DType) *tensor.Tensor{
	"contiguous": func(t testing.TB, e tensor.Exec, dt tensor.DType) *tensor.Tensor {
		return must(t)(tensor.Full(e, 4, dt, 10, 10))
	},
	"transposed": func(t testing.TB, e tensor.Exec, dt tensor.DType) *tensor.Tensor {
		return must(t)(must(t)(tensor.Full(e, 4, dt, 5, 20)).T())
	},
	"gaps": func(t testing.TB, e tensor.Exec, dt tensor.DType) *tensor.Tensor {
		return must(t)(must(t)(tensor.Full(e, 4, dt, 10, 20)).Slice(1, 0, 20, 2))
	},
	"part": func(t testing.TB, e tensor.Exec, dt tensor.DType) *tensor.Tensor {
		return must(t)(must(t)(tensor.Full(e, 4, dt, 30, 10)).Narrow(0, 10, 10))
	},
}

// put sets element [i, j].
func put(t testing.TB, x *tensor.Tensor, i, j int, v float64) {
	t.Helper()
	row := must(t)(x.Select(0, i))
	require.NoError(t, must(t)(row.Select(0, j)).FillInPlace(v))
}

func item(t testing.TB, x *tensor.Tensor) float64 {
	t.Helper()
	v, err := x.Item()
	require.NoError(t, err)
	return v
}

var scaledTypes = []tensor.DType{tensor.Float32, tensor.Float64, tensor.BFloat16, tensor.Float16}

func TestAmpUnscale_MultipliesAndFindsEveryBadElement(t *testing.T) {
	for _, dt := range scaledTypes {
		for name, layout := range unscaleLayouts {
			t.Run(fmt.Sprint(dt, " ", name), func(t *testing.T) {
				b := onHost(t)
				inv := must(t)(tensor.Scalar(b.Exec, 0.25, tensor.Float32))
				for _, bad := range []float64{0, math.Inf(1), math.Inf(-1), math.NaN()} {
					for _, at := range [][2]int{{0, 0}, {4, 3}} {
						found := must(t)(tensor.Zeros(b.Exec, tensor.Float32))
						g := layout(t, b.Exec, dt)
						want := 0.0
						if bad != 0 {
							put(t, g, at[0], at[1], bad)
							want = 1
						}
						require.NoError(t, steps.Unscale(tensors{nil, g}, found, inv))
						require.Equal(t, want, item(t, found), "%v at %v", bad, at)
						if bad == 0 {
							for _, v := range values(t, g) {
								require.Equal(t, 1.0, v)
							}
						}
					}
				}
			})
		}
	}
}

func TestAmpUnscale_LeavesTheGapsOfAGradientAlone(t *testing.T) {
	b := onHost(t)
	base := must(t)(tensor.Full(b.Exec, 4, tensor.Float32, 2, 3))
	column := must(t)(base.Narrow(1, 1, 1))
	found, inv := must(t)(tensor.Zeros(b.Exec, tensor.Float32)), must(t)(tensor.Scalar(b.Exec, 0.5, tensor.Float32))
	require.NoError(t, steps.Unscale(tensors{column}, found, inv))
	require.Equal(t, []float64{4, 2, 4, 4, 2, 4}, values(t, base))
}

func TestAmpUnscale_TakesMixedListsAndNeverClearsFound(t *testing.T) {
	b := onHost(t)
	found, inv := must(t)(tensor.Zeros(b.Exec, tensor.Float32)), must(t)(tensor.Scalar(b.Exec, 0.25, tensor.Float32))
	mixed := func() (gs tensors) {
		for _, dt := range scaledTypes {
			for _, layout := range unscaleLayouts {
				gs = append(gs, layout(t, b.Exec, dt))
			}
		}
		return gs
	}
	gs := mixed()
	before := b.allocated()
	require.NoError(t, steps.Unscale(gs, found, inv))
	require.Equal(t, before, b.allocated())
	require.Zero(t, item(t, found))
	for _, g := range gs {
		require.Equal(t, 100.0, item(t, must(t)(must(t)(g.To(tensor.Float64)).Sum(nil, false))))
		require.EqualValues(t, 1, g.Version())
	}

	gs = mixed()
	put(t, gs[len(gs)-1], 9, 4, math.NaN())
	require.NoError(t, steps.Unscale(gs, found, inv))
	require.Equal(t, 1.0, item(t, found))
	require.NoError(t, steps.Unscale(mixed(), found, inv))
	require.Equal(t, 1.0, item(t, found), "good gradients do not clear it")
	require.NoError(t, steps.Unscale(nil, found, inv))
}

func TestAmpUnscale_IsOneLaunchForEachTypeAndDoesNotWait(t *testing.T) {
	b, dev := onSim(t)
	found, inv := must(t)(tensor.Zeros(b.Exec, tensor.Float32)), must(t)(tensor.Ones(b.Exec, tensor.Float32))
	var gs tensors
	for range 20 {
		gs = append(gs, must(t)(tensor.Empty(b.Exec, tensor.Float32, 7)), must(t)(tensor.Empty(b.Exec, tensor.BFloat16, 3, 5)))
	}
	before := dev.Calls().Count
	require.NoError(t, steps.Unscale(gs, found, inv))
	after := dev.Calls().Count
	before[sim.CallSubmit] += 2
	require.Equal(t, before, after, "two launches and no other call of the driver")
}

func TestAmpUnscale_RefusesWhatItCannotDo(t *testing.T) {
	b := onHost(t)
	one := must(t)(tensor.Ones(b.Exec, tensor.Float32))
	good := must(t)(tensor.Full(b.Exec, 8, tensor.Float32, 2))
	for name, c := range map[string]struct {
		grad, found, inv *tensor.Tensor
		want             refusal
	}{
		"integers":      {must(t)(tensor.Ones(b.Exec, tensor.Int64, 2)), one, one, "dtype"},
		"expanded":      {must(t)(must(t)(tensor.Ones(b.Exec, tensor.Float32, 1)).Expand(2)), one, one, "shape"},
		"double flag":   {good, must(t)(tensor.Ones(b.Exec, tensor.Float64)), one, "dtype"},
		"double scale":  {good, one, must(t)(tensor.Ones(b.Exec, tensor.Float64)), "dtype"},
		"several flags": {good, good, one, "shape"},
		"no scale":      {good, one, must(t)(tensor.Ones(b.Exec, tensor.Float32, 0)), "shape"},
	} {
		require.Equal(t, c.want, kindOf(steps.Unscale(tensors{good, c.grad}, c.found, c.inv)), name)
	}
	require.Equal(t, []float64{8, 8}, values(t, good))
	gone := must(t)(tensor.Ones(b.Exec, tensor.Float32))
	gone.Release()
	require.ErrorIs(t, steps.Unscale(tensors{gone}, one, one), tensor.ErrReleased)
}

func TestAmpUnscale_WithoutMemoryForACopyChangesNothing(t *testing.T) {
	dev := sim.New(device.GiB)
	b := newBench(t, dev, memory.NewDirect(dev))
	found, inv := must(t)(tensor.Zeros(b.Exec, tensor.Float32)), must(t)(tensor.Ones(b.Exec, tensor.Float32))
	gs := tensors{unscaleLayouts["contiguous"](t, b.Exec, tensor.Float32), unscaleLayouts["gaps"](t, b.Exec, tensor.Float64)}
	before := b.allocated()
	dev.FailNext(sim.CallMalloc, 1, device.ErrOutOfMemory)
	require.ErrorIs(t, steps.Unscale(gs, found, inv), memory.ErrOutOfMemory)
	require.Equal(t, before, b.allocated())
	require.Zero(t, gs[0].Version())
}

func TestAmpUpdateScale_GrowsAtTheIntervalAndBacksOffAtOnce(t *testing.T) {
	b := onHost(t)
	scale := must(t)(tensor.Scalar(b.Exec, 4, tensor.Float32))
	tracker := must(t)(tensor.Scalar(b.Exec, 0, tensor.Int32))
	good, bad := must(t)(tensor.Zeros(b.Exec, tensor.Float32)), must(t)(tensor.Ones(b.Exec, tensor.Float32))
	for i, step := range []struct {
		found          *tensor.Tensor
		scale, tracker float64
	}{{good, 4, 1}, {good, 8, 0}, {good, 8, 1}, {bad, 2, 0}, {bad, 0.5, 0}, {good, 0.5, 1}, {good, 1, 0}} {
		require.NoError(t, steps.UpdateScale(scale, tracker, step.found, 2, 0.25, 2))
		require.Equal(t, []float64{step.scale, step.tracker}, []float64{item(t, scale), item(t, tracker)}, "step %d", i)
		require.EqualValues(t, i+1, scale.Version())
	}
	require.Equal(t, refusal("dtype"), kindOf(steps.UpdateScale(scale, good, bad, 2, 0.25, 2)))
	require.Equal(t, refusal("dtype"), kindOf(steps.UpdateScale(tracker, tracker, bad, 2, 0.25, 2)))
}
