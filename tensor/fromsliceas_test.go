package tensor_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// as is what FromSliceAs makes of data.
func as[T tensor.Element](t *testing.T, dt tensor.DType, data ...T) []float64 {
	t.Helper()
	x := must(t)(tensor.FromSliceAs(onHost(t).Exec, dt, data))
	require.Equal(t, dt, x.DType())
	require.Equal(t, tensor.Shape{len(data)}, x.Shape())
	return values(t, x)
}

func TestFromSliceAs_TakesEveryTypeIntoEveryOther(t *testing.T) {
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16, tensor.Int64, tensor.Int32, tensor.Uint8, tensor.Bool} {
		want := []float64{0, 1, 2, 100}
		if dt == tensor.Bool {
			want = []float64{0, 1, 1, 1}
		}
		require.Equal(t, want, as(t, dt, 0.0, 1, 2, 100))
		require.Equal(t, want, as[float32](t, dt, 0, 1, 2, 100))
		require.Equal(t, want, as[int64](t, dt, 0, 1, 2, 100))
		require.Equal(t, want, as[int](t, dt, 0, 1, 2, 100))
		require.Equal(t, want, as[int32](t, dt, 0, 1, 2, 100))
		require.Equal(t, want, as[uint8](t, dt, 0, 1, 2, 100))
		require.Equal(t, want, as(t, dt, tensor.Float16Of(0), tensor.Float16Of(1), tensor.Float16Of(2), tensor.Float16Of(100)))
		require.Equal(t, want, as(t, dt, tensor.BFloat16Of(0), tensor.BFloat16Of(1), tensor.BFloat16Of(2), tensor.BFloat16Of(100)))
		require.Equal(t, []float64{0, 1}, as(t, dt, false, true))
	}
	b := onHost(t)
	x := must(t)(tensor.FromSliceAs(b.Exec, tensor.BFloat16, []float64{1, 2, 3, 4, 5, 6}, 2, 3))
	require.Equal(t, tensor.Shape{2, 3}, x.Shape())
	none := must(t)(tensor.FromSliceAs(b.Exec, tensor.Int64, []float64{}, 0, 3))
	require.Equal(t, tensor.Shape{0, 3}, none.Shape())
	one := must(t)(tensor.FromSliceAs(b.Exec, tensor.Int64, []float64{7}, []int{}...))
	require.Zero(t, one.NDim())
}

// What PyTorch 1.13 makes of the same.
func TestFromSliceAs_TakesWhatPyTorchTakes(t *testing.T) {
	inf := math.Inf(1)
	require.Equal(t, []float64{1, 0, 255}, as(t, tensor.Uint8, 1.9, math.Copysign(0, -1), 255))
	require.Equal(t, []float64{-1, 0, math.MinInt32, math.MaxInt32}, as(t, tensor.Int32, -1.9, -0.5, math.MinInt32, math.MaxInt32))
	require.Equal(t, []float64{-1 << 63, -2147483648, 1 << 52}, as(t, tensor.Int64, -1<<63, -2147483648.5, 1<<52+0.5))
	require.Equal(t, []float64{1, 1, 1, 0, 0, 1}, as(t, tensor.Bool, math.NaN(), inf, 0.5, 0, math.Copysign(0, -1), 1e-320))
	require.Equal(t, []float64{1, 0}, as[int64](t, tensor.Bool, -3, 0))
	for _, dt := range []tensor.DType{tensor.Float16, tensor.BFloat16, tensor.Float32, tensor.Float64} {
		v := as(t, dt, inf, -inf, math.NaN(), largestOf[dt], -largestOf[dt], math.Copysign(0, -1))
		require.Equal(t, []float64{inf, -inf}, v[:2])
		require.True(t, math.IsNaN(v[2]))
		require.Equal(t, []float64{largestOf[dt], -largestOf[dt]}, v[3:5])
		require.True(t, math.Signbit(v[5]))
	}
	require.Equal(t, []float64{1 << 53, 1 << 53, 9.223372036854776e18}, as[int64](t, tensor.Float64, 1<<53, 1<<53+1, math.MaxInt64))
	b := onHost(t)
	x := must(t)(tensor.FromSliceAs(b.Exec, tensor.Float32, []int64{math.MinInt64, math.MaxInt64, 1<<24 + 1}))
	require.Equal(t, []float64{-1 << 63, 1 << 63, 1 << 24}, values(t, x))
	nan := must(t)(tensor.FromSliceAs(b.Exec, tensor.Float16, []tensor.Float16Bits{0x7d01}))
	bits, err := tensor.ToSlice[tensor.Float16Bits](nan)
	require.NoError(t, err)
	require.Equal(t, []tensor.Float16Bits{0x7d01}, bits, "data of the type itself is taken as it is")
}

