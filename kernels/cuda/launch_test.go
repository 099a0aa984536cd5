package cuda_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels"
	"github.com/cistern-ml/cistern/kernels/cuda"
	"github.com/cistern-ml/cistern/kernels/op"
)

// memory makes tensors on a device, contiguous, and frees them at the end of the test.
type memory struct {
	t   *testing.T
	dev device.Device
}

// put makes a tensor with these values; shape and strides may walk them in another way.
func (m memory) put(d dtype.DType, values []float64, shape []int, strides ...int) op.View {
	m.t.Helper()
	p, err := m.dev.Malloc(uint64(max(1, len(values)*d.Size())))
	require.NoError(m.t, err)
	m.t.Cleanup(func() { require.NoError(m.t, m.dev.Free(p)) })
	if len(values) > 0 {
		require.NoError(m.t, m.dev.DefaultStream().CopyToDevice(p, encode(d, values)))
	}
	v := op.View{Ptr: p, DType: d, NDim: len(shape)}
	step := 1
	for i := len(shape) - 1; i >= 0; i-- {
		v.Shape[i], v.Strides[i] = shape[i], step
		step *= shape[i]
	}
	copy(v.Strides[:], strides)
	return v
}

func (m memory) get(v op.View) []byte {
	m.t.Helper()
	b := make([]byte, v.Len()*v.DType.Size())
	require.NoError(m.t, m.dev.DefaultStream().CopyToHost(b, v.Ptr))
	return b
}

func encode(d dtype.DType, values []float64) []byte {
	var b []byte
	for _, v := range values {
		switch d {
		case dtype.Float32:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
		case dtype.Float64:
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		case dtype.Float16, dtype.BFloat16:
			b = binary.LittleEndian.AppendUint16(b, halfBits(d, v))
		case dtype.Int64:
			b = binary.LittleEndian.AppendUint64(b, uint64(int64(v)))
		case dtype.Int32:
			b = binary.LittleEndian.AppendUint32(b, uint32(int32(v)))
		default:
			b = append(b, byte(v))
		}
	}
	return b
}

func ramp(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(i % 97)
	}
	return v
}

// Rows, columns and scalars of whole vectors are seldom among the cases of kerneltest.
func TestAdd_BroadcastsByVectors(t *testing.T) {
	dev, _ := emulated(t)
	m := memory{t, dev}
	const rows, columns = 37, 48
	full := ramp(rows * columns)
	for _, d := range []dtype.DType{dtype.Uint8, dtype.Float16, dtype.BFloat16, dtype.Int32, dtype.Float32, dtype.Int64} {
		a, shape := m.put(d, full, []int{rows, columns}), []int{rows, columns}
		others := map[string]struct {
			view op.View
			at   func(i, j int) float64
		}{
			"row":    {m.put(d, ramp(columns), shape, 0, 1), func(_, j int) float64 { return float64(j % 97) }},
			"column": {m.put(d, ramp(rows), shape, 1, 0), func(i, _ int) float64 { return float64(i % 97) }},
			"scalar": {m.put(d, []float64{5}, shape, 0, 0), func(int, int) float64 { return 5 }},
		}
		for name, b := range others {
			want := make([]float64, len(full))
			for i := range want {
				want[i] = full[i] + b.at(i/columns, i%columns)
			}
			dst := m.put(d, make([]float64, len(full)), shape)
			call := op.Call{Op: op.Add, Stream: dev.DefaultStream(), Out: []op.View{dst}, In: []op.View{a, b.view}, F: [8]float64{1}, I: [8]int64{1}}
			require.NoError(t, op.Check(&call))
			require.NoError(t, kernels.Launch(&call))
			require.Equal(t, encode(d, want), m.get(dst), "%s of %s", name, d)
		}
	}
}

