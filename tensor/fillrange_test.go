package tensor_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// What an integer type does not hold is refused, not cut to its bits; the rows are those of PyTorch 1.13, where a number without a fraction is an int.
func TestFills_OfIntegers_RefuseWhatTheTypeDoesNotHold(t *testing.T) {
	dev := host.New()
	defer func() {
		require.NoError(t, memory.Drop(dev))
		require.NoError(t, dev.Close())
	}()
	e, err := tensor.On(dev)
	require.NoError(t, err)
	tens := must(t)
	index, mask := tens(tensor.FromSlice(e, []int64{1})), tens(tensor.FromSlice(e, []bool{false, true}))
	fills := map[string]func(x *tensor.Tensor, v float64) (*tensor.Tensor, error){
		"Full":         func(x *tensor.Tensor, v float64) (*tensor.Tensor, error) { return tensor.Full(e, v, x.DType(), 2) },
		"FullLike":     func(x *tensor.Tensor, v float64) (*tensor.Tensor, error) { return x.FullLike(v) },
		"FillInPlace":  func(x *tensor.Tensor, v float64) (*tensor.Tensor, error) { return x.Retain(), x.FillInPlace(v) },
		"ScatterValue": func(x *tensor.Tensor, v float64) (*tensor.Tensor, error) { return x.ScatterValue(0, index, v) },
		"IndexFill":    func(x *tensor.Tensor, v float64) (*tensor.Tensor, error) { return x.IndexFill(0, index, v) },
		"MaskedFill":   func(x *tensor.Tensor, v float64) (*tensor.Tensor, error) { return x.MaskedFill(mask, v) },
		"MaskedFillInPlace": func(x *tensor.Tensor, v float64) (*tensor.Tensor, error) {
			return x.Retain(), x.MaskedFillInPlace(mask, v)
		},
		"Pad": func(x *tensor.Tensor, v float64) (*tensor.Tensor, error) {
			return x.Pad([]int{-1, 1}, tensor.PadConstant, v)
		},
	}
	const refused = -1000
	for _, c := range []struct {
		dt         tensor.DType
		value, was float64
	}{
		{tensor.Uint8, -1, 255}, {tensor.Uint8, -255, 1}, {tensor.Uint8, 255, 255}, {tensor.Uint8, 0.5, 0},
		{tensor.Uint8, -256, refused}, {tensor.Uint8, -0.5, refused}, {tensor.Uint8, 256, refused}, {tensor.Uint8, 255.5, refused}, {tensor.Uint8, 1e6, refused},
		{tensor.Int32, 255.5, 255}, {tensor.Int32, math.MinInt32, math.MinInt32}, {tensor.Int32, 1 << 31, refused}, {tensor.Int32, -1<<31 - 1, refused},
		{tensor.Int64, -0.5, 0}, {tensor.Int64, 1 << 31, 1 << 31}, {tensor.Int64, math.NaN(), refused}, {tensor.Int64, 1 << 63, refused},
		{tensor.Bool, -1, 1}, {tensor.Bool, 300, 1},
	} {
		for name, fill := range fills {
			x := tens(tensor.Zeros(e, c.dt, 2))
			y, err := fill(x, c.value)
			masked := name == "MaskedFill" || name == "MaskedFillInPlace"
			switch {
			case c.was == refused, name == "Pad" && c.dt == tensor.Uint8 && c.value < 0, masked && c.value != math.Trunc(c.value):
				var wrong *tensor.ValueError
				require.ErrorAs(t, err, &wrong, "%s of %s with %v", name, c.dt, c.value)
				require.Equal(t, name, wrong.Op)
			default:
				require.NoError(t, err, "%s of %s with %v", name, c.dt, c.value)
				require.Equal(t, c.was, values(t, y)[1], "%s of %s with %v", name, c.dt, c.value)
			}
			y.Release()
			x.Release()
		}
	}
	index.Release()
	mask.Release()
	require.Zero(t, memory.Allocated(dev))
}
