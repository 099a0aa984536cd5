package cpu

import (
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// ulpsBetween is the number of float64 numbers from a to b; two NaN are none apart.
func ulpsBetween(a, b float64) float64 {
	if math.IsNaN(a) || math.IsNaN(b) {
		if math.IsNaN(a) && math.IsNaN(b) {
			return 0
		}
		return math.Inf(1)
	}
	place := func(v float64) int64 {
		n := int64(math.Float64bits(v))
		if n < 0 {
			return math.MinInt64 - n
		}
		return n
	}
	return math.Abs(float64(place(a) - place(b)))
}

// Near multiples of pi/2, however far, sine, cosine and tangent are those of 1400 bits, to the last place.
func TestTrigonometric_AreRightEverywhere(t *testing.T) {
	text, err := os.ReadFile("testdata/trigonometric.json")
	require.NoError(t, err)
	var rows [][4]string
	require.NoError(t, json.Unmarshal(text, &rows))
	require.Greater(t, len(rows), 400)
	for i, f := range []func(float64) float64{sin64, cos64, tan64} {
		name, most := [...]string{"sin", "cos", "tan"}[i], 0.0
		for _, row := range rows {
			x, err := strconv.ParseFloat(row[0], 64)
			require.NoError(t, err)
			want, err := strconv.ParseFloat(row[i+1], 64)
			require.NoError(t, err)
			off := ulpsBetween(want, f(x))
			require.LessOrEqual(t, off, 1.0, "%s of %v: %v, want %v", name, x, f(x), want)
			most = max(most, off)
		}
		t.Logf("%s: %v ulps at most", name, most)
		require.True(t, math.IsNaN(f(math.Inf(1))) && math.IsNaN(f(math.Inf(-1))) && math.IsNaN(f(math.NaN())), name)
	}
	require.True(t, math.Signbit(sin64(math.Copysign(0, -1))) && math.Signbit(tan64(math.Copysign(0, -1))))
	require.Equal(t, 1.0, cos64(0))
	require.Equal(t, 4423916291747407.0, tan64(91553.863907240549))
}