// What is broadcast may be a dimension in the middle, and the output may be a slice of something larger.
func TestAdd_WalksOverVectorsOfSlicesAndOfBroadcastsInTheMiddle(t *testing.T) {
	dev, _ := emulated(t)
	m := memory{t, dev}
	const batch, rows, columns, pitch = 3, 5, 16, 24
	for _, d := range []dtype.DType{dtype.Uint8, dtype.BFloat16, dtype.Float32, dtype.Float64} {
		shape := []int{batch, rows, columns}
		a, b := m.put(d, ramp(batch*rows*columns), shape), m.put(d, ramp(batch*columns), shape, columns, 0, 1)
		whole := m.put(d, make([]float64, batch*rows*pitch), []int{batch * rows * pitch})
		dst := whole
		dst.NDim, dst.Shape, dst.Strides = 3, a.Shape, a.Strides
		dst.Strides[0], dst.Strides[1] = rows*pitch, pitch
		want := make([]float64, batch*rows*pitch)
		for i := range batch * rows * columns {
			row, column := i/columns, i%columns
			want[row*pitch+column] = float64(i%97) + float64((row/rows*columns+column)%97)
		}
		call := op.Call{Op: op.Add, Stream: dev.DefaultStream(), Out: []op.View{dst}, In: []op.View{a, b}, F: [8]float64{1}, I: [8]int64{1}}
		require.NoError(t, op.Check(&call))
		require.NoError(t, kernels.Launch(&call))
		require.Equal(t, encode(d, want), m.get(whole), "%s", d)
	}
}

func TestIndexSelect_MovesRowsByVectorsAndTellsThePlaceOfABadIndex(t *testing.T) {
	dev, _ := emulated(t)
	m := memory{t, dev}
	s := dev.DefaultStream()
	const columns = 24
	for _, d := range []dtype.DType{dtype.Uint8, dtype.Float16, dtype.Float32, dtype.Int64} {
		table := ramp(5 * columns)
		a, dst := m.put(d, table, []int{5, columns}), m.put(d, make([]float64, 3*columns), []int{3, columns})
		b := m.put(dtype.Int64, []float64{4, 0, 3}, []int{3})
		require.NoError(t, kernels.Launch(&op.Call{Op: op.IndexSelect, Stream: s, Out: []op.View{dst}, In: []op.View{a, b}}))
		require.NoError(t, s.Synchronize(context.Background()))
		want := append(append(append([]float64(nil), table[4*columns:]...), table[:columns]...), table[3*columns:4*columns]...)
		require.Equal(t, encode(d, want), m.get(dst), "%s", d)
	}
	a, dst := m.put(dtype.Float32, ramp(5*columns), []int{5, columns}), m.put(dtype.Float32, ramp(columns), []int{1, columns})
	b := m.put(dtype.Int64, []float64{9}, []int{1})
	require.NoError(t, kernels.Launch(&op.Call{Op: op.IndexSelect, Stream: s, Out: []op.View{dst}, In: []op.View{a, b}}))
	err := s.Synchronize(context.Background())
	require.ErrorContains(t, err, "9 at ")
	var index, place, most int
	_, scanned := fmt.Sscanf(err.Error()[strings.LastIndex(err.Error(), ": ")+2:], "%d at %d is not in 0..%d", &index, &place, &most)
	require.NoError(t, scanned, err.Error())
	require.Zero(t, place%4, "a place counts elements, and a vector has four")
	require.Less(t, place, columns)
	require.Equal(t, encode(dtype.Float32, ramp(columns)), m.get(dst), "nothing is written")
}

func TestIndexSelect_ABadIndexIsAnErrorOfTheNextWaitAndHarmsNothingElse(t *testing.T) {
	dev, _ := emulated(t)
	m := memory{t, dev}
	s := dev.DefaultStream()
	a, dst := m.put(dtype.Float32, ramp(12), []int{6, 2}), m.put(dtype.Float32, ramp(6), []int{3, 2})
	pick := func(indices ...float64) error {
		b := m.put(dtype.Int64, indices, []int{len(indices)})
		require.NoError(t, kernels.Launch(&op.Call{Op: op.IndexSelect, Stream: s, Out: []op.View{dst}, In: []op.View{a, b}}))
		return s.Synchronize(context.Background())
	}
	for range 3 {
		err := pick(1, -7, 2)
		require.ErrorIs(t, err, op.ErrIndex)
		require.ErrorContains(t, err, "index_select: index out of range: -7 at")
		require.ErrorContains(t, err, "is not in 0..5")
		require.NoError(t, s.Synchronize(context.Background()), "an error is told once")
		require.NoError(t, pick(5, 0, 2))
		require.Equal(t, encode(dtype.Float32, []float64{10, 11, 0, 1, 4, 5}), m.get(dst))
	}
}

