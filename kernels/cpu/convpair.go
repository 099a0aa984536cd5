package cpu

import "github.com/cistern-ml/cistern/kernels/op"

// The gradient of an image under a stride of 2: the phase of even columns and that of odd ones write to the same rows, of which each would have to read
// what the other one has written. So the first puts its results side by side at the front of each row, and the second puts its own between them.

// phasePair says which of a pair of phases a convolution computes.
type phasePair int

const (
	alone phasePair = iota // every second place is written
	evenPhase
	oddPhase
	oddPhaseOfMore // rows have one even column more
)

// pairOf says which phase of a pair the columns from first on are, for rows of a phase of the other dimension.
func (g *convGemm[T]) pairOf(v *op.Convolution, rows op.Axis, first int) phasePair {
	s := v.Image.Strides
	if g.turned == nil || v.Stride[1] != 2 || v.Phases(1) != 2 || s[3] != 1 {
		return alone
	}
	for x := range 2 {
		axes := [2]op.Axis{rows, v.Backward(1, x)}
		if w := &axes[1]; w.Size > shiftPlaces || rows.Step*s[2] == w.Size*w.Step || !isShifted(&axes, v.Outputs) {
			return alone
		}
	}
	if first == 0 {
		return evenPhase
	}
	return oddPhase + phasePair(v.Image.Shape[3]%2)
}

// interleave puts n elements for each row, side by side in odd, between those at the front of the row, which has n of these, or n and more. Rows lie down
// elements apart.
func interleave(rows, n int, image []float32, down int, odd []float32, more int) {
	if more > 0 {
		for i := range rows {
			image[i*down+2*n] = image[i*down+n]
		}
	}
	if n >= 8 && interleaveRows != nil {
		interleaveRows(rows, n, &image[0], 4*down, &odd[0])
		return
	}
	for r := range rows {
		row, odd := image[r*down:], odd[r*n:]
		for i := n - 1; i >= 0; i-- {
			row[2*i], row[2*i+1] = row[i], odd[i]
		}
	}
}

// interleaveRows is interleave of rows of n elements, 8 at least, and none more; their distance is in bytes. Or it is nil.
var interleaveRows func(rows, n int, image *float32, down int, odd *float32)
