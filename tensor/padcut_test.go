package tensor_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// The results are those of torch.nn.functional.pad for [0, 1, 2, 3].
func TestPad_OfEdgesThatAreCut(t *testing.T) {
	b := onHost(t)
	x := iota(t, b.Exec, 1, 4)
	for _, c := range []struct {
		mode tensor.PadMode
		pad  []int
		want []float64
	}{
		{tensor.PadReflect, []int{-1, 1}, []float64{1, 2, 3, 2}}, {tensor.PadReflect, []int{-1, -1}, []float64{1, 2}},
		{tensor.PadReflect, []int{-4, 1}, []float64{2}}, {tensor.PadReflect, []int{2, -1}, []float64{2, 1, 0, 1, 2}},
		{tensor.PadReflect, []int{-2, 2}, []float64{2, 3, 2, 1}}, {tensor.PadReplicate, []int{-1, 1}, []float64{1, 2, 3, 3}},
	} {
		require.Equal(t, c.want, values(t, must(t)(x.Pad(c.pad, c.mode, 0))), fmt.Sprint(c))
	}
	for _, pad := range [][]int{{-4, 0}, {-5, 1}, {-1, 4}, {-1 << 63, 1}, {1, -1 << 63}} {
		_, err := x.Pad(pad, tensor.PadReflect, 0)
		var shape *tensor.ShapeError
		require.ErrorAs(t, err, &shape, "%v", pad)
	}
}
