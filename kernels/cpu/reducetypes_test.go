package cpu

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// matrixOf is a view of rows that are pitch elements apart.
func matrixOf[T any](d dtype.DType, v []T, rows, columns, pitch int) op.View {
	w := straight(d, v)
	w.NDim = 2
	w.Shape[0], w.Shape[1], w.Strides[0], w.Strides[1] = rows, columns, pitch, 1
	return w
}

// reducedAlong is the result of a reduction of a matrix along a dimension, of n outputs.
func reducedAlong[D any](t *testing.T, id op.ID, to dtype.DType, in op.View, dim int) []D {
	t.Helper()
	n := in.Shape[1-dim]
	memory := onHeap[D](n + 2)
	out := straight(to, memory[1:n+1])
	out.NDim = 2
	out.Shape[dim], out.Shape[1-dim], out.Strides[dim], out.Strides[1-dim] = 1, n, n, 1
	launch(t, &op.Call{Op: id, Out: []op.View{out}, In: []op.View{in}, I: [8]int64{int64(dim)}})
	var none D
	require.Equal(t, any([2]D{none, none}), any([2]D{memory[0], memory[n+1]}), "%s wrote beside its %d results", id, n)
	return memory[1:][:n]
}

// eachLine calls f with the elements of each output of a reduction.
func eachLine[T any](v []T, rows, columns, pitch, dim int, f func(i int, line []T)) {
	for i := range []int{columns, rows}[dim] {
		var line []T
		for k := range []int{rows, columns}[dim] {
			if dim == 0 {
				line = append(line, v[k*pitch+i])
			} else {
				line = append(line, v[i*pitch+k])
			}
		}
		f(i, line)
	}
}

// placeOf is where the first of the greatest elements of a line is, or of the least, or the first NaN.
func placeOf[T number](line []T, least bool) (at int64) {
	best := line[0]
	for i, x := range line {
		if best == best && (x != x || x > best && !least || x < best && least) {
			best, at = x, int64(i)
		}
	}
	return at
}

// reductionShapes are rows, columns and the distance of rows: of one group of rows and several, of which few and many go in together, and of rows long and short.
var reductionShapes = [][3]int{
	{1, 1, 1}, {3, 9, 9}, {5, 15, 18}, {4, 16, 16}, {9, 33, 40}, {40, 31, 64}, {300, 70, 70}, {141, 64, 512}, {33, 130, 1040}, {6, 255, 256}, {3, 256, 256}, {5, 513, 513}, {2, 1300, 1303}, {2, 9000, 9001},
}

// reducesInOrder compares extremes, and sums and products of integers, with a plain loop over each line.
func reducesInOrder[T number](t *testing.T, d dtype.DType) {
	t.Helper()
	for _, s := range reductionShapes {
		for at := range 2 {
			rows, columns, pitch := s[0], s[1], s[2]
			v := wild[T](rows*pitch+at, uint64(rows))[at:]
			in := matrixOf(d, v, rows, columns, pitch)
			for dim := range 2 {
				name := fmt.Sprintf("of %s, %v, along %d", d, s, dim)
				most, least := reducedAlong[T](t, op.Max, d, in, dim), reducedAlong[T](t, op.Min, d, in, dim)
				first, last := reducedAlong[int64](t, op.ArgMax, dtype.Int64, in, dim), reducedAlong[int64](t, op.ArgMin, dtype.Int64, in, dim)
				eachLine(v, rows, columns, pitch, dim, func(i int, line []T) {
					require.Equal(t, placeOf(line, false), first[i], "ArgMax %s", name)
					require.Equal(t, placeOf(line, true), last[i], "ArgMin %s", name)
					for k, x := range []T{line[first[i]], line[last[i]]} {
						got := [...]T{most[i], least[i]}[k]
						require.True(t, x == got || x != x && got != got, "%s is %v, want %v", name, got, x)
					}
				})
				if isFloat[T]() {
					continue
				}
				sums, products := reducedAlong[int64](t, op.Sum, dtype.Int64, in, dim), reducedAlong[int64](t, op.Prod, dtype.Int64, in, dim)
				eachLine(v, rows, columns, pitch, dim, func(i int, line []T) {
					sum, product := int64(0), int64(1)
					for _, x := range line {
						sum += int64(x)
						product *= int64(x)
					}
					require.Equal(t, [2]int64{sum, product}, [2]int64{sums[i], products[i]}, "sum and product %s", name)
				})
			}
		}
	}
}

func TestReductions_OfAllTypesAreThoseOfEachLine(t *testing.T) {
	check := func() {
		reducesInOrder[float32](t, dtype.Float32)
		reducesInOrder[float64](t, dtype.Float64)
		reducesInOrder[int64](t, dtype.Int64)
		reducesInOrder[int32](t, dtype.Int32)
		reducesInOrder[uint8](t, dtype.Uint8)
	}
	check()
	withoutVectors(check)
}

// TestReductions_OfFloatsAreTheSameWithoutVectors: sums, means and products, of results that float32 has rounded.
func TestReductions_OfFloatsAreTheSameWithoutVectors(t *testing.T) {
	for _, s := range reductionShapes {
		rows, columns, pitch := s[0], s[1], s[2]
		v := wild[float64](rows*pitch, uint64(columns))
		narrow := wild[float32](rows*pitch, uint64(columns))
		for dim := range 2 {
			for _, id := range []op.ID{op.Sum, op.Mean, op.Prod} {
				wide := func() []float64 {
					return reducedAlong[float64](t, id, dtype.Float64, matrixOf(dtype.Float64, v, rows, columns, pitch), dim)
				}
				short := func() []float32 {
					return reducedAlong[float32](t, id, dtype.Float32, matrixOf(dtype.Float32, narrow, rows, columns, pitch), dim)
				}
				fastWide, fastShort := wide(), short()
				withoutVectors(func() {
					requireBits(t, wide(), fastWide, id.String())
					requireBits(t, short(), fastShort, id.String())
				})
			}
		}
	}
}

// TestSum_OfBytesIsNotThatOf16Bits: columns of the greatest bytes, of as many rows as go in together, and more.
func TestSum_OfBytesIsNotThatOf16Bits(t *testing.T) {
	const columns = 100
	for _, rows := range []int{64, 256, 257, 258, 1000} {
		v := onHeap[uint8](rows * columns)
		fillSlice(v, math.MaxUint8)
		for _, x := range reducedAlong[int64](t, op.Sum, dtype.Int64, matrixOf(dtype.Uint8, v, rows, columns, columns), 0) {
			require.EqualValues(t, rows*math.MaxUint8, x)
		}
	}
}
