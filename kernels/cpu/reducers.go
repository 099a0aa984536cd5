package cpu

import "math"

// The reducers. Sums and products of floats accumulate in float64, those of integers in int64.

func sumReducer[T float]() reducer[T, float64, T] {
	return reducer[T, float64, T]{
		fold: foldSum[T], merge: mergeSum[T, float64],
		join:   func(a, b float64) float64 { return a + b },
		finish: func(acc float64, _ int) T { return T(acc) },
	}
}

func meanReducer[T float]() reducer[T, float64, T] {
	r := sumReducer[T]()
	r.finish = func(acc float64, n int) T { return T(acc / float64(n)) }
	return r
}

func intSumReducer[T integer]() reducer[T, int64, int64] {
	return reducer[T, int64, int64]{
		fold: func(acc int64, v []T) int64 {
			for _, x := range v {
				acc += int64(x)
			}
			return acc
		},
		merge:  mergeSum[T, int64],
		join:   func(a, b int64) int64 { return a + b },
		finish: func(acc int64, _ int) int64 { return acc },
	}
}

// foldSum keeps four sums, so that additions need not wait for each other.
func foldSum[T float](acc float64, v []T) float64 {
	var s0, s1, s2, s3 float64
	for len(v) >= 4 {
		s0 += float64(v[0])
		s1 += float64(v[1])
		s2 += float64(v[2])
		s3 += float64(v[3])
		v = v[4:]
	}
	for _, x := range v {
		s0 += float64(x)
	}
	return acc + ((s0 + s1) + (s2 + s3))
}

func mergeSum[T number, A float64 | int64](acc []A, row []T) {
	row = row[:len(acc)]
	for i := range acc {
		acc[i] += A(row[i])
	}
}

func prodReducer[T number, A float64 | int64, D number]() reducer[T, A, D] {
	return reducer[T, A, D]{
		start: 1,
		fold: func(acc A, v []T) A {
			for _, x := range v {
				acc *= A(x)
			}
			return acc
		},
		merge: func(acc []A, row []T) {
			row = row[:len(acc)]
			for i := range acc {
				acc[i] *= A(row[i])
			}
		},
		join:   func(a, b A) A { return a * b },
		finish: func(acc A, _ int) D { return D(acc) },
	}
}

// maxReducer and minReducer: Go's max and min give NaN if either argument is NaN.

func maxReducer[T number]() reducer[T, T, T] {
	return reducer[T, T, T]{
		start: lowest[T](),
		fold: func(acc T, v []T) T {
			for _, x := range v {
				acc = max(acc, x)
			}
			return acc
		},
		merge: func(acc []T, row []T) {
			row = row[:len(acc)]
			for i := range acc {
				acc[i] = max(acc[i], row[i])
			}
		},
		join:   func(a, b T) T { return max(a, b) },
		finish: func(acc T, _ int) T { return acc },
	}
}

func minReducer[T number]() reducer[T, T, T] {
	return reducer[T, T, T]{
		start: highest[T](),
		fold: func(acc T, v []T) T {
			for _, x := range v {
				acc = min(acc, x)
			}
			return acc
		},
		merge: func(acc []T, row []T) {
			row = row[:len(acc)]
			for i := range acc {
				acc[i] = min(acc[i], row[i])
			}
		},
		join:   func(a, b T) T { return min(a, b) },
		finish: func(acc T, _ int) T { return acc },
	}
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
