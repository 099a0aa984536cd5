package tensor_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/internal/fakecuda"
	"github.com/cistern-ml/cistern/internal/fulltests"
	kernels "github.com/cistern-ml/cistern/kernels/cuda"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// onStream is a bench on a new stream of another's device, with its allocator.
func onStream(t *testing.T, b bench) tensor.Exec {
	t.Helper()
	s, err := b.Device().NewStream()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	e, err := tensor.On(b.Device(), tensor.WithAllocator(b.alloc), tensor.WithStream(s))
	require.NoError(t, err)
	return e
}

func freeMemory(t *testing.T, d device.Device) uint64 {
	t.Helper()
	info, err := d.MemInfo()
	require.NoError(t, err)
	return info.Free
}

// replays runs one graph a thousand times, which counts in n elements by way of a temporary tensor. Neither the allocator nor the
// driver has less memory at the end: at most a quarter of what a leak of the temporary in each replay would be.
func replays(t *testing.T, b bench, n int) {
	const times = 1000
	e, caching := onStream(t, b), b.alloc.(*memory.Caching)
	m := &making{t: t, Exec: e}
	defer m.release()
	x := m.of(tensor.Zeros(e, tensor.Float32, n))
	step := func() error {
		y, err := x.AddScalar(1)
		if err != nil {
			return err
		}
		defer y.Release()
		return x.CopyFrom(y)
	}
	require.NoError(t, step())
	require.NoError(t, x.ZeroInPlace())
	g, err := caching.CaptureGraph(e.Stream(), step)
	require.NoError(t, err)
	require.NoError(t, errors.Join(g.Replay(e.Stream()), e.Stream().Synchronize(context.Background())))
	before, free := caching.Stats(), freeMemory(t, b.Device())
	for range times - 1 {
		require.NoError(t, g.Replay(e.Stream()))
	}
	got := values(t, x)
	for i, v := range got {
		require.EqualValues(t, times, v, "element %d", i)
	}
	after := caching.Stats()
	require.Equal(t, before.AllocatedBytes.All.Current, after.AllocatedBytes.All.Current)
	require.Equal(t, before.ReservedBytes.All.Current, after.ReservedBytes.All.Current)
	require.Equal(t, before.NumDeviceAlloc, after.NumDeviceAlloc)
	tolerance := uint64(times) * uint64(n)
	require.Less(t, free, freeMemory(t, b.Device())+tolerance, "the driver has less memory than before")
	require.NoError(t, g.Close())
	require.NoError(t, caching.EmptyCache())
	require.Equal(t, after.AllocatedBytes.All.Current, caching.Stats().AllocatedBytes.All.Current)
}

func TestGraph_AThousandReplaysCountAndTakeNothing(t *testing.T) {
	b, _ := onPTX(t)
	replays(t, b, 1000)
}

func TestGPU_AThousandReplaysCountAndTakeNothing(t *testing.T) {
	n := 1 << 20
	if testing.Short() {
		n = 1000
	}
	replays(t, onGPU(t), n)
}

// captures makes a hundred graphs, each of which is closed before the next one is made.
func captures(t *testing.T, b bench, n int) {
	const times = 100
	e, caching := onStream(t, b), b.alloc.(*memory.Caching)
	m := &making{t: t, Exec: e}
	defer m.release()
	x := m.of(tensor.Zeros(e, tensor.Float32, n))
	var free uint64
	var first memory.Stats
	for i := range times {
		g, err := caching.CaptureGraph(e.Stream(), func() error {
			y, err := x.AddScalar(1)
			if err != nil {
				return err
			}
			defer y.Release()
			return x.CopyFrom(y)
		})
		require.NoError(t, err)
		require.NoError(t, errors.Join(g.Replay(e.Stream()), e.Stream().Synchronize(context.Background()), g.Close(), caching.EmptyCache()))
		if i == 0 {
			first, free = caching.Stats(), freeMemory(t, b.Device())
		}
	}
	require.EqualValues(t, times, values(t, x)[n-1])
	require.Equal(t, first.ReservedBytes.All.Current, caching.Stats().ReservedBytes.All.Current)
	require.Less(t, free, freeMemory(t, b.Device())+times*uint64(n), "the driver has less memory than before")
}

func TestGraph_AHundredCapturesTakeNothing(t *testing.T) {
	b, _ := onPTX(t)
	captures(t, b, 1000)
}

func TestGPU_AHundredCapturesTakeNothing(t *testing.T) {
	n := 8 << 20
	if testing.Short() {
		n = 1000
	}
	captures(t, onGPU(t), n)
}

// longProduct has long sums, which own kernels cut into slices, and what they are when nothing else goes on.
type longProduct struct {
	a, b *tensor.Tensor
	want []float64
}

func longProducts(m *making, dt tensor.DType) (list []longProduct) {
	m.t.Helper()
	for i, size := range [][3]int{{16, 2100, 24}, {40, 1000, 16}, {1, 2500, 8}, {24, 1300, 1}} {
		a, b := m.numbers(dt, size[0], size[1]), m.of(m.numbers(dt, size[1]+i, size[2]).Narrow(0, i, size[1]))
		want := values(m.t, m.of(a.MatMul(b)))
		if x, y := values(m.t, a), values(m.t, b); dt != tensor.Float16 { // sums are exact, but for what half precision rounds
			sum := 0.0
			for k := range size[1] {
				sum += x[k] * y[k*size[2]]
			}
			require.Equal(m.t, sum, want[0])
		}
		list = append(list, longProduct{a, b, want})
	}
	return list
}

