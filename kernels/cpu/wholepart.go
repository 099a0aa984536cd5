//go:build !amd64

package cpu

import "math"

// wholePart is x without its fraction; the lowest int64 for what is beyond int64, and for NaN, as on amd64.
func wholePart(x float64) int64 {
	if !(x >= -0x1p63 && x < 0x1p63) {
		return math.MinInt64
	}
	return int64(x)
}
