package cpu_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/kernels"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/stretchr/testify/require"
	"github.com/x448/float16"
)

// golden.json holds calls and what PyTorch gives for them; testdata/golden.py made it.
type golden struct {
	Cases []struct {
		Op, Note      string
		F             []float64
		I             []int64
		In, Out, Want []goldenView
	}
}

type goldenView struct {
	DType  string
	Shape  []int
	Values []string
}

func (g goldenView) dtype(t *testing.T) dtype.DType {
	for _, d := range dtype.All() {
		if d.String() == g.DType {
			return d
		}
	}
	t.Fatalf("no type %q", g.DType)
	return dtype.Invalid
}

func TestGolden_KernelsGiveWhatPyTorchGives(t *testing.T) {
	data, err := os.ReadFile("testdata/golden.json")
	require.NoError(t, err)
	var g golden
	require.NoError(t, json.Unmarshal(data, &g))
	ids := map[string]op.ID{}
	for id := op.Invalid + 1; id.Valid(); id++ {
		ids[id.String()] = id
	}
	require.NotEmpty(t, g.Cases)
	for n, c := range g.Cases {
		t.Run(fmt.Sprintf("%s %d %s", c.Op, n, c.Note), func(t *testing.T) {
			dev := host.New()
			defer func() { require.NoError(t, dev.Close()) }()
			require.Contains(t, ids, c.Op)
			call := op.Call{Op: ids[c.Op], Stream: dev.DefaultStream()}
			copy(call.F[:], c.F)
			copy(call.I[:], c.I)
			if call.Op == op.Add {
				call.F[0], call.I[0] = 1, 1
			}
			for _, v := range c.In {
				call.In = append(call.In, upload(t, dev, v))
			}
			for i, v := range c.Want {
				if c.Out != nil {
					v = c.Out[i]
				}
				call.Out = append(call.Out, upload(t, dev, v))
			}
			require.NoError(t, op.Check(&call))
			require.NoError(t, kernels.Launch(&call))
			for i, v := range c.Want {
				compareGolden(t, v, call.Out[i])
			}
		})
	}
}

// upload puts a contiguous view into the device's memory.
func upload(t *testing.T, dev *host.Device, g goldenView) op.View {
	v := op.View{DType: g.dtype(t), NDim: len(g.Shape)}
	step := 1
	for d := len(g.Shape) - 1; d >= 0; d-- {
		v.Shape[d], v.Strides[d] = g.Shape[d], step
		step *= g.Shape[d]
	}
	p, err := dev.Malloc(uint64(max(1, step*v.DType.Size())))
	require.NoError(t, err)
	v.Ptr = p
	for i, s := range g.Values {
		put(t, v, i, s)
	}
	return v
}

// put writes element i. Floats come as float64 and are cast by the kernels themselves, which TestConformance checks.
func put(t *testing.T, v op.View, i int, s string) {
	at := v.Ptr.Add(uint64(i * v.DType.Size()))
	b := host.Bytes(at, uint64(v.DType.Size()))
	if v.DType.IsFloat() {
		f, err := strconv.ParseFloat(s, 64)
		require.NoError(t, err)
		copy(b, encode(v.DType, f))
		return
	}
	n, err := strconv.ParseInt(s, 10, 64)
	require.NoError(t, err)
	for k := range b {
		b[k] = byte(n >> (8 * k))
	}
}

// encode gives the bytes of a number that the type holds exactly.
func encode(d dtype.DType, f float64) []byte {
	switch d {
	case dtype.Float64:
		return binary.LittleEndian.AppendUint64(nil, math.Float64bits(f))
	case dtype.Float16:
		return binary.LittleEndian.AppendUint16(nil, float16.Fromfloat32(float32(f)).Bits())
	case dtype.BFloat16:
		return binary.LittleEndian.AppendUint16(nil, uint16(math.Float32bits(float32(f))>>16))
	}
	return binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(f)))
}

func decode(d dtype.DType, b []byte) float64 {
	switch d {
	case dtype.Float64:
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	case dtype.Float16:
		return float64(float16.Frombits(binary.LittleEndian.Uint16(b)).Float32())
	case dtype.BFloat16:
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16))
	}
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
}

// compareGolden allows for PyTorch's own rounding errors: it computes float32 in float32, with cancellations in GELU and others.
func compareGolden(t *testing.T, want goldenView, got op.View) {
	tolerance := map[dtype.DType]float64{dtype.Float32: 2e-6, dtype.Float64: 1e-13, dtype.Float16: 1e-3, dtype.BFloat16: 8e-3}[got.DType]
	size := got.DType.Size()
	for i, s := range want.Values {
		b := host.Bytes(got.Ptr.Add(uint64(i*size)), uint64(size))
		if !got.DType.IsFloat() {
			n, err := strconv.ParseInt(s, 10, 64)
			require.NoError(t, err)
			for k := range b {
				require.Equal(t, byte(n>>(8*k)), b[k], "element %d, want %s", i, s)
			}
			continue
		}
		w, err := strconv.ParseFloat(s, 64)
		require.NoError(t, err)
		g := decode(got.DType, b)
		if math.IsNaN(w) || math.IsInf(w, 0) {
			require.True(t, g == w || g != g && w != w, "element %d is %v, want %v", i, g, w)
			continue
		}
		require.InDelta(t, w, g, tolerance*max(math.Abs(w), 0.5), "element %d", i)
	}
}