func TestMatMul_TakesMoreProductsThanAGridHas(t *testing.T) {
	if testing.Short() {
		t.Skip("runs 16 million emulated threads")
	}
	dev, _ := emulated(t)
	m := memory{t, dev}
	const batch = 1<<16 + 3
	values := ramp(batch)
	a := m.put(dtype.Float32, values, []int{batch, 1, 1})
	b := m.put(dtype.Float32, []float64{2}, []int{batch, 1, 1}, 0, 1, 1)
	dst := m.put(dtype.Float32, make([]float64, batch), []int{batch, 1, 1})
	call := op.Call{Op: op.MatMul, Stream: dev.DefaultStream(), Out: []op.View{dst}, In: []op.View{a, b}, F: [8]float64{1}}
	require.NoError(t, kernels.Launch(&call))
	for i := range values {
		values[i] *= 2
	}
	require.Equal(t, encode(dtype.Float32, values), m.get(dst))
}

func TestLaunch_MakesNoHeapAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	dev, _ := emulated(t)
	m := memory{t, dev}
	s := dev.DefaultStream()
	f := func(shape ...int) op.View {
		n := 1
		for _, d := range shape {
			n *= d
		}
		return m.put(dtype.Float32, ramp(n), shape)
	}
	classes := m.put(dtype.Int64, []float64{1, 2, 3, 0}, []int{4})
	norm := m.put(dtype.Float64, []float64{1}, nil)
	one, zero := m.put(dtype.Float32, []float64{1}, nil), m.put(dtype.Float32, []float64{0}, nil)
	work := m.put(dtype.Uint8, make([]float64, 1<<16), []int{1 << 16})
	calls := []op.Call{
		{Op: op.Add, Out: []op.View{f(64)}, In: []op.View{f(64), f(64)}, F: [8]float64{1}},
		{Op: op.Fill, Out: []op.View{f(64)}},
		{Op: op.Copy, Out: []op.View{f(64, 32)}, In: []op.View{m.put(dtype.Float32, ramp(2048), []int{64, 32}, 1, 64)}},
		{Op: op.Uniform, Out: []op.View{f(64)}, F: [8]float64{0, 1, 0.5}},
		{Op: op.Sum, Out: []op.View{f(1)}, In: []op.View{f(30_000)}, Work: work},
		{Op: op.LogSoftmax, Out: []op.View{f(4, 10)}, In: []op.View{f(4, 10)}},
		{Op: op.NLL, Out: []op.View{f(4)}, In: []op.View{f(4, 10), classes}, I: [8]int64{-100}},
		{Op: op.IndexAdd, Out: []op.View{f(6, 5)}, In: []op.View{f(4, 5), classes}, Work: work},
		{Op: op.MatMul, Out: []op.View{f(8, 8)}, In: []op.View{f(8, 16), f(16, 8)}, F: [8]float64{1}},
		{Op: op.MatMulAct, Out: []op.View{f(8, 8)}, In: []op.View{f(8, 16), f(16, 8)}, F: [8]float64{1}, I: [8]int64{op.ActGELU}},
		{Op: op.Conv2D, Out: []op.View{f(1, 3, 4, 4)}, In: []op.View{f(1, 4, 4, 4), f(3, 4, 3, 3), f(3)}, I: [8]int64{1, 1, 1, 1, 1, 1, 1}},
		{Op: op.Conv2DGradInput, Out: []op.View{f(1, 4, 8, 8)}, In: []op.View{f(1, 3, 4, 4), f(3, 4, 3, 3)}, I: [8]int64{2, 2, 1, 1, 1, 1, 1}},
		{Op: op.Conv2DGradWeight, Out: []op.View{f(3, 4, 3, 3)}, In: []op.View{f(4, 3, 16, 16), f(4, 4, 16, 16)},
			I: [8]int64{1, 1, 1, 1, 1, 1, 1}, Work: work},
		{Op: op.MaxPool2D, Out: []op.View{f(1, 2, 2, 2), m.put(dtype.Uint8, ramp(8), []int{1, 2, 2, 2})}, In: []op.View{f(1, 2, 4, 4)},
			I: [8]int64{2, 2, 2, 2, 0, 0, 1, 1}},
		{Op: op.UpsampleBilinear2DGrad, Out: []op.View{f(1, 2, 2, 2)}, In: []op.View{f(1, 2, 4, 4)}, F: [8]float64{0.5, 0.5}},
		{Op: op.Lerp, Out: []op.View{f(64)}, In: []op.View{f(64), f(64), f(64)}},
		{Op: op.CumSum, Out: []op.View{f(30_000)}, In: []op.View{f(30_000)}, Work: work},
		{Op: op.Sort, Out: []op.View{f(4), classes}, In: []op.View{f(4)}},
		{Op: op.TopK, Out: []op.View{f(3), m.put(dtype.Int64, ramp(3), []int{3})}, In: []op.View{f(9000)}, Work: work},
		{Op: op.Tril, Out: []op.View{f(4, 10)}, In: []op.View{f(4, 10)}},
		{Op: op.Gather, Out: []op.View{f(4)}, In: []op.View{f(4), classes}},
		{Op: op.CrossEntropy, Out: []op.View{f(4), f(2, 4), f(4)}, In: []op.View{f(4, 10), classes, f(10)}, I: [8]int64{-100}},
		{Op: op.CrossEntropyGrad, Out: []op.View{f(4, 10)}, In: []op.View{f(4), f(4, 10), classes, f(2, 4)}, I: [8]int64{-100}},
		{Op: op.SmoothL1Grad, Out: []op.View{f(8)}, In: []op.View{f(8), f(8), f(8)}, F: [8]float64{1, 1}},
		{Op: op.Attention, Out: []op.View{f(1, 2, 4, 8), f(1, 2, 4)}, In: []op.View{f(1, 2, 4, 8), f(1, 2, 4, 8), f(1, 2, 4, 8)}, F: [8]float64{1}},
		{Op: op.AttentionGrad, Out: []op.View{f(1, 2, 4, 8), f(1, 2, 4, 8), f(1, 2, 4, 8)}, F: [8]float64{1}, Work: work,
			In: []op.View{f(1, 2, 4, 8), f(1, 2, 4, 8), f(1, 2, 4, 8), f(1, 2, 4, 8), f(1, 2, 4, 8), f(1, 2, 4)}},
		{Op: op.SGDStep, Out: []op.View{f(8), f(4)}, In: []op.View{f(8), f(4)}, F: [8]float64{0.1}, I: [8]int64{2}},
		{Op: op.RMSPropStep, Out: []op.View{f(8), f(8)}, In: []op.View{f(8)}, F: [8]float64{0.1, 0.9, 1}, I: [8]int64{1}},
		{Op: op.AdamStep, Out: []op.View{f(8), f(8), f(8), f(8)}, In: []op.View{f(8)}, F: [8]float64{0.1, 0.9, 0.9, 1, 0, 1},
			I: [8]int64{1, 0, 0, 1}},
		{Op: op.AdamStep, Out: []op.View{f(8), f(8), f(8), m.put(dtype.Int64, []float64{3}, nil)}, In: []op.View{f(8), one, zero},
			F: [8]float64{0.1, 0.9, 0.9, 1, 0, 1}, I: [8]int64{1, 0, 0, 0, op.StepScaled | op.StepGuarded | op.StepCounted}, Work: work},
		{Op: op.GradNorm, Out: []op.View{norm}, In: []op.View{f(8), f(4)}, F: [8]float64{2}, I: [8]int64{2}, Work: work},
		{Op: op.ClipNorm, Out: []op.View{f(8), f(4)}, In: []op.View{norm}, F: [8]float64{1}, I: [8]int64{2}},
		{Op: op.LSTMCell, Out: []op.View{f(2, 16), f(2, 4), f(2, 4)}, In: []op.View{f(2, 4)}},
	}
	for i := range calls {
		c := &calls[i]
		c.Stream = s
		require.NoError(t, kernels.Launch(c)) // loads the kernel
		n := testing.AllocsPerRun(20, func() {
			if err := kernels.Launch(c); err != nil {
				panic(err)
			}
		})
		require.NoError(t, s.Synchronize(context.Background()))
		require.Zero(t, n, "%s", c.Op)
	}
}

func TestUnload_LetsTheKernelsBeLoadedAgain(t *testing.T) {
	dev, r := emulated(t)
	m := memory{t, dev}
	for range 2 {
		dst := m.put(dtype.Float32, ramp(4), []int{4})
		a := m.put(dtype.Float32, []float64{0, 1, -2, 3}, []int{4})
		require.NoError(t, kernels.Launch(&op.Call{Op: op.Neg, Stream: dev.DefaultStream(), Out: []op.View{dst}, In: []op.View{a}}))
		require.Equal(t, encode(dtype.Float32, []float64{math.Copysign(0, -1), -1, 2, -3}), m.get(dst), "0 becomes -0")
		require.NoError(t, cuda.Unload(dev))
		require.NoError(t, cuda.Unload(dev), "of what is not loaded")
	}
	require.Equal(t, r.Calls()["cuModuleLoadDataEx"], r.Calls()["cuModuleUnload"])
}
