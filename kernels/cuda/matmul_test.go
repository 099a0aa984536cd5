package cuda_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x448/float16"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels"
	"github.com/cistern-ml/cistern/kernels/op"
)

// matrix is an operand in a test: rows by columns, of pitch elements from one row (or column, if transposed) to the next.
type matrix struct {
	rows, columns, pitch int
	transposed           bool
	values               []float64
}

func newMatrix(rng *rand.Rand, rows, columns, extra int, transposed bool) *matrix {
	m := &matrix{rows: rows, columns: columns, transposed: transposed, values: make([]float64, rows*columns)}
	inner := columns
	if transposed {
		inner = rows
	}
	m.pitch = (inner+7)/8*8 + extra
	for i := range m.values {
		m.values[i] = float64(rng.IntN(33)-16) / 8 // exact in every type, as are their products
	}
	return m
}

func (m *matrix) place(i, j int) int {
	if m.transposed {
		return j*m.pitch + i
	}
	return i*m.pitch + j
}

func (m *matrix) bytes(d dtype.DType) int { return d.Size() * m.pitch * max(m.rows, m.columns) }

func (m *matrix) encode(d dtype.DType) []byte {
	b := make([]byte, m.bytes(d))
	for i := range b {
		b[i] = 0xff // NaN around the elements
	}
	for i := range m.rows {
		for j := range m.columns {
			copy(b[d.Size()*m.place(i, j):], encode(d, m.values[i*m.columns+j:][:1]))
		}
	}
	return b
}

