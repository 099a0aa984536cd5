package tensor_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/kernels"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// faulty is an allocator of which one coming Alloc or RecordStream fails.
type faulty struct {
	memory.Allocator
	calls  int // made so far
	failAt int // the call that fails; 0 is none
}

var errOrdered = &memory.OOMError{Requested: 1}

func (f *faulty) fails() bool {
	f.calls++
	return f.calls == f.failAt
}

func (f *faulty) Alloc(bytes uint64, s device.Stream) (memory.Block, error) {
	if f.fails() {
		return memory.Block{}, errOrdered
	}
	return f.Allocator.Alloc(bytes, s)
}

func (f *faulty) RecordStream(b memory.Block, s device.Stream) error {
	if f.fails() {
		return errOrdered
	}
	return f.Allocator.RecordStream(b, s)
}

func onFaulty(t *testing.T) (bench, *faulty, *sim.Device) {
	t.Helper()
	dev := sim.New(device.GiB)
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	f := &faulty{Allocator: alloc}
	return newBench(t, dev, f, tensor.WithStream(zeroValued{dev.DefaultStream()})), f, dev
}

// zeroValued is a stream of a simulated device whose zeros count as values, so that operations whose results are as large as values say run too.
type zeroValued struct{ device.Stream }

func (z zeroValued) Mode() device.ExecMode { return device.ExecQueued }

func (z zeroValued) Submit(operation string, f func() error) error {
	return z.Stream.(device.Executor).Submit(operation, f)
}

// onZeros is onSim with such a stream.
func onZeros(t testing.TB) (bench, *sim.Device) {
	t.Helper()
	b, dev := onSim(t)
	return newBench(t, dev, b.alloc, tensor.WithStream(zeroValued{dev.DefaultStream()})), dev
}

// countdown fails each kind of call that tensor makes of a stream, at one place in the sequence.
type countdown struct{ calls, failAt int }

var errInjected = errors.New("injected")

func (c *countdown) fault(call sim.Call) error {
	switch call.Kind {
	case sim.CallSubmit, sim.CallFill, sim.CallCopy, sim.CallCopyToDevice, sim.CallCopyToHost:
		if c.calls++; c.calls == c.failAt {
			return errInjected
		}
	}
	return nil
}

func TestEveryOperation_KeepsNoMemoryWhenAnAllocationFails(t *testing.T) {
	for _, s := range samples {
		b, f, _ := onFaulty(t)
		in := s.inputs(t, b.Exec)
		before := b.allocated()
		failures, view := 0, false
		for at := 1; ; at++ {
			f.calls, f.failAt = 0, at
			out, err := s.run(in)
			f.failAt = 0
			if err == nil {
				view = out.SharesStorage(in[0])
				out.Release()
				require.Equal(t, before, b.allocated(), "%v kept temporaries", s)
				break
			}
			failures++
			var oom *memory.OOMError
			require.ErrorAs(t, err, &oom, "%v", s)
			require.ErrorContains(t, err, "tensor: ", "%v", s)
			require.Equal(t, before, b.allocated(), "%v kept memory after the failure of call %d", s, at)
		}
		require.Equal(t, view, failures == 0, "%v: %d allocations failed", s, failures)
	}
}

func TestEveryOperation_KeepsNoMemoryWhenALaunchFails(t *testing.T) {
	for _, s := range samples {
		b, dev := onZeros(t)
		in := s.inputs(t, b.Exec)
		before := b.allocated()
		for at := 1; ; at++ {
			c := &countdown{failAt: at}
			dev.Inject(c.fault)
			out, err := s.run(in)
			dev.Inject(nil)
			if err == nil {
				out.Release()
				require.Equal(t, before, b.allocated(), "%v", s)
				break
			}
			require.ErrorIs(t, err, errInjected, "%v", s)
			require.ErrorContains(t, err, "tensor: ", "%v", s)
			require.Equal(t, before, b.allocated(), "%v kept memory after the failure of call %d", s, at)
		}
	}
}

// bare is a device of a kind that no kernel is for.
type bare struct{ *sim.Device }

type bareStream struct {
	device.Stream
	dev device.Device
}

func (b bare) ID() device.ID                     { return device.ID{Kind: 200, Index: b.Device.ID().Index} }
func (b bare) DefaultStream() device.Stream      { return bareStream{b.Device.DefaultStream(), b} }
func (s bareStream) Device() device.Device       { return s.dev }
func (s bareStream) Close() error                { return nil }
func (b bare) NewStream() (device.Stream, error) { return nil, errInjected }

