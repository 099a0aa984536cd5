package tensor

// Padding by reflection or repetition on one side of a dimension that is cut on the other: first padded, then cut.

// cutting divides pad into what is put and what is cut off, which is nil where nothing is, or the mode does both at once or refuses it.
func cutting(pad []int, mode PadMode) (wide, cut []int) {
	if mode != PadReflect && mode != PadReplicate {
		return pad, nil
	}
	for _, n := range pad {
		if n < 0 {
			wide, cut = make([]int, len(pad)), make([]int, len(pad))
			for i, n := range pad {
				wide[i], cut[i] = max(n, 0), min(n, 0)
			}
			return wide, cut
		}
	}
	return pad, nil
}

func (t *Tensor) padAndCut(name string, pad, wide, cut []int, mode PadMode) (*Tensor, error) {
	if _, err := bordersOf(name, &t.layout, wide, mode); err != nil {
		return nil, err
	}
	for k := 0; k < len(pad); k += 2 {
		i := t.layout.ndim - 1 - k/2
		if left := float64(t.layout.shape[i]) + float64(pad[k]) + float64(pad[k+1]); left < 1 { // of ints the sum may overflow
			return nil, shapeErr(name, []Shape{t.Shape()}, "pad %v leaves nothing of dimension %d", pad, i)
		}
	}
	var p parts
	return p.result(t.exec, p.do(p.do(p.of(t).Pad(wide, mode, 0)).Pad(cut, PadConstant, 0)))
}