func halfBits(d dtype.DType, v float64) uint16 {
	if d == dtype.Float16 {
		return float16.Fromfloat32(float32(v)).Bits()
	}
	b := math.Float32bits(float32(v))
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

func (m *matrix) view(d dtype.DType, p device.Ptr) op.View {
	v := op.View{Ptr: p, DType: d, NDim: 2}
	v.Shape[0], v.Shape[1] = m.rows, m.columns
	v.Strides[0], v.Strides[1] = m.pitch, 1
	if m.transposed {
		v.Strides[0], v.Strides[1] = 1, m.pitch
	}
	return v
}

// The tensor-core kernels take operands that begin at 16 bytes and have rows of whole pieces of 16 bytes, which the cases of
// kerneltest seldom do. Sums of these numbers are exact, so each element must be right to the bit.
func TestMatMul_OnTensorCores(t *testing.T) {
	dev, r := emulated(t)
	for _, greedy := range []bool{false, true} {
		r.Greedy(greedy)
		rng := rand.New(rand.NewPCG(1, 2))
		for _, size := range [][3]int{{16, 16, 16}, {128, 128, 64}, {17, 33, 31}, {129, 130, 40}, {200, 20, 72}, {40, 140, 100}, {256, 16, 17}} {
			for transposes := range 4 {
				d := []dtype.DType{dtype.Float16, dtype.BFloat16}[transposes%2]
				if greedy {
					d = []dtype.DType{dtype.BFloat16, dtype.Float16}[transposes%2]
				}
				t.Run(fmt.Sprint(d, size, transposes, greedy), func(t *testing.T) {
					a, b := newMatrix(rng, size[0], size[2], 8*(transposes/2), transposes&1 != 0), newMatrix(rng, size[2], size[1], 0, transposes&2 != 0)
					work := multiply(t, dev, d, a, b, newMatrix(rng, size[0], size[1], 3, transposes == 3), newMatrix(rng, size[0], size[1], 0, false))
					require.Zero(t, work)
				})
			}
		}
	}
}

// Vectors, and products of few blocks whose long sums are cut into slices that the workspace takes. Sums are exact, in whatever
// order they are added.
func TestMatMul_OfVectorsAndOfLongSums(t *testing.T) {
	dev, r := emulated(t)
	for _, greedy := range []bool{false, true} {
		r.Greedy(greedy)
		rng := rand.New(rand.NewPCG(3, 4))
		for i, size := range [][3]int{{1, 300, 40}, {300, 1, 40}, {1, 61, 2100}, {70, 1, 4100}, {1, 1, 2500}, {16, 16, 2100}, {40, 24, 1000}, {130, 20, 700}} {
			for transposes := range 4 {
				d := []dtype.DType{dtype.Float16, dtype.BFloat16}[(i+transposes)%2]
				extra := transposes / 2 * (i % 2) * 3 // an odd pitch now and then: no pieces of 16 bytes
				t.Run(fmt.Sprint(d, size, transposes, greedy), func(t *testing.T) {
					a, b := newMatrix(rng, size[0], size[2], extra, transposes&1 != 0), newMatrix(rng, size[2], size[1], 0, transposes&2 != 0)
					work := multiply(t, dev, d, a, b, newMatrix(rng, size[0], size[1], 3*(transposes%2), false), newMatrix(rng, size[0], size[1], 0, false))
					require.Equal(t, size[2] >= 700, work > 0, "slices")
				})
			}
		}
	}
}

// Results are written in whole pieces of 16 bytes where they lie so, with what the activation is applied to beside them. ReLU is
// exact, like the sums.
func TestMatMulAct_WritesBothResults(t *testing.T) {
	dev, r := emulated(t)
	for _, greedy := range []bool{false, true} {
		r.Greedy(greedy)
		rng := rand.New(rand.NewPCG(7, 8))
		for i, size := range [][3]int{{130, 136, 40}, {16, 24, 2100}, {1, 48, 40}, {40, 24, 12}} {
			for extra := range 2 {
				d := []dtype.DType{dtype.Float16, dtype.BFloat16}[(i+extra)%2]
				t.Run(fmt.Sprint(d, size, extra, greedy), func(t *testing.T) {
					a, b := newMatrix(rng, size[0], size[2], 0, false), newMatrix(rng, size[2], size[1], 0, true)
					dst, pre := newMatrix(rng, size[0], size[1], 3*extra, false), newMatrix(rng, size[0], size[1], 8, false)
					multiplyAct(t, dev, d, a, b, dst, newMatrix(rng, size[0], size[1], 0, false), pre)
				})
			}
		}
	}
}

// multiply computes dst = 0.5*a*b - 2*c and compares each element. It returns the workspace that the product took.
func multiply(t *testing.T, dev device.Device, d dtype.DType, a, b, dst, c *matrix) (work uint64) {
	return multiplyAct(t, dev, d, a, b, dst, c, nil)
}

// multiplyAct is multiply, or, with pre, pre = 0.5*a*b - 2*c and dst = max(pre, 0).
func multiplyAct(t *testing.T, dev device.Device, d dtype.DType, a, b, dst, c, pre *matrix) (work uint64) {
	s := dev.DefaultStream()
	place := func(m *matrix) op.View {
		p, err := dev.Malloc(uint64(m.bytes(d)))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, dev.Free(p)) })
		require.NoError(t, s.CopyToDevice(p, m.encode(d)))
		return m.view(d, p)
	}
	call := op.Call{Op: op.MatMul, Stream: s, Out: []op.View{place(dst)}, In: []op.View{place(a), place(b), place(c)}, F: [8]float64{0.5, -2}}
	if pre != nil {
		call.Op, call.I[0] = op.MatMulAct, op.ActReLU
		call.Out = append(call.Out, place(pre))
	}
	require.NoError(t, op.Check(&call))
	if work = kernels.Workspace(&call); work > 0 {
		p, err := dev.Malloc(work)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, dev.Free(p)) })
		call.Work = op.View{Ptr: p, DType: dtype.Uint8, NDim: 1}
		call.Work.Shape[0], call.Work.Strides[0] = int(work), 1
	}
	require.NoError(t, kernels.Launch(&call))
	require.NoError(t, s.Synchronize(context.Background()))
	sums := product(a, b, c)
	if pre != nil {
		requireElements(t, s, d, pre, call.Out[1].Ptr, sums)
		for i := range sums {
			sums[i] = max(sums[i], 0)
		}
	}
	requireElements(t, s, d, dst, call.Out[0].Ptr, sums)
	return work
}

// product is 0.5*a*b - 2*c.
func product(a, b, c *matrix) (sums []float64) {
	for i := range c.rows {
		for j := range c.columns {
			sum := -2 * c.values[i*c.columns+j]
			for k := range a.columns {
				sum += 0.5 * a.values[i*a.columns+k] * b.values[k*b.columns+j]
			}
			sums = append(sums, sum)
		}
	}
	return sums
}

// requireElements compares a matrix on the device, and the bytes around its elements, which must be what they were.
func requireElements(t *testing.T, s device.Stream, d dtype.DType, m *matrix, p device.Ptr, values []float64) {
	t.Helper()
	got, want := make([]byte, m.bytes(d)), m.encode(d)
	require.NoError(t, s.CopyToHost(got, p))
	for i := range m.rows {
		for j := range m.columns {
			at := d.Size() * m.place(i, j)
			end := at + copy(want[at:], encode(d, values[i*m.columns+j:][:1]))
			if !bytes.Equal(want[at:end], got[at:end]) {
				require.Equal(t, want[at:end], got[at:end], "element %d, %d, want %v", i, j, values[i*m.columns+j])
			}
		}
	}
	require.Equal(t, want, got, "bytes around the elements")
}
