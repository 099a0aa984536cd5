package cpu

import "github.com/cistern-ml/cistern/kernels/op"

// vectorLoops are loops on slices of float32 for which a processor has vector instructions; nil where it has none. They take
// as many elements as the comments of the groups say, at least one such group.
type vectorLoops struct {
	functions bool // vectorFunction has all functions
	masked    bool // and so has maskedFunction, which takes any number of elements

	// multiples of 8 elements
	add, sub, mul, div   func(n int, dst, a, b *float32)
	maximum, minimum     func(n int, dst, a, b *float32)
	addScalar, mulScalar func(n int, dst, a *float32, s float32)
	divScalar            func(n int, dst, a *float32, s float32)
	relu                 func(n int, dst, a *float32)
	reluGrad             func(n int, dst, a, b *float32)
	mergeSum             func(n int, acc *float64, row *float32)
	evenOdd              func(n int, even, odd, src *float32) // n of either
	mergeMax, mergeMin   func(n int, acc, row *float32)
	sgd                  func(n int, p, buf, grad *float32, c *sgdScalars[float32])
	adam                 func(n int, p, m, v, grad *float32, c *adamScalars[float32])

	moveRows func(rows int, dst *byte, to int, src *byte, from, n int) // rows of n bytes, at least 32; distances in bytes

	channelForms func(n int, y, x *float32, c *channelRow)
	channelGrads func(n int, y, grad, x *float32, c *channelRow)

	normalize func(n int, dst, x, w, b *float32, mean, rstd float32)
	normDots  func(n int, g, w, x *float32, c *normRow, sums *[2]float64)
	normGrads func(n int, dst, g, w, x *float32, c *normRow)
	// rows of n elements, a multiple of 16, ld bytes apart
	normSums func(rows, n int, g, x *float32, ld int, mean, rstd *float32, products, sums *float64)

	// rows of at least 8 results
	averagePlaces func(n int, dst, src *float32, places *int32, count int, divisor float64)
	mostPlaces    func(n int, dst *float32, numbers *int32, src *float32, places *int32, count int, starts *int32, first int32)
	evenOddRows   func(rows, n int, even, odd *float32, to int, src *float32, from int) // n of either; distances in bytes

	poolNumbered func(rows, half int, dst, src *float32, numbers *uint8, terms *poolTerm)                 // half of the columns, at least 8
	padResults   func(rows, n int, values *float32, numbers *uint8, pitch int, src *float32, from *uint8) // rows of n, at least 8
	poolShared   func(rows, half int, dst, src *float32, terms *poolTerm)

	taps    func(c *tapCall)
	tapDots func(c *dotCall)

	tapsAtOnce int // of tapDots

	// fours of rows, ld bytes apart, of a multiple of 8 elements
	mergeSums, mergeProds func(fours, n int, acc *float64, rows *float32, ld int)
	mergeMaxes, mergeMins func(fours, n int, acc, rows *float32, ld int)
	// of a multiple of 4 elements
	mergeMaxesWide, mergeMinsWide                   func(fours, n int, acc, rows *float64, ld int)
	mergeMaxesWhole, mergeMinsWhole, mergeSumsWhole func(fours, n int, acc, rows *int64, ld int)
	// of a multiple of 32 elements, 64 fours at most
	mergeSumsBytes                  func(fours, n int, acc *int64, rows *uint8, ld int)
	mergeMaxesBytes, mergeMinsBytes func(fours, n int, acc, rows *uint8, ld int)
	// rows of a multiple of 16 elements, of 32 of float32 for extremes, and of 128 bytes, ld bytes apart
	sumRows                    func(rows, n int, v *float32, ld int, to *float64)
	maxRows, minRows           func(rows, n int, v *float32, ld int, to *float32)
	maxRowsWide, minRowsWide   func(rows, n int, v *float64, ld int, to *float64)
	maxRowsWhole, minRowsWhole func(rows, n int, v *int64, ld int, to *int64)
	sumRowsWhole               func(rows, n int, v *int64, ld int, to *int64)
	sumRowsBytes               func(rows, n int, v *uint8, ld int, to *int64)
	maxRowsBytes, minRowsBytes func(rows, n int, v *uint8, ld int, to *uint8)

	// multiples of 64 bytes of elements of other types (words.go), and of 32 bytes for logic
	addWords, subWords, mulWords, divWords, sqrtWords wordLoops
	maxWords, minWords, absWords, negWords            wordLoops
	logic                                             func(n int, dst, a, b *byte, m *[4]uint64)

	compare comparisons // compare.go

	// Of elements of 1, 2, 4 and 8 bytes (sizeClass): multiples of 32 by as many bytes of a, and blocks of eight rows of eight; distances in bytes
	choose    [sizeClasses]func(n int, dst, a, b, c *byte)
	transpose [sizeClasses]func(n int, dst *byte, to, nextTo int, src *byte, from, nextFrom int)

	// multiples of 8 elements of int64 (divide.go). small reports whether all can be divided by the others
	small     func(n int, v *byte) int
	divisions [divisionCount]func(n int, dst, a, b *byte)

	// multiples of 8 elements: conversions, and products in float64 with a row. truncate reports what no int32 is
	casts     [castKinds][castKinds]func(n int, dst, src *byte)
	truncate  func(n int, dst, src *byte) int
	mergeProd func(n int, acc *float64, row *float32)
	sumWide   func(n int, v *float64) float64 // multiples of 16

	// multiples of 16, 16, 16 and 32
	squares  func(n int, x *float32, mean float32) float64
	sum      func(n int, v *float32) float64
	prod     func(n int, v *float32) float64
	max, min func(n int, v *float32) float32

	dot    func(n int, a, b *float32) float64
	expSum func(n int, dst, a *float32, shift float32) float64

	squareSums func(n int, v *float32) (a, b, c, d float64) // multiples of 4: every fourth element goes to the same sum

	// blocks, multiples of 4
	philox func(n int, dst *uint32, key, first uint64, s uint32)
}

