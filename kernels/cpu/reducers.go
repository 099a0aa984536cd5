package cpu

import "math"

// The reducers. Sums and products of floats accumulate in float64, those of integers in int64.

func sumReducer[T float]() reducer[T, float64, T] {
	return reducer[T, float64, T]{
		fold: foldSum[T], merge: mergeFloats[T], merges: mergeFours[T], spoilt: spoiltSums, folds: foldSums[T],
		join: func(a, b float64) float64 { return a + b }, joins: joinSums,
		finishes: rounded[T],
	}
}

func meanReducer[T float]() reducer[T, float64, T] {
	r := sumReducer[T]()
	r.finishes = func(results []T, acc []float64, n int) {
		for i := range acc {
			acc[i] /= float64(n)
		}
		rounded(results, acc, n)
	}
	return r
}

// rounded sets results to what sums or products in float64 are as T.
func rounded[T float](results []T, acc []float64, _ int) {
	n := 0
	if f := vector.casts[castFloat64][castFloat32]; f != nil && sizeOf(results[0]) == 4 {
		if n = len(acc) &^ 7; n > 0 {
			f(n, &bytesOf(results)[0], &bytesOf(acc)[0])
		}
	}
	for i, v := range acc[n:] {
		results[n+i] = T(v)
	}
}

func intSumReducer[T integer]() reducer[T, int64, int64] {
	return reducer[T, int64, int64]{
		fold:   foldIntegers[T],
		merge:  mergeIntegers[T],
		merges: mergeIntegerFours[T],
		folds:  foldIntegerRows[T],
		join:   func(a, b int64) int64 { return a + b },
	}
}

// foldIntegers keeps four sums, so that additions need not wait for each other.
func foldIntegers[T integer](acc int64, v []T) int64 {
	if len(v) >= 16 && sizeOf(v[0]) != 4 {
		s := takeScratch()
		sum := scratchBuffer[int64](s, 0, 1)
		if n := sumWholes(sum, v, 0, len(v)); n > 0 {
			acc += sum[0]
			v = v[n:]
		}
		scratches.Put(s)
	}
	var s [4]int64
	for ; len(v) >= 4; v = v[4:] {
		s[0] += int64(v[0])
		s[1] += int64(v[1])
		s[2] += int64(v[2])
		s[3] += int64(v[3])
	}
	for _, x := range v {
		acc += int64(x)
	}
	return acc + s[0] + s[1] + s[2] + s[3]
}

// mergeIntegers adds a row as int64.
func mergeIntegers[T integer](acc []int64, row []T) {
	if len(acc) == 0 {
		return
	}
	n := 0
	switch row := any(row).(type) {
	case []int64:
		n = words(vector.addWords[1], acc, acc, row)
	case []int32:
		n = mergeWidened(acc, castInt32, 4, bytesOf(row))
	case []uint8:
		n = mergeWidened(acc, castUint8, 1, row)
	}
	mergeSum(acc[n:], row[n:])
}

// mergeWidened adds as many elements of a row of smaller integers as vectors take, and says how many.
func mergeWidened(acc []int64, from castKind, size int, row []byte) int {
	n := len(acc) &^ 7
	if vector.logic == nil {
		return 0
	}
	s := takeScratch()
	defer scratches.Put(s)
	wide := scratchBuffer[int64](s, 1, chunk)
	for done := 0; done < n; done += chunk {
		m := min(n-done, chunk)
		castChunk(from, castInt64, m, bytesOf(wide), row[done*size:], s)
		words(vector.addWords[1], acc[done:][:m], acc[done:], wide)
	}
	return n
}

// sumGroupSize is the number of elements that are added in one pass.
const sumGroupSize = 4096

// foldSum adds the elements of v to acc. Four neighbours, 16 apart, are added as they are and their sums in float64: for float32 the error is then that of
// two additions, however many there are, and a quarter is converted. In a group it keeps sixteen sums, so that additions need not wait for each other.
func foldSum[T float](acc float64, v []T) float64 {
	for len(v) > 0 {
		n := min(len(v), sumGroupSize)
		s := sumGroup(v[:n])
		if s-s != 0 { // four elements may be beyond the range of float32 whose sum with others is not
			s = sumWide(v[:n])
		}
		acc += s
		v = v[n:]
	}
	return acc
}

func sumGroup[T float](v []T) float64 {
	n := len(v) &^ 15
	var s float64
	if f, ok := any(v).([]float32); ok && vector.sum != nil && n > 0 {
		s = vector.sum(n, &f[0])
	} else if f, ok := any(v).([]float64); ok && vector.sumWide != nil && n > 0 {
		s = vector.sumWide(n, &f[0])
	} else {
		s = sixteenSums(v[:n])
	}
	for _, x := range v[n:] {
		s += float64(x)
	}
	return s
}

