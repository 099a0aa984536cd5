package cpu

// Loops down the columns of a block: rows of width elements, each column for itself. They are the steps of softmax and its
// gradient in attention, where columns are queries and rows are keys.

// columnLoops are the loops of this processor for one type. Width is that of a panel of its micro-kernels.
type columnLoops[T float] struct {
	max  func(rows, width int, s, most *T)
	exp  func(rows, width int, s, most, sum *T)
	grad func(rows, width int, p, d, delta *T)
}

// The loops of plain Go. The init function of attention_amd64.go may replace those of float32.
var (
	columns32 = columnLoops[float32]{columnMax[float32], columnExp[float32], columnGrad[float32]}
	columns64 = columnLoops[float64]{columnMax[float64], columnExp[float64], columnGrad[float64]}
)

func columnLoopsOf[T float]() *columnLoops[T] {
	if c, ok := any(&columns32).(*columnLoops[T]); ok {
		return c
	}
	return any(&columns64).(*columnLoops[T])
}

// columnMax sets each of most to the largest of itself and its column. NaN does not count.
func columnMax[T float](rows, width int, s, most *T) {
	m, block := elementsAt(most, width), elementsAt(s, rows*width)
	for ; len(block) > 0; block = block[width:] {
		for j, v := range block[:width] {
			if v > m[j] {
				m[j] = v
			}
		}
	}
}

// columnExp sets each element to exp(s - most of its column), and adds it to the column's sum. -infinity gives 0.
func columnExp[T float](rows, width int, s, most, sum *T) {
	m, total, block := elementsAt(most, width), elementsAt(sum, width), elementsAt(s, rows*width)
	for ; len(block) > 0; block = block[width:] {
		for j, v := range block[:width] {
			e := T(expOf[T](float64(v - m[j])))
			block[j] = e
			total[j] += e
		}
	}
}

// columnGrad sets d to p*(d - delta of the column).
func columnGrad[T float](rows, width int, p, d, delta *T) {
	less, ps, ds := elementsAt(delta, width), elementsAt(p, rows*width), elementsAt(d, rows*width)
	for ; len(ds) > 0; ps, ds = ps[width:], ds[width:] {
		for j, v := range ds[:width] {
			ds[j] = ps[j] * (v - less[j])
		}
	}
}

// scaleColumns multiplies each element of rows of len(by) elements by its column's factor.
func scaleColumns[T float](block, by []T) {
	f, narrow := any(by).([]float32)
	for width := len(by); len(block) > 0; block = block[width:] {
		row := block[:width]
		if narrow && vector.mul != nil && width%8 == 0 {
			r := &any(row).([]float32)[0]
			vector.mul(width, r, r, &f[0])
			continue
		}
		for j, v := range by {
			row[j] *= v
		}
	}
}

// transposeRows packs width rows of a block side by side: element x of row i goes to dst[x*width+i]. Rows are ld apart and have
// steps elements.
func transposeRows[T float](dst, src []T, width, steps, ld int, four packFour[T]) {
	i := 0
	for ; four != nil && steps%4 == 0 && i+4 <= width; i += 4 {
		four(steps, &dst[i], width, &src[i*ld], ld)
	}
	for ; i < width; i++ {
		placeRow(dst[i:], src[i*ld:][:steps], width)
	}
}