func TestEveryOperation_KeepsNoMemoryWhenAKernelIsMissing(t *testing.T) {
	dev := bare{sim.New(device.GiB)}
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	b := newBench(t, dev, alloc)
	float := func(shape ...int) *tensor.Tensor { return must(t)(tensor.Zeros(b.Exec, tensor.Float32, shape...)) }
	index := must(t)(tensor.Zeros(b.Exec, tensor.Int64, 2))
	flags := must(t)(tensor.Zeros(b.Exec, tensor.Bool, 2))
	x := float(2, 2)
	cases := map[string]func() (*tensor.Tensor, error){
		"Add":         func() (*tensor.Tensor, error) { return x.Add(x) },
		"Add int64":   func() (*tensor.Tensor, error) { return x.Add(index) },
		"Exp":         x.Exp,
		"Sum":         func() (*tensor.Tensor, error) { return x.Sum(nil, false) },
		"Var":         func() (*tensor.Tensor, error) { return x.Var(nil, 1, false) },
		"ArgMax":      func() (*tensor.Tensor, error) { return x.ArgMax(0, false) },
		"MatMul":      func() (*tensor.Tensor, error) { return x.MatMul(x) },
		"Softmax":     func() (*tensor.Tensor, error) { return x.Softmax(1) },
		"NLL":         func() (*tensor.Tensor, error) { return tensor.NLL(x, index, -100) },
		"IndexSelect": func() (*tensor.Tensor, error) { return x.IndexSelect(0, index) },
		"Cat":         func() (*tensor.Tensor, error) { return tensor.Cat([]*tensor.Tensor{x, x}, 1) },
		"Where":       func() (*tensor.Tensor, error) { return tensor.Where(flags, x, x) },
		"To":          func() (*tensor.Tensor, error) { return x.To(tensor.Float64) },
		"Full":        func() (*tensor.Tensor, error) { return tensor.Full(b.Exec, 2, tensor.Float32, 3) },
		"Eye":         func() (*tensor.Tensor, error) { return tensor.Eye(b.Exec, tensor.Float32, 3) },
		"Arange":      func() (*tensor.Tensor, error) { return tensor.Arange(b.Exec, 0, 3, 1, tensor.Float32) },
		"Rand": func() (*tensor.Tensor, error) {
			return tensor.Rand(b.Exec, tensor.NewGenerator(1), tensor.Float32, 3)
		},
	}
	before := b.allocated()
	for name, f := range cases {
		_, err := f()
		var missing *kernels.MissingError
		require.ErrorAs(t, err, &missing, name)
		require.Equal(t, before, b.allocated(), name)
	}
}

func TestCreation_KeepsNoMemoryWhenItFails(t *testing.T) {
	gen := tensor.NewGenerator(1)
	makers := map[string]func(e tensor.Exec) (*tensor.Tensor, error){
		"Empty":     func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Empty(e, tensor.Float32, 3) },
		"Zeros":     func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Zeros(e, tensor.Float32, 3) },
		"Ones":      func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Bool, 3) },
		"Full":      func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Full(e, 2, tensor.Int32, 3) },
		"Scalar":    func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Scalar(e, 2, tensor.Int32) },
		"Arange":    func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Arange(e, 0, 5, 2, tensor.Int32) },
		"Eye":       func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Eye(e, tensor.Float32, 3) },
		"FromSlice": func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.FromSlice(e, []float32{1, 2}) },
		"Rand":      func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Rand(e, gen, tensor.Float32, 3) },
		"RandN":     func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.RandN(e, gen, tensor.Float16, 3) },
		"Uniform":   func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Uniform(e, gen, 1, 2, tensor.Float32, 3) },
		"Normal":    func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Normal(e, gen, 1, 2, tensor.Float32, 3) },
		"Bernoulli": func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Bernoulli(e, gen, .5, tensor.Bool, 3) },
		"Linspace":  func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Linspace(e, 0, 5, 4, tensor.Int32) },
		"Logspace":  func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Logspace(e, 0, 5, 4, 2, tensor.Float16) },
		"RandInt":   func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.RandInt(e, gen, -3, 9, tensor.Int32, 3) },
		"RandInt of many": func(e tensor.Exec) (*tensor.Tensor, error) {
			return tensor.RandInt(e, gen, 0, math.MaxInt64, tensor.Int64, 3)
		},
		"RandPermOn": func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.RandPermOn(e, gen, 5) },
	}
	for name, f := range makers {
		b, alloc, dev := onFaulty(t)
		alloc.failAt = alloc.calls + 1
		_, err := f(b.Exec)
		require.ErrorIs(t, err, memory.ErrOutOfMemory, name)
		for at := 1; ; at++ {
			c := &countdown{failAt: at}
			dev.Inject(c.fault)
			x, err := f(b.Exec)
			dev.Inject(nil)
			if err == nil {
				x.Release()
				break
			}
			require.ErrorIs(t, err, errInjected, name)
			require.Zero(t, b.allocated(), name)
		}
	}
}

func TestOOM_OfARealDeviceReachesTheCaller(t *testing.T) {
	b, _ := onSim(t)
	_, err := tensor.Zeros(b.Exec, tensor.Float32, 1<<28, 4)
	var oom *memory.OOMError
	require.ErrorAs(t, err, &oom)
	require.ErrorIs(t, err, memory.ErrOutOfMemory)
	require.ErrorContains(t, err, "tensor: Zeros: ")
	require.EqualValues(t, 4<<30, oom.Requested)
}

func TestHostCopies_ReportTheDevicesErrors(t *testing.T) {
	b, dev := onSim(t)
	x := iota(t, b.Exec, 3, 2)
	transposed := must(t)(x.T())
	before := b.allocated()
	dev.FailNext(sim.CallCopyToHost, 1, errInjected)
	_, err := x.Float64s()
	require.ErrorIs(t, err, errInjected)
	dev.FailNext(sim.CallCopyToHost, 1, errInjected)
	_, err = transposed.Float64s()
	require.ErrorIs(t, err, errInjected)
	dev.FailNext(sim.CallCopyToDevice, 1, errInjected)
	require.ErrorIs(t, tensor.CopyFromSlice(transposed, make([]float32, 6)), errInjected)
	require.Equal(t, before, b.allocated())
}