// sixteenSums is the sum of v, a multiple of sixteen elements, of sixteen parts by place.
func sixteenSums[T float](v []T) float64 {
	var s [16]float64
	for ; len(v) >= 64; v = v[64:] {
		b, c, d := v[16:32], v[32:48], v[48:64]
		for k, a := range v[:16] {
			s[k] += float64((a + b[k]) + (c[k] + d[k]))
		}
	}
	for ; len(v) > 0; v = v[16:] {
		for k, x := range v[:16] {
			s[k] += float64(x)
		}
	}
	for _, half := range []int{8, 4, 2, 1} {
		for k := range half {
			s[k] += s[k+half]
		}
	}
	return s[0]
}

// sumWide is the sum of v, all of it in float64.
func sumWide[T float](v []T) (s float64) {
	for _, x := range v {
		s += float64(x)
	}
	return s
}

func mergeFloats[T float](acc []float64, row []T) {
	if f, ok := any(row).([]float32); ok && vector.mergeSum != nil && len(acc) >= 8 {
		n := len(acc) &^ 7
		vector.mergeSum(n, &acc[0], &f[0])
		acc, row = acc[n:], row[n:]
	}
	mergeSum(acc, row)
}

func mergeSum[T number, A float64 | int64](acc []A, row []T) {
	row = row[:len(acc)]
	for i := range acc {
		acc[i] += A(row[i])
	}
}

// floatProdReducer is prodReducer with a faster fold.
func floatProdReducer[T float]() reducer[T, float64, T] {
	r := prodReducer[T, float64, T]()
	r.fold, r.finishes = foldProd[T], rounded[T]
	inOrder := r.merge
	r.merge = func(acc []float64, row []T) {
		switch f := any(row).(type) {
		case []float32:
			if n := len(acc) &^ 7; n > 0 && vector.mergeProd != nil {
				vector.mergeProd(n, &acc[0], &f[0])
				acc, row = acc[n:], row[n:]
			}
		case []float64:
			n := words(vector.mulWords[0], acc, acc, f)
			acc, row = acc[n:], row[n:]
		}
		inOrder(acc, row)
	}
	one := r.merge
	r.merges = func(acc []float64, rows []T, ld, fours int) {
		if f, ok := any(rows).([]float32); ok && vector.mergeProds != nil && len(acc) >= 8 {
			n := len(acc) &^ 7
			vector.mergeProds(fours, n, &acc[0], &f[0], 4*ld)
			acc, rows = acc[n:], rows[n:]
		}
		for k := 0; k < 4*fours && len(acc) > 0; k++ {
			one(acc, rows[k*ld:][:len(acc)])
		}
	}
	return r
}

// prodGroupSize is the number of elements that are multiplied in one pass: few enough for numbers up to 16, and from 1/16 on, to stay in range.
const prodGroupSize = 256

// foldProd multiplies acc by the elements of v, of a group sixteen products by place, so that they need not wait for each other. Some of them may leave
// the range of float64 where the product of all does not: then the group is multiplied in its order, from acc on.
func foldProd[T float](acc float64, v []T) float64 {
	for len(v) > 0 {
		n := min(len(v), prodGroupSize)
		if s := prodGroup(v[:n]); math.Abs(s) >= 0x1p-1022 && math.Abs(s) <= math.MaxFloat64 {
			acc *= s
		} else {
			acc = prodInOrder(acc, v[:n])
		}
		v = v[n:]
	}
	return acc
}

func prodGroup[T float](v []T) float64 {
	n := len(v) &^ 15
	if n == 0 {
		return prodInOrder(1.0, v)
	}
	var s float64
	if f, ok := any(v).([]float32); ok && vector.prod != nil {
		s = vector.prod(n, &f[0])
	} else {
		s = sixteenProducts(v[:n])
	}
	return prodInOrder(s, v[n:])
}

// sixteenProducts is the product of v, a multiple of sixteen elements, of sixteen parts by place, to which the product of two neighbours goes at once.
func sixteenProducts[T float](v []T) float64 {
	var s [16]float64
	for k, x := range v[:16] {
		s[k] = float64(x)
	}
	v = v[16:]
	for ; len(v) >= 32; v = v[32:] {
		b := v[16:32]
		for k, x := range v[:16] {
			s[k] *= float64(x) * float64(b[k])
		}
	}
	if len(v) > 0 {
		for k, x := range v {
			s[k] *= float64(x)
		}
	}
	for _, half := range []int{8, 4, 2, 1} {
		for k := range half {
			s[k] *= s[k+half]
		}
	}
	return s[0]
}

func prodInOrder[T, A number](acc A, v []T) A {
	for _, x := range v {
		acc *= A(x)
	}
	return acc
}

func prodReducer[T number, A float64 | int64, D number]() reducer[T, A, D] {
	return reducer[T, A, D]{
		start: 1,
		fold:  prodInOrder[T, A],
		merge: func(acc []A, row []T) {
			row = row[:len(acc)]
			for i := range acc {
				acc[i] *= A(row[i])
			}
		},
		join: func(a, b A) A { return a * b },
	}
}

// maxReducer and minReducer give NaN if there is one. Their folds compare so that NaN leaves the loop, which takes no time
// for numbers.

