package tensor_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// setting is a way to run a program: which allocator, which streams.
type setting struct {
	name   string
	direct bool
	async  bool
	owned  bool
}

var settings = []setting{
	{name: "caching"},
	{name: "direct", direct: true},
	{name: "caching, asynchronous", async: true},
	{name: "direct, asynchronous", direct: true, async: true},
	{name: "caching, owned", owned: true},
}

func (s setting) bench(t *testing.T) bench {
	t.Helper()
	dev, err := device.Open("host")
	require.NoError(t, err)
	var alloc memory.Allocator = memory.NewDirect(dev)
	if !s.direct {
		alloc, err = memory.New(dev, memory.Config{})
		require.NoError(t, err)
	}
	var opts []tensor.ExecOption
	if s.async {
		stream, err := dev.NewStream()
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, stream.Close()) })
		opts = append(opts, tensor.WithStream(stream))
	}
	b := newBench(t, dev, alloc, opts...)
	if s.owned {
		b.Exec = b.Exec.Owned()
	}
	return b
}

// bits makes NaN comparable.
func bits(values []float64) []uint64 {
	b := make([]uint64, len(values))
	for i, v := range values {
		if math.IsNaN(v) {
			v = math.NaN()
		}
		b[i] = math.Float64bits(v)
	}
	return b
}

func TestEveryOperation_GivesTheSameBitsInEachSetting(t *testing.T) {
	want := map[string][]uint64{}
	for _, set := range settings {
		t.Run(set.name, func(t *testing.T) {
			b := set.bench(t)
			for _, s := range samples {
				out, err := s.run(s.inputs(t, b.Exec))
				require.NoError(t, err, "%v", s)
				got := bits(values(t, out))
				out.Release()
				if first, ok := want[s.String()]; ok {
					require.Equal(t, first, got, "%v", s)
				}
				want[s.String()] = got
			}
			require.NoError(t, b.Stream().Synchronize(context.Background()))
		})
	}
}

// ledger keeps the results of a program and its first error, after which it does no more.
type ledger struct {
	live tensors
	err  error
}

// do keeps the result of an operation. f is not called after an error.
func (l *ledger) do(f func() (*tensor.Tensor, error)) *tensor.Tensor {
	if l.err != nil {
		return nil
	}
	var t *tensor.Tensor
	if t, l.err = f(); l.err == nil {
		l.live = append(l.live, t)
	}
	return t
}

func (l *ledger) release() {
	for _, t := range l.live {
		t.Release()
	}
}

// network is a program with many temporaries: three layers forward, a loss, and the first gradients by hand.
func network(e tensor.Exec) ([]float64, error) {
	type result = *tensor.Tensor
	var l ledger
	defer l.release()
	gen := tensor.NewGenerator(3)
	x := l.do(func() (result, error) { return tensor.RandN(e, gen, tensor.Float32, 16, 12) })
	target := l.do(func() (result, error) { return tensor.Zeros(e, tensor.Int64, 16) })
	fanIn := 12
	for _, width := range []int{24, 10, 4} {
		w := l.do(func() (result, error) { return tensor.Normal(e, gen, 0, 0.3, tensor.Float32, width, fanIn) })
		bias := l.do(func() (result, error) { return tensor.Zeros(e, tensor.Float32, width) })
		y := l.do(func() (result, error) { return tensor.Linear(x, w, bias) })
		x = l.do(func() (result, error) { return y.GELU() })
		fanIn = width
	}
	mean := l.do(func() (result, error) { return x.Mean([]int{0}, true) })
	std := l.do(func() (result, error) { return x.Std([]int{0}, 1, true) })
	centred := l.do(func() (result, error) { return x.Sub(mean) })
	scaled := l.do(func() (result, error) { return centred.Div(std) })
	logp := l.do(func() (result, error) { return scaled.LogSoftmax(1) })
	rows := l.do(func() (result, error) { return tensor.NLL(logp, target, -100) })
	loss := l.do(func() (result, error) { return rows.Mean(nil, false) })
	share := l.do(func() (result, error) { return tensor.Full(e, 1./16, tensor.Float32, 16) })
	toLogp := l.do(func() (result, error) { return gradients.NLL(share, target, 4, -100) })
	grad := l.do(func() (result, error) { return gradients.LogSoftmax(toLogp, logp, 1) })
	sizes := l.do(func() (result, error) { return grad.Abs() })
	total := l.do(func() (result, error) { return sizes.SumTo(1, 4) })
	if l.err != nil {
		return nil, l.err
	}
	return values64(loss, grad, total)
}

func values64(ts ...*tensor.Tensor) ([]float64, error) {
	var all []float64
	for _, t := range ts {
		v, err := t.Float64s()
		if err != nil {
			return nil, err
		}
		all = append(all, v...)
	}
	return all, nil
}

func TestNetwork_GivesTheSameBitsInEachSetting(t *testing.T) {
	var want []uint64
	for _, set := range settings {
		t.Run(set.name, func(t *testing.T) {
			b := set.bench(t)
			for range 3 { // later rounds reuse the memory of earlier ones
				got, err := network(b.Exec)
				require.NoError(t, err)
				require.False(t, math.IsNaN(got[0]))
				if want == nil {
					want = bits(got)
				}
				require.Equal(t, want, bits(got))
				require.Zero(t, b.allocated())
			}
		})
	}
}

func TestNetwork_AllocatesOnASimulatedDeviceWhatItAllocatesOnTheHost(t *testing.T) {
	host := onHost(t)
	_, err := network(host.Exec)
	require.NoError(t, err)
	simulated, _ := onSim(t)
	_, err = network(simulated.Exec)
	require.NoError(t, err)
	h, s := host.alloc.Stats(), simulated.alloc.Stats()
	require.Equal(t, h.AllocatedBytes, s.AllocatedBytes)
	require.Equal(t, h.RequestedBytes, s.RequestedBytes)
	require.Equal(t, h.Allocation, s.Allocation)
	require.NotZero(t, h.AllocatedBytes.All.Peak)
}

func TestEveryOperation_AllocatesOnASimulatedDeviceWhatItAllocatesOnTheHost(t *testing.T) {
	for i, s := range samples {
		if sizedByValues[operationOf(s.op)] || i%fulltests.Or(1, 3) != 0 {
			continue
		}
		host := onHost(t)
		simulated, _ := onSim(t)
		for _, b := range []bench{host, simulated} {
			out, err := s.run(s.inputs(t, b.Exec))
			require.NoError(t, err, "%v", s)
			out.Release()
		}
		h, m := host.alloc.Stats(), simulated.alloc.Stats()
		require.Equal(t, h.AllocatedBytes, m.AllocatedBytes, "%v", s)
		require.Equal(t, h.RequestedBytes, m.RequestedBytes, "%v", s)
	}
}

func TestNetwork_KeepsNoMemoryWhereverItFails(t *testing.T) {
	for at := 1; ; at++ {
		dev := sim.New(device.GiB)
		alloc, err := memory.New(dev, memory.Config{})
		require.NoError(t, err)
		f := &faulty{Allocator: alloc, failAt: at}
		b := newBench(t, dev, f)
		_, err = network(b.Exec)
		require.Zero(t, b.allocated())
		if err == nil {
			require.Greater(t, at, 20, "the network allocates more often")
			return
		}
		require.ErrorIs(t, err, memory.ErrOutOfMemory)
	}
}
