package cpu

import (
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

// Reducers of sizes (norms), of what is not zero, and of exponentials. Sums are formed in float64.

// pointReducer makes a reducer of a function that takes in one element.
func pointReducer[T, A, D any](start A, point func(acc A, v T) A, join func(a, b A) A, finish func(acc A, n int) D) reducer[T, A, D] {
	return reducer[T, A, D]{
		start: start,
		fold: func(acc A, v []T) A {
			for _, x := range v {
				acc = point(acc, x)
			}
			return acc
		},
		merge: func(acc []A, row []T) {
			row = row[:len(acc)]
			for i := range acc {
				acc[i] = point(acc[i], row[i])
			}
		},
		join:   join,
		finish: finish,
	}
}

func plus[A float64 | int64](a, b A) A { return a + b }

func norm1Reducer[T float]() reducer[T, float64, T] {
	r := pointReducer(0, func(acc float64, v T) float64 { return acc + math.Abs(float64(v)) }, plus[float64],
		func(acc float64, _ int) T { return T(acc) })
	r.fold = func(acc float64, v []T) float64 {
		return acc + fourSums(v, func(x float64) float64 { return math.Abs(x) })
	}
	return r
}

func norm2Reducer[T float]() reducer[T, float64, T] {
	r := pointReducer(0, func(acc float64, v T) float64 { return acc + float64(float64(v)*float64(v)) }, plus[float64],
		func(acc float64, _ int) T { return T(math.Sqrt(acc)) })
	r.fold = func(acc float64, v []T) float64 { return acc + dotProduct(v, v) }
	return r
}

// meanSquareReducer rounds once: the mean may be a number of T where the sum is not.
func meanSquareReducer[T float]() reducer[T, float64, T] {
	r := norm2Reducer[T]()
	r.finish = func(acc float64, n int) T { return T(acc / float64(n)) }
	return r
}

// fourSums keeps four sums of f, so that additions need not wait for each other.
func fourSums[T float](v []T, f func(float64) float64) float64 {
	var s [4]float64
	for ; len(v) >= 4; v = v[4:] {
		s[0] += f(float64(v[0]))
		s[1] += f(float64(v[1]))
		s[2] += f(float64(v[2]))
		s[3] += f(float64(v[3]))
	}
	for _, x := range v {
		s[0] += f(float64(x))
	}
	return (s[0] + s[2]) + (s[1] + s[3])
}

func normMaxReducer[T float]() reducer[T, T, T] {
	return pointReducer(0, func(acc, v T) T { return max(acc, T(math.Abs(float64(v)))) }, func(a, b T) T { return max(a, b) },
		func(acc T, _ int) T { return acc })
}

func normMinReducer[T float]() reducer[T, T, T] {
	return pointReducer(T(math.Inf(1)), func(acc, v T) T { return min(acc, T(math.Abs(float64(v)))) }, func(a, b T) T { return min(a, b) },
		func(acc T, _ int) T { return acc })
}

func nonzeroReducer[T number]() reducer[T, int64, int64] {
	return pointReducer(0, func(acc int64, v T) int64 { return acc + int64(truth(v != 0)) }, plus[int64],
		func(acc int64, _ int) int64 { return acc })
}

// exps is a sum of exponentials relative to the largest exponent so far.
type exps struct{ most, sum float64 }

// with takes in exponentials of a sum relative to most. Nothing is minus infinity; where both are infinite their distance
// counts as 0.
func (e exps) with(most, sum float64, exp func(float64) float64) exps {
	switch {
	case math.IsInf(most, -1):
		return e
	case most == e.most:
		return exps{most, e.sum + sum}
	case most < e.most:
		return exps{e.most, e.sum + float64(sum*exp(most-e.most))}
	}
	return exps{most, sum + float64(e.sum*exp(e.most-most))}
}

func logSumExpReducer[T float]() reducer[T, exps, T] {
	exp := expOf[T]
	return reducer[T, exps, T]{
		start: exps{most: math.Inf(-1)},
		fold: func(acc exps, v []T) exps {
			if len(v) == 0 {
				return acc
			}
			m := float64(maxOf(v[0], v))
			if math.IsInf(m, 0) || m != m { // one by one, with the rules of with
				for _, x := range v {
					acc = acc.with(float64(x), 1, exp)
				}
				return acc
			}
			return acc.with(m, expsRelative(v, T(m)), exp)
		},
		merge: func(acc []exps, row []T) {
			row = row[:len(acc)]
			if narrow, ok := any(row).([]float32); ok {
				mergeExps(acc, narrow)
				return
			}
			for i := range acc {
				acc[i] = acc[i].with(float64(row[i]), 1, exp)
			}
		},
		merges:   mergeExpRows[T],
		twice:    true,
		spoilt:   spoiltExps,
		join:     func(a, b exps) exps { return a.with(b.most, b.sum, exp) },
		finishes: logsOfExps[T],
	}
}

// expsRelative is the sum of exp(x-m).
func expsRelative[T float](v []T, m T) (sum float64) {
	s := takeScratch()
	defer scratches.Put(s)
	for tmp := scratchBuffer[T](s, 0, rowGroup); len(v) > 0; {
		n := min(len(v), rowGroup)
		sum += expSumGroup(tmp[:n], v[:n], m)
		v = v[n:]
	}
	return sum
}

// mergeExpRows takes in fours of rows, ld apart, by two passes: for the greatest of each column, and for the sum of exponentials relative to it. What the columns have come
// to before is rescaled in float64, so that the errors of that do not add up.
func mergeExpRows[T float](acc []exps, rows []T, ld, fours int) {
	s := takeScratch()
	defer scratches.Put(s)
	n := len(acc)
	most, below := scratchBuffer[T](s, 0, n), scratchBuffer[T](s, 1, n)
	sums := scratchBuffer[float64](s, 2, n)
	for i, a := range acc {
		most[i] = T(a.most) // one of its type
	}
	for k := 0; k < fours; {
		together := min(fours-k, foursTogether(ld*sizeOf(most[0])))
		mergeMaxes(most, rows[4*k*ld:], ld, together)
		k += together
	}
	for i, m := range most {
		sums[i] = acc[i].most - float64(m)
	}
	exponentials(sums)
	for i, a := range acc {
		sums[i] *= a.sum
	}
	for k := range 4 * fours {
		subSlices(below, rows[k*ld:][:n], most)
		exponentials(below)
		mergeFloats(sums, below)
	}
	for i, m := range most {
		acc[i] = exps{float64(m), sums[i]}
	}
}

// mergeExps takes in one exponential for each sum: of numbers that are not above the greatest so far by vectors, and the few that are one by one, so that the
// errors of what is rescaled do not add up.
func mergeExps(acc []exps, row []float32) {
	s := takeScratch()
	defer scratches.Put(s)
	for len(acc) > 0 {
		n := min(len(acc), chunk)
		below := scratchBuffer[float32](s, 0, n)
		for i := range below {
			below[i] = row[i] - float32(acc[i].most)
		}
		apply(fnExp, below, below, nil, nil, nil)
		for i, e := range below {
			a := &acc[i]
			if x := float64(row[i]); x <= a.most && math.Abs(a.most) <= math.MaxFloat32 { // differences of infinities are no numbers
				a.sum += float64(e)
			} else {
				*a = a.with(x, 1, expNarrow)
			}
		}
		acc, row = acc[n:], row[n:]
	}
}

// logsOfExps are the logarithms of sums of exponentials.
func logsOfExps[T float](results []T, acc []exps, _ int) {
	s := takeScratch()
	defer scratches.Put(s)
	for len(acc) > 0 {
		n := min(len(acc), chunk)
		logs := scratchBuffer[float64](s, 0, n)
		for i := range logs {
			logs[i] = acc[i].sum
		}
		applyWide(fnLogFloat64, logs, logs, nil, nil, nil)
		for i, v := range logs {
			results[i] = T(acc[i].most + v)
		}
		results, acc = results[n:], acc[n:]
	}
}

// spoiltExps reports whether a sum is not finite: differences of infinities are no numbers, so that those rows are for the rules of with.
func spoiltExps(acc []exps) bool {
	for _, a := range acc {
		if a.sum-a.sum != 0 || a.most-a.most != 0 {
			return true
		}
	}
	return false
}

func reduceNormRows() []op.Row {
	norm := func(id op.ID, f reducer[float32, float64, float32], g reducer[float64, float64, float64]) op.Row {
		return row(id, floats(same(f), same(g)))
	}
	return []op.Row{
		norm(op.Norm1, norm1Reducer[float32](), norm1Reducer[float64]()),
		norm(op.Norm2, norm2Reducer[float32](), norm2Reducer[float64]()),
		norm(op.MeanSquare, meanSquareReducer[float32](), meanSquareReducer[float64]()),
		row(op.NormMax, floats(same(normMaxReducer[float32]()), same(normMaxReducer[float64]()))),
		row(op.NormMin, floats(same(normMinReducer[float32]()), same(normMinReducer[float64]()))),
		row(op.LogSumExp, floats(same(logSumExpReducer[float32]()), same(logSumExpReducer[float64]()))),
		row(op.CountNonzero,
			floats(wide(nonzeroReducer[float32]()), wide(nonzeroReducer[float64]())),
			integers(wide(nonzeroReducer[int64]()), wide(nonzeroReducer[int32]()), wide(nonzeroReducer[uint8]())),
			boolean(wide(nonzeroReducer[uint8]()))),
	}
}