func maxReducer[T number]() reducer[T, T, T] {
	return reducer[T, T, T]{
		start:  lowest[T](),
		fold:   func(acc T, v []T) T { return max(acc, maxOf(acc, v)) },
		merge:  mergeMax[T],
		merges: mergeMaxes[T],
		folds:  maxOfRows[T],
		joins:  mergeMax[T],
		join:   func(a, b T) T { return max(a, b) },
	}
}

func minReducer[T number]() reducer[T, T, T] {
	return reducer[T, T, T]{
		start:  highest[T](),
		fold:   func(acc T, v []T) T { return min(acc, minOf(acc, v)) },
		merge:  mergeMin[T],
		merges: mergeMins[T],
		folds:  minOfRows[T],
		joins:  mergeMin[T],
		join:   func(a, b T) T { return min(a, b) },
	}
}

// mergeMax and mergeMin keep a NaN.

func mergeMax[T number](acc, row []T) {
	if whole, ok := any(acc).([]int64); ok {
		n := words(vector.maxWords[1], whole, whole, any(row).([]int64))
		acc, row = acc[n:], row[n:]
	}
	if wide, ok := any(acc).([]float64); ok {
		n := words(vector.maxWords[0], wide, wide, any(row).([]float64))
		acc, row = acc[n:], row[n:]
	}
	if f, ok := any(acc).([]float32); ok && vector.mergeMax != nil && len(f) >= 8 {
		n := len(f) &^ 7
		vector.mergeMax(n, &f[0], &any(row).([]float32)[0])
		acc, row = acc[n:], row[n:]
	}
	row = row[:len(acc)]
	for i := range acc {
		if !(row[i] <= acc[i]) && acc[i] == acc[i] {
			acc[i] = row[i]
		}
	}
}

func mergeMin[T number](acc, row []T) {
	if whole, ok := any(acc).([]int64); ok {
		n := words(vector.minWords[1], whole, whole, any(row).([]int64))
		acc, row = acc[n:], row[n:]
	}
	if wide, ok := any(acc).([]float64); ok {
		n := words(vector.minWords[0], wide, wide, any(row).([]float64))
		acc, row = acc[n:], row[n:]
	}
	if f, ok := any(acc).([]float32); ok && vector.mergeMin != nil && len(f) >= 8 {
		n := len(f) &^ 7
		vector.mergeMin(n, &f[0], &any(row).([]float32)[0])
		acc, row = acc[n:], row[n:]
	}
	row = row[:len(acc)]
	for i := range acc {
		if !(row[i] >= acc[i]) && acc[i] == acc[i] {
			acc[i] = row[i]
		}
	}
}

// maxOf is the largest of m and v, or NaN.
func maxOf[T number](m T, v []T) T {
	if sizeOf(m) != 4 && len(v)*sizeOf(m) >= 128 {
		few, n := mostWide(false, v)
		if n > 0 {
			m = max(m, few)
		}
		v = v[n:]
	}
	if f, ok := any(v).([]float32); ok && vector.max != nil && len(f) >= 32 {
		n := len(f) &^ 31
		m = max(m, T(vector.max(n, &f[0])))
		v = v[n:]
	}
	if m != m {
		return m
	}
	for _, x := range v {
		if !(x <= m) {
			m = x
			if x != x {
				break
			}
		}
	}
	return m
}

// mostWide is the extreme of the first n elements, where vectors take some.
func mostWide[T number](least bool, v []T) (most T, n int) {
	s := takeScratch()
	defer scratches.Put(s)
	few := scratchBuffer[T](s, 0, 1)
	n = mostOfWholes(least, few, v, 0, len(v))
	return few[0], n
}

// minOf is the least of m and v, or NaN.
func minOf[T number](m T, v []T) T {
	if sizeOf(m) != 4 && len(v)*sizeOf(m) >= 128 {
		few, n := mostWide(true, v)
		if n > 0 {
			m = min(m, few)
		}
		v = v[n:]
	}
	if f, ok := any(v).([]float32); ok && vector.min != nil && len(f) >= 32 {
		n := len(f) &^ 31
		m = min(m, T(vector.min(n, &f[0])))
		v = v[n:]
	}
	if m != m {
		return m
	}
	for _, x := range v {
		if !(x >= m) {
			m = x
			if x != x {
				break
			}
		}
	}
	return m
}

// Any and All of Bool are the largest and the least of 0 and 1, with the neutral elements 0 and 1.

func anyReducer() reducer[uint8, uint8, uint8] { return maxReducer[uint8]() }

func allReducer() reducer[uint8, uint8, uint8] {
	r := minReducer[uint8]()
	r.start = 1
	return r
}

// lowest is the least value of T, and highest the largest; infinities for floats.

func lowest[T number]() T {
	if isFloat[T]() {
		return T(math.Inf(-1))
	}
	return saturated[T](0, math.MinInt64)
}

func highest[T number]() T {
	if isFloat[T]() {
		return T(math.Inf(1))
	}
	return saturated[T](0, math.MaxInt64)
}
