package kerneltest

import (
	"math"
	"math/big"

	"github.com/cistern-ml/cistern/device/dtype"
)

// castTo is the wanted result of Cast.
func castTo(from, to dtype.DType, v value) result {
	switch {
	case to == dtype.Bool && from.IsFloat():
		return truth(v.f != 0)
	case to == dtype.Bool:
		return truth(v.i != 0)
	case from.IsFloat() && to.IsFloat():
		return exact(round(to, v.f))
	case from.IsFloat():
		t := math.Trunc(v.f)
		if lo, hi := limits(to); !(t >= lo && t < hi) {
			return result{any: true}
		}
		return result{value: intValue(int64(t))}
	case to.IsFloat():
		return exact(roundInt(to, v.i))
	}
	return result{value: intValue(wrap(to, v.i))}
}

// limits are the least number of an integer type, and one more than its largest.
func limits(d dtype.DType) (lo, hi float64) {
	switch d {
	case dtype.Int64:
		return -0x1p63, 0x1p63
	case dtype.Int32:
		return -0x1p31, 0x1p31
	}
	return 0, 256
}

// roundInt is round for integers, which float64 may not hold.
func roundInt(to dtype.DType, i int64) float64 {
	x := new(big.Float).SetPrec(64).SetInt64(i)
	x.SetMode(big.ToNearestEven).SetPrec(uint(formats[to].mantissa) + 1)
	f, _ := x.Float64()
	if math.Abs(f) > largest(to) {
		return math.Inf(int(math.Copysign(1, f)))
	}
	return f
}
