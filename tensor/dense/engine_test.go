package dense_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	gorgonia "gorgonia.org/tensor"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
	"github.com/cistern-ml/cistern/tensor/dense"
)

func engineOn(t *testing.T, dev device.Device) (*dense.Engine, func() uint64) {
	t.Helper()
	exec := on(t, dev)
	e, err := dense.NewEngine(exec)
	require.NoError(t, err)
	inUse := func() uint64 { return uint64(exec.Allocator().Stats().AllocatedBytes.All.Current) }
	t.Cleanup(func() {
		require.NoError(t, e.Close())
		require.Zero(t, inUse())
	})
	return e, inUse
}

// filled is a tensor of the engine (standard if nil) with 1, 2, 3...
func filled(t *testing.T, e gorgonia.Engine, dt gorgonia.Dtype, shape ...int) *gorgonia.Dense {
	t.Helper()
	opts := []gorgonia.ConsOpt{gorgonia.WithShape(shape...), gorgonia.Of(dt)}
	if e != nil {
		opts = append(opts, gorgonia.WithEngine(e))
	}
	d := gorgonia.New(opts...)
	require.NoError(t, gorgonia.Copy(d, gorgonia.New(gorgonia.WithShape(shape...), gorgonia.WithBacking(gorgonia.Range(dt, 1, 1+gorgonia.Shape(shape).TotalSize())))))
	return d
}

func TestEngine_MemoryOfTensorsIsTheAllocators(t *testing.T) {
	e, inUse := engineOn(t, host.New())
	x := gorgonia.New(gorgonia.WithShape(1000), gorgonia.Of(gorgonia.Float32), gorgonia.WithEngine(e))
	require.EqualValues(t, 4096, inUse())
	require.Equal(t, make([]float32, 1000), x.Data(), "new memory is zero")
	require.NoError(t, x.Memset(float32(7)))
	require.NoError(t, e.Free(x, 4000))
	require.Zero(t, inUse())
	again := gorgonia.New(gorgonia.WithShape(1000), gorgonia.Of(gorgonia.Float32), gorgonia.WithEngine(e))
	require.Equal(t, make([]float32, 1000), again.Data(), "so is what was used before")
	count, bytes := e.Live()
	require.Equal(t, 1, count)
	require.EqualValues(t, 4096, bytes)

	var wrong *tensor.ValueError
	stranger := filled(t, nil, gorgonia.Float32, 3)
	require.ErrorAs(t, e.Free(stranger, 12), &wrong)
	view, err := again.Slice(gorgonia.S(0, 10))
	require.NoError(t, err)
	require.ErrorAs(t, e.Free(view, 40), &wrong)
	require.ErrorAs(t, e.Free(nil, 0), &wrong)
	require.NoError(t, e.Free(again, 4000))
	require.ErrorAs(t, e.Free(again, 4000), &wrong, "twice")
}

