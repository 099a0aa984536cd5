package cpu

// Reductions of several rows by one call of a vector loop: down the columns of rows, so that what columns have come to stays in registers, and along
// each of them, so that short rows do not cost a call.

// foursTogether is the number of fours of rows, so many bytes apart, that go in together. In the first-level cache lines whose addresses differ by a
// multiple of a page share eight ways: of rows that are far apart by a power of two, more would push each other out before the other half of a line is read.
func foursTogether(pitch int) int {
	const most, page, ways = 16, 4096, 8
	power := max(1, pitch&-pitch) // of two, that pitch is a multiple of
	return min(most, ways/4*page/min(page, power))
}

// mergeFours takes in fours of rows, ld apart. The elements of four are added as they are, as in foldSum.
func mergeFours[T float](acc []float64, rows []T, ld, fours int) {
	if f, ok := any(rows).([]float32); ok && vector.mergeSums != nil && len(acc) >= 8 {
		n := len(acc) &^ 7
		vector.mergeSums(fours, n, &acc[0], &f[0], 4*ld)
		acc, rows = acc[n:], rows[n:]
	}
	if wide, ok := any(rows).([]float64); ok && vector.addWords[0] != nil && len(acc) >= 8 {
		n := mergeFoursWide(acc, wide, ld, fours)
		acc, rows = acc[n:], rows[n:]
	}
	for ; fours > 0 && len(acc) > 0; fours-- {
		for i := range acc {
			acc[i] += float64((rows[i] + rows[ld+i]) + (rows[2*ld+i] + rows[3*ld+i]))
		}
		rows = rows[min(4*ld, len(rows)):]
	}
}

// mergeFoursWide is mergeFours of as many columns as vectors take, and says how many.
func mergeFoursWide(acc, rows []float64, ld, fours int) int {
	n := len(acc) &^ 7
	s := takeScratch()
	defer scratches.Put(s)
	x, y, add := scratchBuffer[float64](s, 0, n), scratchBuffer[float64](s, 1, n), vector.addWords[0]
	for k := range fours {
		four := rows[4*k*ld:]
		words(add, x, four, four[ld:])
		words(add, y, four[2*ld:], four[3*ld:])
		words(add, x, x, y)
		words(add, acc[:n], acc, x)
	}
	return n
}

// mergeIntegerFours takes in fours of rows, ld apart, as mergeIntegers one.
func mergeIntegerFours[T integer](acc []int64, rows []T, ld, fours int) {
	n := 0
	switch rows := any(rows).(type) {
	case []int64:
		if n = len(acc) &^ 3; n > 0 && vector.mergeSumsWhole != nil {
			vector.mergeSumsWhole(fours, n, &acc[0], &rows[0], 8*ld)
		} else {
			n = 0
		}
	case []uint8:
		if n = len(acc) &^ 31; n > 0 && vector.mergeSumsBytes != nil {
			vector.mergeSumsBytes(fours, n, &acc[0], &rows[0], ld)
		} else {
			n = 0
		}
	}
	acc, rows = acc[n:], rows[n:]
	for k := 0; k < 4*fours && len(acc) > 0; k++ {
		mergeIntegers(acc, rows[k*ld:][:len(acc)])
	}
}

// spoiltSums reports whether a sum is not finite: four elements may be beyond the range of float32 whose sum with others is not.
func spoiltSums(acc []float64) bool {
	for _, v := range acc {
		if v-v != 0 {
			return true
		}
	}
	return false
}

func mergeMaxes[T number](acc, rows []T, ld, fours int) {
	mergeMost(false, acc, rows, ld, fours, mergeMax[T])
}

func mergeMins[T number](acc, rows []T, ld, fours int) {
	mergeMost(true, acc, rows, ld, fours, mergeMin[T])
}

func mergeMost[T number](least bool, acc, rows []T, ld, fours int, one func(acc, row []T)) {
	n := mergeMostWholes(least, acc, rows, ld, fours)
	acc, rows = acc[n:], rows[n:]
	for k := 0; k < 4*fours && len(acc) > 0; k++ {
		one(acc, rows[k*ld:][:len(acc)])
	}
}

