package reduce

import (
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
)

func TestDivide_IsADivision(t *testing.T) {
	values := []float32{1, -3, 7e-45, 1e-45, 1.17549435e-38, math.MaxFloat32, float32(math.Inf(-1)), 0, 5.3}
	for n := 1; n < 20; n++ {
		narrow, wide := append([]float32(nil), values...), make([]float64, len(values))
		for i, v := range values {
			wide[i] = float64(v) * 1e-280
		}
		Divide(unsafe.Slice((*byte)(unsafe.Pointer(&narrow[0])), 4*len(narrow)), n, dtype.Float32)
		for i, v := range values {
			require.Equal(t, math.Float32bits(v/float32(n)), math.Float32bits(narrow[i]), "%g by %d", v, n)
		}
		Divide(unsafe.Slice((*byte)(unsafe.Pointer(&wide[0])), 8*len(wide)), n, dtype.Float64)
		for i, v := range values {
			require.Equal(t, math.Float64bits(float64(v)*1e-280/float64(n)), math.Float64bits(wide[i]), "%g by %d", v, n)
		}
	}
}
