package tensor_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// roundTrip checks that data comes back from the device as it went there, also through a view that is not contiguous.
func roundTrip[T tensor.Element](t *testing.T, want tensor.DType, data []T) {
	t.Helper()
	b := onHost(t)
	x := must(t)(tensor.FromSlice(b.Exec, data, 2, len(data)/2))
	require.Equal(t, want, x.DType())
	got, err := tensor.ToSlice[T](x)
	require.NoError(t, err)
	require.Equal(t, data, got)
	transposed := must(t)(x.T())
	got, err = tensor.ToSlice[T](transposed)
	require.NoError(t, err)
	for i, v := range got {
		require.Equal(t, data[i%2*(len(data)/2)+i/2], v)
	}
	require.NoError(t, tensor.CopyFromSlice(transposed, data))
	got, err = tensor.ToSlice[T](transposed)
	require.NoError(t, err)
	require.Equal(t, data, got)
}

func TestFromSlice_AndToSliceKeepEveryType(t *testing.T) {
	roundTrip(t, tensor.Float32, []float32{1, -2.5, 3, float32(math.Inf(1))})
	roundTrip(t, tensor.Float64, []float64{1, -2.5, 3, math.Pi})
	roundTrip(t, tensor.Int64, []int64{1, math.MaxInt64, math.MinInt64, -4})
	roundTrip(t, tensor.Int64, []int{1, math.MaxInt64, math.MinInt64, -4})
	roundTrip(t, tensor.Int32, []int32{1, math.MaxInt32, math.MinInt32, -4})
	roundTrip(t, tensor.Uint8, []uint8{0, 255, 3, 4, 5, 6})
	roundTrip(t, tensor.Bool, []bool{true, false, false, true})
	roundTrip(t, tensor.Float16, []tensor.Float16Bits{0x3c00, 0xc000, 0x7c00, 1})
	roundTrip(t, tensor.BFloat16, []tensor.BFloat16Bits{0x3f80, 0xc000, 0x7f80, 1})
}

func TestFromSlice_DoesNotKeepTheSlice(t *testing.T) {
	for _, set := range settings {
		t.Run(set.name, func(t *testing.T) {
			b := set.bench(t)
			data := []float32{1, 2, 3}
			x := must(t)(tensor.FromSlice(b.Exec, data))
			data[0] = 100
			require.Equal(t, []float64{1, 2, 3}, values(t, x))
		})
	}
}

func TestFromSlice_TakesScalarsAndEmptyTensors(t *testing.T) {
	b := onHost(t)
	s := must(t)(tensor.FromSlice(b.Exec, []float32{7}, []int{}...))
	require.Equal(t, 0, s.NDim())
	v, err := s.Item()
	require.NoError(t, err)
	require.Equal(t, 7.0, v)
	before := b.allocated()
	none := must(t)(tensor.FromSlice(b.Exec, []int64{}, 0, 3))
	require.Equal(t, before, b.allocated(), "an empty tensor has no memory")
	require.Zero(t, none.StorageBytes())
	require.Empty(t, values(t, none))
	sum := must(t)(none.Sum([]int{0}, false))
	require.Equal(t, []float64{0, 0, 0}, values(t, sum))
}

func TestHostCopies_RefuseWhatDoesNotFit(t *testing.T) {
	b := onHost(t)
	var shape *tensor.ShapeError
	var dtype *tensor.DTypeError
	_, err := tensor.FromSlice(b.Exec, []float32{1, 2, 3}, 2, 2)
	require.ErrorAs(t, err, &shape)
	x := iota(t, b.Exec, 2, 2)
	_, err = tensor.ToSlice[float64](x)
	require.ErrorAs(t, err, &dtype)
	require.Equal(t, []tensor.DType{tensor.Float32, tensor.Float64}, dtype.DTypes)
	require.ErrorAs(t, tensor.CopyFromSlice(x, []float64{1, 2, 3, 4}), &dtype)
	require.ErrorAs(t, tensor.CopyFromSlice(x, []float32{1, 2, 3}), &shape)
	_, err = x.Item()
	require.ErrorAs(t, err, &shape)
	require.EqualError(t, err, "tensor: Item: [2, 2]: 4 elements; Item takes one")
}

func TestBFloat16Of_RoundsToNearestEven(t *testing.T) {
	for _, c := range []struct {
		in  uint32
		out uint16
	}{
		{0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81}, {0x7f7fffff, 0x7f80},
		{0xff800000, 0xff80},
	} {
		require.Equal(t, tensor.BFloat16Bits(c.out), tensor.BFloat16Of(math.Float32frombits(c.in)), "%08x", c.in)
	}
	nan := tensor.BFloat16Of(math.Float32frombits(0x7f800001))
	require.True(t, math.IsNaN(float64(nan.Float32())), "a payload in the lower half must not become infinity")
	require.Equal(t, float32(-2), tensor.BFloat16Of(-2).Float32())
	require.Equal(t, float32(0.0999755859375), tensor.Float16Of(0.1).Float32())
}