// operations are those of gorgonia that make a tensor of a and b [2 3], sq [3 3] and v [3], and a number.
func operations(a, b, sq, v *gorgonia.Dense, one any) map[string]func() (gorgonia.Tensor, error) {
	return map[string]func() (gorgonia.Tensor, error){
		"Add":        func() (gorgonia.Tensor, error) { return gorgonia.Add(a, b) },
		"Add number": func() (gorgonia.Tensor, error) { return gorgonia.Add(a, one) },
		"Sub":        func() (gorgonia.Tensor, error) { return gorgonia.Sub(a, b) },
		"Div":        func() (gorgonia.Tensor, error) { return gorgonia.Div(a, b) },
		"Pow":        func() (gorgonia.Tensor, error) { return gorgonia.Pow(a, one) },
		"FMA":        func() (gorgonia.Tensor, error) { return gorgonia.FMA(a, b, a.Clone().(*gorgonia.Dense)) },
		"MatMul":     func() (gorgonia.Tensor, error) { return gorgonia.MatMul(a, sq) },
		"MatVecMul":  func() (gorgonia.Tensor, error) { return gorgonia.MatVecMul(a, v) },
		"Outer":      func() (gorgonia.Tensor, error) { return gorgonia.Outer(v, v) },
		"Dot":        func() (gorgonia.Tensor, error) { return gorgonia.Dot(a, sq) },
		"Contract":   func() (gorgonia.Tensor, error) { return gorgonia.Contract(a, sq, []int{1}, []int{0}) },
		"Gt":         func() (gorgonia.Tensor, error) { return gorgonia.Gt(a, one) },
		"Gte":        func() (gorgonia.Tensor, error) { return gorgonia.Gte(a, b) },
		"Lt same":    func() (gorgonia.Tensor, error) { return gorgonia.Lt(a, one, gorgonia.AsSameType()) },
		"ElEq":       func() (gorgonia.Tensor, error) { return gorgonia.ElEq(a, b) },
		"ElNe":       func() (gorgonia.Tensor, error) { return gorgonia.ElNe(a, one) },
		"MinBetween": func() (gorgonia.Tensor, error) { return gorgonia.MinBetween(a, b) },
		"MaxBetween": func() (gorgonia.Tensor, error) { return gorgonia.MaxBetween(a, one) },
		"Exp":        func() (gorgonia.Tensor, error) { return gorgonia.Exp(a) },
		"Clamp":      func() (gorgonia.Tensor, error) { return gorgonia.Clamp(a, one, one) },
		"Sum":        func() (gorgonia.Tensor, error) { return gorgonia.Sum(a, 0) },
		"Sum of all": func() (gorgonia.Tensor, error) { return gorgonia.Sum(a) },
		"Max":        func() (gorgonia.Tensor, error) { return a.Max(1) },
		"Min":        func() (gorgonia.Tensor, error) { return a.Min(1) },
		"Argmax":     func() (gorgonia.Tensor, error) { return gorgonia.Argmax(a, 1) },
		"Argmin":     func() (gorgonia.Tensor, error) { return gorgonia.Argmin(a, 0) },
		"Repeat":     func() (gorgonia.Tensor, error) { return gorgonia.Repeat(a, 0, 2) },
		"Concat":     func() (gorgonia.Tensor, error) { return gorgonia.Concat(0, a, b) },
		"Stack":      func() (gorgonia.Tensor, error) { return gorgonia.Stack(0, a, b) },
		"Transpose":  func() (gorgonia.Tensor, error) { return gorgonia.Transpose(a) },
		"Diag":       func() (gorgonia.Tensor, error) { return gorgonia.Diag(sq) },
		"SoftMax":    func() (gorgonia.Tensor, error) { return gorgonia.SoftMax(a, 1) },
		"LogSoftMax": func() (gorgonia.Tensor, error) { return gorgonia.LogSoftMax(a, 1) },
		"ByIndices": func() (gorgonia.Tensor, error) {
			return gorgonia.ByIndices(a, gorgonia.New(gorgonia.WithBacking([]int{1, 0})), 0)
		},
		"SVD":   func() (gorgonia.Tensor, error) { s, _, _, err := sq.SVD(false, false); return s, err },
		"Clone": func() (gorgonia.Tensor, error) { return a.Clone().(*gorgonia.Dense), nil },
	}
}