// vector are the loops of this processor, set when the package starts.
var vector vectorLoops

// vectorOne makes a kernel of a vector loop, which takes multiples of width elements, and a Go kernel for the rest.
func vectorOne(loop func(n int, dst, a *float32), width int, rest kernel1[float32, float32]) kernel1[float32, float32] {
	if loop == nil {
		return rest
	}
	return func(dst, a []float32, c *op.Call) {
		n := len(dst) / width * width
		if n > 0 {
			loop(n, &dst[0], &a[0])
		}
		if n < len(dst) {
			rest(dst[n:], a[n:], c)
		}
	}
}

func vectorTwo(loop func(n int, dst, a, b *float32), width int, rest kernel2[float32, float32, float32],
) kernel2[float32, float32, float32] {
	if loop == nil {
		return rest
	}
	return func(dst, a, b []float32, c *op.Call) {
		n := len(dst) / width * width
		if n > 0 {
			loop(n, &dst[0], &a[0], &b[0])
		}
		if n < len(dst) {
			rest(dst[n:], a[n:], b[n:], c)
		}
	}
}

// vectorScalar is for loops with the scalar F[0].
func vectorScalar(loop func(n int, dst, a *float32, s float32), rest kernel1[float32, float32]) kernel1[float32, float32] {
	if loop == nil {
		return rest
	}
	return func(dst, a []float32, c *op.Call) {
		n := len(dst) &^ 7
		if n > 0 {
			loop(n, &dst[0], &a[0], float32(c.F[0]))
		}
		if n < len(dst) {
			rest(dst[n:], a[n:], c)
		}
	}
}

// add32 is the Add of float32: the vector loop knows only F[0] = 1.
func add32(loop func(n int, dst, a, b *float32)) kernel2[float32, float32, float32] {
	plain := vectorTwo(loop, 8, add[float32])
	return func(dst, a, b []float32, c *op.Call) {
		if c.F[0] == 1 {
			plain(dst, a, b, c)
		} else {
			add(dst, a, b, c)
		}
	}
}
