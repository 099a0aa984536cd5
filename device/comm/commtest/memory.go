package commtest

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/x448/float16"
)

// slab is the device memory of one rank's Check, taken at once: Free of a device waits for its streams, and when ranks share a device, for
// those of ranks that wait for this one.
type slab struct {
	device device.Device
	start  device.Ptr
	used   uint64
}

const slabBytes = 64 << 20

func newSlab(d device.Device) (*slab, error) {
	p, err := d.Malloc(slabBytes)
	return &slab{device: d, start: p}, err
}

// take returns the next bytes.
func (m *slab) take(bytes uint64) (device.Ptr, error) {
	p := m.start.Add(m.used)
	m.used += (bytes + 63) &^ 63
	if m.used > slabBytes {
		return 0, fmt.Errorf("the suite needs more than %d bytes", slabBytes)
	}
	return p, nil
}

// owned is a buffer in a slab.
type owned struct {
	comm.Buffer
	guard device.Ptr // bytes behind it that nobody writes
}

// part is the i-th of n equal parts of a buffer.
func (o owned) part(i, n int) comm.Buffer {
	count := o.Count / n
	return comm.Buffer{Ptr: o.Ptr.Add(uint64(i * count * o.Type.Size())), Count: count, Type: o.Type}
}

// put makes device memory with values, and a guard behind them.
func (y *try) put(v []float64) (owned, error) { return y.putBytes(encode(y.t, v)) }

var guard = [8]byte{0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5}

func (y *try) putBytes(b []byte) (owned, error) {
	p, err := y.m.take(uint64(len(b) + len(guard)))
	if err != nil {
		return owned{}, err
	}
	buf := owned{comm.Buffer{Ptr: p, Count: len(b) / y.t.Size(), Type: y.t}, p.Add(uint64(len(b)))}
	return buf, y.s.CopyToDevice(p, append(b[:len(b):len(b)], guard[:]...))
}

// take waits for the stream and reads a buffer.
func (y *try) take(o owned) ([]byte, error) {
	b := make([]byte, o.Bytes())
	if err := y.s.CopyToHost(b, o.Ptr); err != nil {
		return nil, err
	}
	var behind [len(guard)]byte
	if err := y.s.CopyToHost(behind[:], o.guard); err != nil {
		return nil, err
	}
	if behind != guard {
		return nil, fmt.Errorf("the memory behind the buffer was written: %x", behind)
	}
	return b, nil
}

// same compares a buffer with what must be there, unless the call has failed.
func (y *try) same(operation string, got owned, want []float64, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", operation, err)
	}
	b, err := y.take(got)
	if err != nil {
		return fmt.Errorf("%s: %w", operation, err)
	}
	for i, v := range decode(y.t, b) {
		if v != want[i] {
			return fmt.Errorf("%s on rank %d of %d: element %d of %d is %v and should be %v", operation, y.c.Rank(), y.c.Size(), i, len(want), v, want[i])
		}
	}
	return nil
}

// encode writes values as elements of t; bfloat16 by cutting off what is not there, after rounding to the nearest.
func encode(t dtype.DType, v []float64) []byte {
	b := make([]byte, 0, len(v)*t.Size())
	for _, x := range v {
		switch t {
		case dtype.Float32:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x)))
		case dtype.Float64:
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		case dtype.Float16:
			b = binary.LittleEndian.AppendUint16(b, float16.Fromfloat32(float32(x)).Bits())
		case dtype.BFloat16:
			b = binary.LittleEndian.AppendUint16(b, bfloat16(x))
		case dtype.Int64:
			b = binary.LittleEndian.AppendUint64(b, uint64(int64(x)))
		case dtype.Int32:
			b = binary.LittleEndian.AppendUint32(b, uint32(int32(x)))
		default:
			b = append(b, uint8(x))
		}
	}
	return b
}

// bfloat16 rounds to 8 significant bits, ties to even, by arithmetic. Not for subnormal numbers.
func bfloat16(x float64) uint16 {
	x = float64(float32(x))
	fraction, exponent := math.Frexp(x)
	rounded := math.Ldexp(math.RoundToEven(fraction*256)/256, exponent)
	return uint16(math.Float32bits(float32(rounded)) >> 16)
}

// decode is the reverse.
func decode(t dtype.DType, b []byte) []float64 {
	v := make([]float64, len(b)/t.Size())
	for i := range v {
		switch e := b[i*t.Size():]; t {
		case dtype.Float32:
			v[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(e)))
		case dtype.Float64:
			v[i] = math.Float64frombits(binary.LittleEndian.Uint64(e))
		case dtype.Float16:
			v[i] = float64(float16.Frombits(binary.LittleEndian.Uint16(e)).Float32())
		case dtype.BFloat16:
			v[i] = float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(e)) << 16))
		case dtype.Int64:
			v[i] = float64(int64(binary.LittleEndian.Uint64(e)))
		case dtype.Int32:
			v[i] = float64(int32(binary.LittleEndian.Uint32(e)))
		default:
			v[i] = float64(e[0])
		}
	}
	return v
}
