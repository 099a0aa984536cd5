package cpu

import "github.com/cistern-ml/cistern/device/dtype"

// packHalf is packKernels for elements of half precision that are packed as float32: each is nil where the processor has no instructions for it.
type packHalf struct {
	four packFourHalf
	rows map[int]copyHalfRows // by their length
}

// packFourHalf is packFour, and copyHalfRows is copyRows, of elements that are converted; ld counts elements.
type (
	packFourHalf func(steps int, dst *float32, width int, src *uint16, ld int)
	copyHalfRows func(count int, dst *float32, src *uint16, ld int)
)

// half is a type of half precision; 0 is none.
type half uint8

const (
	float16Half half = iota + 1
	brainHalf
)

// halfOf is the type of half precision of a data type.
func halfOf(d dtype.DType) half {
	switch d {
	case dtype.Float16:
		return float16Half
	case dtype.BFloat16:
		return brainHalf
	}
	return 0
}

var packHalves [brainHalf + 1]packHalf

// packHalfRows is packRows where the elements are converted. It reports whether there is a way to.
func packHalfRows[T float](l *accessor[T], dst []T, a matrix, n, width, k int) bool {
	four := packHalves[l.half].four
	if four == nil || n < 4 || k < 4 {
		return false
	}
	to := any(dst).([]float32)
	for i := 0; i < n; i += 4 {
		first := min(i, n-4) // as in packRows
		src, done := &slice[uint16](offset(a.ptr, first*a.row, 2), 1)[0], k&^3
		four(done, &to[first], width, src, a.row)
		if done < k {
			four(4, &to[first+(k-4)*width], width, offsetElements(src, k-4), a.row)
		}
	}
	return true
}

// packHalfSteps packs some steps of one full panel, which begins at a, if there is a way to.
func packHalfSteps[T float](l *accessor[T], dst []T, a matrix, steps, width int) bool {
	rows := packHalves[l.half].rows[width]
	if rows == nil {
		return false
	}
	rows(steps, &any(dst).([]float32)[0], &slice[uint16](a.ptr, 1)[0], a.step)
	return true
}
