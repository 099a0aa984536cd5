package tensor_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// Sums of numbers of a program's must not wrap around: a shape that looks right would be written outside of its memory.
func TestPad_ByNumbersWhoseSumWraps_IsAnError(t *testing.T) {
	b := settings[0].bench(t)
	const most, least = math.MaxInt, math.MinInt
	for _, pad := range [][]int{
		{most, most}, {least, least}, {least, most}, {most, least}, {most, 0}, {0, most}, {least, 0}, {1 << 62, 1 << 62}, {-1 << 62, -1 << 62},
		{-1 << 62, 1 << 62}, {1 << 62, -1 << 62}, {-5, 4}, {4, -5}, {0, 0, most, most}, {0, 0, least, least}, {most, 2 - most}, {-most, most},
	} {
		for _, mode := range []tensor.PadMode{tensor.PadConstant, tensor.PadReflect, tensor.PadReplicate, tensor.PadCircular} {
			for _, shape := range [][]int{{2, 3}, {0, 3}, {3, 0}} {
				x, err := tensor.Ones(b.Exec, tensor.Float32, shape...)
				require.NoError(t, err)
				for name, call := range map[string]func() (*tensor.Tensor, error){
					"Pad":     func() (*tensor.Tensor, error) { return x.Pad(pad, mode, 7) },
					"PadGrad": func() (*tensor.Tensor, error) { return x.PadGrad(pad, mode) },
				} {
					if pad[0] > -10 && pad[0] < 10 && pad[1] > -10 && pad[1] < 10 && name == "PadGrad" {
						continue // the small ones may be right for the gradient of another shape
					}
					var bad *tensor.ShapeError
					require.ErrorAs(t, second(call()), &bad, "%s(%v) of %v in mode %v", name, pad, shape, mode)
					require.Equal(t, name, bad.Op)
				}
				x.Release()
			}
		}
	}
	x, err := tensor.Ones(b.Exec, tensor.Float32, 2, 3)
	require.NoError(t, err)
	defer x.Release()
	cut, err := x.Pad([]int{-3, 1}, tensor.PadConstant, 7)
	require.NoError(t, err, "all may be cut off")
	require.Equal(t, []float64{7, 7}, values(t, cut))
	cut.Release()
}

func second(t *tensor.Tensor, err error) error {
	t.Release()
	return err
}