// nearest is the one of a type's numbers, ascending, that is nearest to x, exactly; of two the one with the even pattern.
func nearest(numbers []float64, patternOf func(i int) uint16, x *big.Float) float64 {
	lo, hi := 0, len(numbers)-1
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; big.NewFloat(numbers[mid]).Cmp(x) <= 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	below, above := new(big.Float).SetPrec(2200).Sub(x, big.NewFloat(numbers[lo])), new(big.Float).SetPrec(2200).Sub(big.NewFloat(numbers[hi]), x)
	switch c := below.Cmp(above); {
	case c < 0, c == 0 && patternOf(lo)&1 == 0:
		return numbers[lo]
	}
	return numbers[hi]
}

func TestFromSliceAs_RoundsToHalfPrecisionOnce(t *testing.T) {
	for _, c := range []struct {
		dt    tensor.DType
		value func(uint16) float32
		inf   uint16
	}{
		{tensor.Float16, func(b uint16) float32 { return tensor.Float16Bits(b).Float32() }, 0x7c00},
		{tensor.BFloat16, func(b uint16) float32 { return tensor.BFloat16Bits(b).Float32() }, 0x7f80},
	} {
		var numbers, data, want []float64
		for b := range c.inf {
			numbers = append(numbers, float64(c.value(b)))
		}
		for i := range numbers[1:] { // what lies halfway between two, and just beside it, where rounding twice shows
			middle := numbers[i] + (numbers[i+1]-numbers[i])/2
			even := numbers[i+i&1]
			data = append(data, numbers[i], middle, math.Nextafter(middle, 0), math.Nextafter(middle, math.Inf(1)), -middle)
			want = append(want, numbers[i], even, numbers[i], numbers[i+1], -even)
		}
		require.Equal(t, want, as(t, c.dt, data...), c.dt)

		rng := rand.New(rand.NewPCG(1, 2))
		var ints []int64
		var wantInts []float64
		for range 3000 {
			n := rng.Int64() >> rng.IntN(63)
			if c.dt == tensor.Float16 {
				n = n % 65505
			} else if rng.IntN(2) == 0 { // a bit far below what is halfway
				n = 1<<62 + int64(rng.IntN(256))<<54 + int64(rng.IntN(3)-1)
			}
			ints = append(ints, n)
			wantInts = append(wantInts, nearest(numbers, func(i int) uint16 { return uint16(i) }, new(big.Float).SetInt64(n)))
		}
		require.Equal(t, wantInts, as(t, c.dt, ints...), c.dt)
	}
	require.Equal(t, []float64{1 + 0x1p-10}, as(t, tensor.Float16, 1+0x1p-11+0x1p-40), "PyTorch, by way of float32, has 1")
}

func refusedAs[T tensor.Element](t *testing.T, dt tensor.DType, want string, v T) {
	t.Helper()
	simulated, _ := onSim(t)
	for _, b := range []bench{onHost(t), simulated} {
		before := b.allocated()
		x, err := tensor.FromSliceAs(b.Exec, dt, []T{v, v}[1:])
		require.Nil(t, x)
		var bad *tensor.ValueError
		require.ErrorAs(t, err, &bad, "%v %s", v, dt)
		require.Equal(t, "FromSliceAs", bad.Op)
		require.ErrorContains(t, err, want)
		require.Equal(t, before, b.allocated())
	}
}