// sharedWorkspaces multiplies on several streams at once, in an order of chance. The workspace of each product is the allocator's, and
// goes from product to product on a stream before it is used up; what is freed on one stream, or released after it was used on
// two, must not come to another too early.
func sharedWorkspaces(t *testing.T, b bench, rounds int) {
	m := &making{t: t, Exec: b.Exec}
	defer m.release()
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16} {
		products := longProducts(m, dt)
		require.NoError(t, b.Device().Synchronize(context.Background()))
		streams := []tensor.Exec{onStream(t, b), onStream(t, b), onStream(t, b)}
		before := b.alloc.Stats().AllocatedBytes.All
		rng := rand.New(rand.NewPCG(uint64(rounds), 1))
		type pending struct {
			*longProduct
			result *tensor.Tensor
		}
		var open []pending
		check := func(n int) {
			for _, p := range open[:n] {
				require.Equal(t, p.want, values(t, p.result))
				p.result.Release()
			}
			open = open[n:]
		}
		for range rounds {
			p := &products[rng.IntN(len(products))]
			e := streams[rng.IntN(len(streams))]
			a := p.a.On(e)
			y, err := a.MatMul(p.b)
			a.Release()
			require.NoError(t, err)
			switch rng.IntN(4) {
			case 0: // nobody looks at it
				y.Release()
			case 1: // another stream reads it last, which an event orders
				z := onOther(t, y, streams[rng.IntN(len(streams))])
				y.Release()
				open = append(open, pending{p, z})
			default:
				open = append(open, pending{p, y})
			}
			if len(open) > 20 {
				check(rng.IntN(len(open)))
			}
		}
		check(len(open))
		require.NoError(t, b.Device().Synchronize(context.Background()))
		after := b.alloc.Stats().AllocatedBytes.All
		require.Equal(t, before.Current, after.Current)
		require.Greater(t, after.Allocated-before.Allocated, int64(rounds)*4096, "workspaces were the allocator's")
	}
}

// onOther is a copy of y made on another stream.
func onOther(t *testing.T, y *tensor.Tensor, to tensor.Exec) *tensor.Tensor {
	t.Helper()
	ev, err := to.Device().NewEvent()
	require.NoError(t, err)
	require.NoError(t, errors.Join(y.Exec().Stream().Record(ev), to.Stream().Wait(ev)))
	v := y.On(to)
	z, err := v.Clone()
	v.Release()
	require.NoError(t, errors.Join(err, ev.Close()))
	return z
}

// onPTXWithLibrary is onPTX with the emulated cuBLAS, or without.
func onPTXWithLibrary(t *testing.T, library bool, settings ...func(*fakecuda.Library)) bench {
	t.Helper()
	rig := cudatest.NewCUBLAS(t, 1, append(settings, func(l *fakecuda.Library) { l.Set("ptx", "1") })...)
	dev := rig.Devices[0]
	dev.UseBLAS(library)
	t.Cleanup(func() { require.NoError(t, kernels.Unload(dev)) })
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, alloc.Close()) })
	return newBench(t, dev, alloc)
}

func TestStreams_ShareWorkspacesOfProducts(t *testing.T) {
	for name, library := range map[string]bool{"library": true, "own": false} {
		t.Run(name, func(t *testing.T) {
			sharedWorkspaces(t, onPTXWithLibrary(t, library, func(l *fakecuda.Library) { l.Set("work_jitter_us", "300") }), fulltests.Or(60, 15))
		})
	}
}

func TestGPU_StreamsShareWorkspacesOfProducts(t *testing.T) {
	b, rounds := onGPU(t), 2000
	if testing.Short() {
		rounds = 50
	}
	for name, library := range map[string]bool{"library": true, "own": false} {
		t.Run(name, func(t *testing.T) {
			useBLAS(t, b, library)
			sharedWorkspaces(t, b, rounds)
		})
	}
}

// fullDevice asks for more than there is. The error has the numbers, and the device goes on.
func fullDevice(t *testing.T, b bench) {
	m := &making{t: t, Exec: b.Exec}
	defer m.release()
	x := m.numbers(tensor.Float32, 1000)
	require.NoError(t, b.Device().Synchronize(context.Background()))
	info, err := b.Device().MemInfo()
	require.NoError(t, err)
	for range 3 {
		_, err := tensor.Zeros(b.Exec, tensor.Uint8, int(info.Total), 2)
		var oom *memory.OOMError
		require.ErrorAs(t, err, &oom)
		require.ErrorIs(t, err, memory.ErrDeviceFull)
		require.Equal(t, b.Device().ID(), oom.Device)
		require.Equal(t, 2*info.Total, oom.Requested)
		require.GreaterOrEqual(t, oom.Tried, oom.Requested)
		require.Equal(t, info.Total, oom.DeviceTotal)
		require.EqualValues(t, b.allocated(), oom.Allocated)
		require.EqualValues(t, b.alloc.Stats().ReservedBytes.All.Current, oom.Reserved)
		near := max(info.Free, oom.DeviceFree) - min(info.Free, oom.DeviceFree)
		require.Less(t, near, info.Total/8, "%d free, the error says %d", info.Free, oom.DeviceFree)
		y := m.of(x.Add(x))
		require.Equal(t, 2*values(t, x)[7], values(t, y)[7])
	}
	require.EqualValues(t, 3, b.alloc.Stats().NumOOMs)
}

func TestZeros_OfMoreThanTheDeviceHasIsAnErrorWithFigures(t *testing.T) {
	b, _ := onPTX(t)
	fullDevice(t, b)
}

func TestGPU_ZerosOfMoreThanTheDeviceHasIsAnErrorWithFigures(t *testing.T) { fullDevice(t, onGPU(t)) }
