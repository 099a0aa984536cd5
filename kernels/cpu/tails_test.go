package cpu

import (
	"encoding/json"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Far out, and near zeros, functions have the digits that their plain formulas lose.
func TestFloat64_TailsAndZeros(t *testing.T) {
	text, err := os.ReadFile("testdata/tails.json")
	require.NoError(t, err)
	var golden map[string][][2]string
	require.NoError(t, json.Unmarshal(text, &golden))
	for name, f := range map[string]func(float64) float64{
		"logit": func(x float64) float64 { return logit64(x, -1) },
		"normal": func(x float64) float64 {
			cdf, _ := normal64(x)
			return cdf
		},
		"gauss": func(x float64) float64 {
			_, gauss := normal64(x)
			return gauss
		},
	} {
		require.NotEmpty(t, golden[name])
		for _, row := range golden[name] {
			x, err := strconv.ParseFloat(row[0], 64)
			require.NoError(t, err)
			want, err := strconv.ParseFloat(row[1], 64)
			require.NoError(t, err)
			require.LessOrEqual(t, ulpsBetween(want, f(x)), 3.0, "%s of %v: %v, want %v", name, x, f(x), want)
		}
	}
}