// What is nearer to the largest number of a type than to what would be the next one is rounded to it, as torch.tensor does.
func TestFromSliceAs_RoundsToTheLargestNumber(t *testing.T) {
	require.Equal(t, []float64{65504, -65504, 65504}, as(t, tensor.Float16, 65519.0, -65519.0, math.Nextafter(65520, 0)))
	require.Equal(t, []float64{65504, -65504}, as[int64](t, tensor.Float16, 65519, -65519))
	require.Equal(t, []float64{65504}, as[float32](t, tensor.Float16, 65519))
	for dt, end := range map[tensor.DType]float64{tensor.BFloat16: 0x1.ffp127, tensor.Float32: 0x1.ffffffp127} {
		most := largestOf[dt]
		require.Equal(t, []float64{most, -most, most}, as(t, dt, math.Nextafter(end, 0), -math.Nextafter(end, 0), math.Nextafter(most, end)), dt)
	}
	require.Equal(t, []float64{math.MaxFloat32}, as(t, tensor.Float32, 3.4028235e38))
}

func TestFromSliceAs_RefusesWhatTheTypeCannotHold(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e30, -1e30} {
		for _, dt := range []tensor.DType{tensor.Int64, tensor.Int32, tensor.Uint8} {
			refusedAs(t, dt, fmt.Sprintf("element 0 is %v; %s holds ", v, dt), v)
			refusedAs(t, dt, " holds ", float32(v))
		}
	}
	refusedAs(t, tensor.Uint8, "element 0 is 300; uint8 holds 0 to 255", int64(300))
	refusedAs(t, tensor.Uint8, "element 0 is -1; uint8 holds 0 to 255", int32(-1))
	refusedAs(t, tensor.Uint8, "element 0 is -1; ", -1.0)
	refusedAs(t, tensor.Uint8, "element 0 is -0.5; ", -0.5)
	refusedAs(t, tensor.Uint8, "element 0 is 255.5; ", 255.5)
	refusedAs(t, tensor.Uint8, "element 0 is 256; ", tensor.Float16Of(256))
	refusedAs(t, tensor.Int32, "element 0 is 2147483648; int32 holds -2147483648 to 2147483647", int64(1<<31))
	refusedAs(t, tensor.Int32, "element 0 is -2147483649; ", int64(-1<<31-1))
	refusedAs(t, tensor.Int32, "int32 holds ", 2147483647.5)
	refusedAs(t, tensor.Int64, "int64 holds -9223372036854775808 to 9223372036854775807", 0x1p63)
	refusedAs(t, tensor.Uint8, "element 0 is 300; uint8 holds 0 to 255", 300)
	refusedAs(t, tensor.Float16, "element 0 is 65520; the largest number of float16 is 65504", int64(65520))
	refusedAs(t, tensor.Float16, "element 0 is -65520; ", int64(-65520))
	refusedAs(t, tensor.Float16, "element 0 is 65520; ", 65520.0)
	refusedAs(t, tensor.Float16, "element 0 is -1e+09; ", -1e9)
	refusedAs(t, tensor.Float16, "element 0 is 1e+09; ", float32(1e9))
	refusedAs(t, tensor.Float16, "element 0 is 65536; ", tensor.BFloat16Of(65536))
	refusedAs(t, tensor.BFloat16, "element 0 is 3.4e+38; ", 3.4e38)
	refusedAs(t, tensor.BFloat16, "the largest number of bfloat16 is ", 0x1.ffp127)
	refusedAs(t, tensor.Float32, "element 0 is 3.4028235677973366e+38; the largest number of float32 is ", 0x1.ffffffp127)

	b := onHost(t)
	_, err := tensor.FromSliceAs(b.Exec, tensor.Uint8, []float64{1, 2, 3, 300, 400})
	require.ErrorContains(t, err, "element 3 is 300")
	var shape *tensor.ShapeError
	_, err = tensor.FromSliceAs(b.Exec, tensor.Uint8, []float64{1, 2, 300}, 2)
	require.ErrorAs(t, err, &shape)
	_, err = tensor.FromSliceAs(b.Exec, tensor.Uint8, []float64{1}, -1)
	require.ErrorAs(t, err, &shape)
	var dtype *tensor.DTypeError
	_, err = tensor.FromSliceAs(b.Exec, tensor.DType(99), []float64{1})
	require.ErrorAs(t, err, &dtype)
	_, err = tensor.FromSliceAs(tensor.Exec{}, tensor.Uint8, []float64{1})
	require.Error(t, err)
}