// mergeMostWholes is mergeMost of as many of the first columns as vectors take, and says how many.
func mergeMostWholes[T number](least bool, acc, rows []T, ld, fours int) (n int) {
	switch acc := any(acc).(type) {
	case []float32:
		f := either(least, vector.mergeMins, vector.mergeMaxes)
		if n = len(acc) &^ 7; n > 0 && f != nil {
			f(fours, n, &acc[0], &any(rows).([]float32)[0], 4*ld)
			return n
		}
	case []float64:
		f := either(least, vector.mergeMinsWide, vector.mergeMaxesWide)
		if n = len(acc) &^ 3; n > 0 && f != nil {
			f(fours, n, &acc[0], &any(rows).([]float64)[0], 8*ld)
			return n
		}
	case []int64:
		f := either(least, vector.mergeMinsWhole, vector.mergeMaxesWhole)
		if n = len(acc) &^ 3; n > 0 && f != nil {
			f(fours, n, &acc[0], &any(rows).([]int64)[0], 8*ld)
			return n
		}
	case []uint8:
		f := either(least, vector.mergeMinsBytes, vector.mergeMaxesBytes)
		if n = len(acc) &^ 31; n > 0 && f != nil {
			f(fours, n, &acc[0], &any(rows).([]uint8)[0], ld)
			return n
		}
	}
	return 0
}

// joinSums joins the sums of later rows.
func joinSums(acc, later []float64) {
	later = later[:len(acc)]
	for i := range acc {
		acc[i] += later[i]
	}
}

// foldSums sets acc[i] to foldSum of row i, and reports whether it did: rows have n elements and are ld apart.
func foldSums[T float](acc []float64, v []T, ld, n int) bool {
	f, ok := any(v).([]float32)
	if !ok || vector.sumRows == nil || n < 16 || n > sumGroupSize {
		return false
	}
	whole := n &^ 15
	vector.sumRows(len(acc), whole, &f[0], 4*ld, &acc[0])
	for i := range acc {
		row := v[i*ld:][:n]
		for _, x := range row[whole:] {
			acc[i] += float64(x)
		}
		if s := acc[i]; s-s != 0 {
			acc[i] = sumWide(row)
		}
	}
	return true
}

// foldIntegerRows is foldSums of integers.
func foldIntegerRows[T integer](acc []int64, v []T, ld, n int) bool {
	whole := sumWholes(acc, v, ld, n)
	if whole > 0 {
		for i := range acc {
			for _, x := range v[i*ld:][whole:n] {
				acc[i] += int64(x)
			}
		}
	}
	return whole > 0
}

// sumWholes sets acc[i] to the sum of as many of the first elements of row i as vectors take, and says how many: none if they have none for the type.
func sumWholes[T integer](acc []int64, v []T, ld, n int) int {
	switch v := any(v).(type) {
	case []int64:
		if n &^= 15; n > 0 && vector.sumRowsWhole != nil {
			vector.sumRowsWhole(len(acc), n, &v[0], 8*ld, &acc[0])
			return n
		}
	case []uint8:
		if n &^= 127; n > 0 && vector.sumRowsBytes != nil {
			vector.sumRowsBytes(len(acc), n, &v[0], ld, &acc[0])
			return n
		}
	}
	return 0
}

// maxOfRows and minOfRows set acc[i] to the largest, or least, element of row i, likewise.

func maxOfRows[T number](acc, v []T, ld, n int) bool { return mostOfRows(false, acc, v, ld, n) }

func minOfRows[T number](acc, v []T, ld, n int) bool { return mostOfRows(true, acc, v, ld, n) }

func mostOfRows[T number](least bool, acc, v []T, ld, n int) bool {
	whole := mostOfWholes(least, acc, v, ld, n)
	if whole > 0 && whole < n {
		for i := range acc {
			if rest := v[i*ld:][whole:n]; least {
				acc[i] = minOf(acc[i], rest)
			} else {
				acc[i] = maxOf(acc[i], rest)
			}
		}
	}
	return whole > 0
}

// mostOfWholes sets acc[i] to the extreme of as many of the first elements of row i as vectors take, and says how many: none if they have none for the type.
func mostOfWholes[T number](least bool, acc, v []T, ld, n int) int {
	switch acc := any(acc).(type) {
	case []float32:
		f := either(least, vector.minRows, vector.maxRows)
		if n &^= 31; n > 0 && f != nil {
			f(len(acc), n, &any(v).([]float32)[0], 4*ld, &acc[0])
			return n
		}
	case []float64:
		f := either(least, vector.minRowsWide, vector.maxRowsWide)
		if n &^= 15; n > 0 && f != nil {
			f(len(acc), n, &any(v).([]float64)[0], 8*ld, &acc[0])
			return n
		}
	case []int64:
		f := either(least, vector.minRowsWhole, vector.maxRowsWhole)
		if n &^= 15; n > 0 && f != nil {
			f(len(acc), n, &any(v).([]int64)[0], 8*ld, &acc[0])
			return n
		}
	case []uint8:
		f := either(least, vector.minRowsBytes, vector.maxRowsBytes)
		if n &^= 127; n > 0 && f != nil {
			f(len(acc), n, &any(v).([]uint8)[0], ld, &acc[0])
			return n
		}
	}
	return 0
}

func either[F any](first bool, a, b F) F {
	if first {
		return a
	}
	return b
}