// Each gives what the standard engine gives, in the Engine's memory, and a Scope frees it with all that it needed on its way.
func TestEngine_ResultsOfOperationsAreItsOwn(t *testing.T) {
	e, inUse := engineOn(t, host.New())
	for dt, one := range map[gorgonia.Dtype]any{gorgonia.Float32: float32(2), gorgonia.Float64: 2.0} {
		sets := [2]map[string]func() (gorgonia.Tensor, error){}
		for i, with := range []gorgonia.Engine{nil, e} {
			sets[i] = operations(filled(t, with, dt, 2, 3), filled(t, with, dt, 2, 3), filled(t, with, dt, 3, 3), filled(t, with, dt, 3), one)
		}
		before := inUse()
		for name, own := range sets[1] {
			want, err := sets[0][name]()
			require.NoError(t, err, name)
			end := e.Scope()
			got, err := own()
			require.NoError(t, err, name)
			require.Equal(t, want.Data(), got.Data(), "%s of %v", name, dt)
			require.Equal(t, want.Shape(), got.Shape(), "%s of %v", name, dt)
			require.Same(t, e, got.Engine(), "%s of %v", name, dt)
			require.Greater(t, inUse(), before, "%s of %v", name, dt)
			require.NoError(t, end(got))
			require.NoError(t, end(), "deferred")
			require.EqualValues(t, before+512, inUse(), "%s of %v: the result is kept", name, dt)
			require.NoError(t, e.Free(got, 0))
			require.Equal(t, before, inUse(), "%s of %v", name, dt)
		}
	}
}

func TestEngine_LeavesResultsWhereTheCallerWantsThem(t *testing.T) {
	e, inUse := engineOn(t, host.New())
	a := filled(t, e, gorgonia.Float64, 2, 3)
	before := inUse()
	elsewhere := gorgonia.New(gorgonia.WithShape(2, 3), gorgonia.Of(gorgonia.Bool))
	got, err := gorgonia.Gt(a, 2.0, gorgonia.WithReuse(elsewhere))
	require.NoError(t, err)
	require.Same(t, elsewhere, got)
	require.Equal(t, before, inUse())
}

// A limit of the allocator is the gorgonia program's too. Its constructors have no error, and panic with that of Alloc.
func TestEngine_PanicsOfConstructorsHaveTheAllocatorsError(t *testing.T) {
	dev := host.New(host.Capacity(64 << 20))
	share := 0.25
	alloc, err := memory.New(dev, memory.Config{MemoryFraction: &share})
	require.NoError(t, err)
	exec, err := tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	e, err := dense.NewEngine(exec)
	require.NoError(t, err)
	x := gorgonia.New(gorgonia.WithShape(3<<20), gorgonia.Of(gorgonia.Float32), gorgonia.WithEngine(e))
	_, err = gorgonia.Add(x, x)
	var oom *memory.OOMError
	require.ErrorAs(t, err, &oom, "operations have an error")
	var failed *dense.OperationError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "dense.Engine.Add", failed.Op)
	defer func() {
		require.ErrorAs(t, recover().(error), &oom)
		require.NoError(t, e.Close())
		require.Zero(t, alloc.Stats().AllocatedBytes.All.Current)
	}()
	gorgonia.New(gorgonia.WithShape(8<<20), gorgonia.Of(gorgonia.Float32), gorgonia.WithEngine(e))
}

// Memory of other devices is allocated, copied, set and freed.
func TestEngine_OnADeviceOfItsOwn(t *testing.T) {
	e, inUse := engineOn(t, cudatest.New(t, 1).Devices[0])
	require.False(t, e.AllocAccessible())
	x := gorgonia.New(gorgonia.WithShape(2, 3), gorgonia.Of(gorgonia.Float32), gorgonia.WithEngine(e))
	y := gorgonia.New(gorgonia.WithShape(2, 3), gorgonia.Of(gorgonia.Float32), gorgonia.WithEngine(e))
	require.EqualValues(t, 1024, inUse())
	data, back := filled(t, nil, gorgonia.Float32, 2, 3), filled(t, nil, gorgonia.Float32, 2, 3)
	require.NoError(t, e.Memcpy(x, data))
	require.NoError(t, e.Memcpy(y, x))
	back.Zero()
	require.NoError(t, e.Memcpy(back, y))
	require.Equal(t, data.Data(), back.Data())

	read, err := e.Accessible(y)
	require.NoError(t, err)
	require.NotEqual(t, y.Uintptr(), read.Uintptr())
	require.NoError(t, e.Memset(y, float32(7)))
	require.NoError(t, e.Memcpy(back, y))
	require.Equal(t, []float32{7, 7, 7, 7, 7, 7}, back.Data())
	e.Memclr(x)
	require.NoError(t, e.Memcpy(back, x))
	require.Equal(t, make([]float32, 6), back.Data())
	var wrong *tensor.ValueError
	require.ErrorAs(t, e.Memset(y, "seven"), &wrong)

	require.NoError(t, e.Memset(back, float32(9)), "memory of Go")
	require.Equal(t, []float32{9, 9, 9, 9, 9, 9}, back.Data())
	_, err = gorgonia.Add(x, y)
	require.Error(t, err)
	_, err = e.Square(data)
	var failed *dense.OperationError
	require.ErrorAs(t, err, &failed, "on no device but the host, whatever the operand is")
	other, _ := engineOn(t, host.New())
	require.ErrorAs(t, other.Memcpy(back, y), &wrong, "memory of another engine")
	require.ErrorAs(t, other.Memset(y, float32(7)), &wrong)
	other.Memclr(y)
	require.NoError(t, e.Free(x, 24))
	require.EqualValues(t, 512, inUse())
}

