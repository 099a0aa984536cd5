package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Each fourth element has a sum of its own: ones are lost in the sum that a large number is in, and in no other.
func TestFourSums_KeepFourSums(t *testing.T) {
	const large = 1 << 53 // the next number is large+2
	same := func(x float64) float64 { return x }
	for lane := range 4 {
		v := make([]float64, 64)
		for i := range v {
			v[i] = 1
		}
		v[lane] = large
		require.Equal(t, large+48.0, fourSums(v, same), "lane %d", lane)
	}
	require.Equal(t, float64(large), fourSums([]float64{large, 0, 0, 0, 1, 1}, same), "what is left over is added to the first")
}

// TestLogSumExp_DownColumns: of rows in fours and some more, with columns that have infinities or NaN, or no number at all, among others; within the error of
// one exponential, which is that of a difference.
func TestLogSumExp_DownColumns(t *testing.T) {
	logSumExpOf[float32](t, dtype.Float32, 0x1p-22)
	logSumExpOf[float64](t, dtype.Float64, 0x1p-50)
}

func logSumExpOf[T float](t *testing.T, d dtype.DType, tolerance float64) {
	inf, nan := math.Inf(1), math.NaN()
	for _, rows := range []int{16, 17, 31, 64, 130, 300} {
		for _, columns := range []int{8, 33, 700} {
			rng := rand.New(rand.NewPCG(uint64(rows), uint64(columns)))
			x, dst := onHeap[T](rows*columns), onHeap[T](columns)
			for i := range x {
				x[i] = T(10 * rng.NormFloat64())
				if i%columns%5 == 0 { // the greatest so far changes with each row
					x[i] = T(float64(i/columns) + rng.Float64())
				}
			}
			for column, special := range map[int][]float64{1: {-inf}, 2: {inf}, 3: {nan}, 4: {-inf, inf}, 6: {inf, nan}} {
				for k, v := range special {
					x[(rows/2+k)*columns+column] = T(v)
				}
			}
			for k := range rows {
				x[k*columns+7] = T(-inf)
			}
			in, out := straight(d, x), straight(d, dst)
			in.NDim, out.NDim = 2, 2
			in.Shape, out.Shape = [op.MaxDims]int{rows, columns}, [op.MaxDims]int{1, columns}
			in.Strides, out.Strides = [op.MaxDims]int{columns, 1}, [op.MaxDims]int{columns, 1}
			for _, r := range allRows() {
				if r.Op == op.LogSumExp {
					require.NoError(t, r.Funcs[d](&op.Call{Op: op.LogSumExp, Out: []op.View{out}, In: []op.View{in}}))
				}
			}
			for j, got := range dst {
				most, sum := -inf, 0.0
				for k := range rows {
					most = max(most, float64(x[k*columns+j]))
				}
				for k := range rows {
					if v := float64(x[k*columns+j]); v == most {
						sum++
					} else {
						sum += math.Exp(v - most)
					}
				}
				want := most + math.Log(sum)
				same := float64(got) == want || got != got && want != want
				require.True(t, same || math.Abs(float64(got)-want) <= tolerance*max(1, math.Abs(want)), "%s, column %d of %d rows: %v, want %v", d, j, rows, got, want)
			}
		}
	}
}