func TestEngine_OnASimulatedDeviceCountsWithoutMemory(t *testing.T) {
	e, inUse := engineOn(t, sim.New(1<<40))
	x := gorgonia.New(gorgonia.WithShape(1<<20, 1<<10), gorgonia.Of(gorgonia.Float32), gorgonia.WithEngine(e))
	require.EqualValues(t, 4<<30, inUse())
	require.NoError(t, e.Free(x, 0))
}

// What was not finished on a stream cannot reach memory that Go is given.
func TestEngine_WaitsForTheStreamThatHadTheMemory(t *testing.T) {
	dev := host.New()
	s, err := dev.NewStream()
	require.NoError(t, err)
	exec := on(t, dev)
	exec, err = tensor.On(dev, tensor.WithAllocator(exec.Allocator()), tensor.WithStream(s))
	require.NoError(t, err)
	e, err := dense.NewEngine(exec)
	require.NoError(t, err)
	for range 20 {
		x, err := tensor.Full(exec, 7, tensor.Float32, 1<<16)
		require.NoError(t, err)
		x.Release()
		d := gorgonia.New(gorgonia.WithShape(1<<16), gorgonia.Of(gorgonia.Float32), gorgonia.WithEngine(e))
		d.Data().([]float32)[1<<16-1] = 3
		require.EqualValues(t, 3, d.Data().([]float32)[1<<16-1])
		require.Zero(t, d.Data().([]float32)[0])
		require.NoError(t, e.Free(d, 0))
	}
	require.NoError(t, e.Close())
	require.NoError(t, s.Close())
}

func TestEngine_NilZeroAndClosed(t *testing.T) {
	var wrong *tensor.ValueError
	var absent *tensor.DeviceError
	_, err := dense.NewEngine(tensor.Exec{})
	require.ErrorAs(t, err, &absent)
	d := filled(t, nil, gorgonia.Float32, 3)
	for _, e := range []*dense.Engine{nil, new(dense.Engine)} {
		_, err := e.Alloc(8)
		require.ErrorAs(t, err, &wrong)
		_, err = e.Accessible(d)
		require.ErrorAs(t, err, &wrong)
		for _, err := range []error{e.Free(d, 0), e.Close(), e.Memcpy(d, d), e.Memset(d, float32(1)), e.Scope()()} {
			require.ErrorAs(t, err, &wrong)
		}
		require.False(t, e.AllocAccessible())
		count, _ := e.Live()
		require.Zero(t, count)
	}
	e, _ := engineOn(t, host.New())
	_, err = e.Alloc(-1)
	require.ErrorAs(t, err, &wrong)
	require.ErrorAs(t, e.Memcpy(d, nil), &wrong)
	require.ErrorAs(t, e.Scope()(nil), &wrong)
	require.NoError(t, e.Close())
	_, err = e.Alloc(8)
	require.ErrorAs(t, err, &wrong)
	require.ErrorContains(t, err, "closed")
}
