package cpu

// Arithmetic on whole slices, for kernels that are made of several such steps on pieces that stay in the first-level cache: of
// float32 by the vector loops, else in Go. All slices have the length of dst, which may be one of the inputs.

func mulSlices[T float](dst, a, b []T) {
	if n := len(dst) &^ 7; n > 0 && vector.mul != nil {
		if d, ok := any(dst).([]float32); ok {
			vector.mul(n, &d[0], &any(a).([]float32)[0], &any(b).([]float32)[0])
			dst, a, b = dst[n:], a[n:], b[n:]
		}
	}
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

func addSlices[T float](dst, a, b []T) {
	if n := len(dst) &^ 7; n > 0 && vector.add != nil {
		if d, ok := any(dst).([]float32); ok {
			vector.add(n, &d[0], &any(a).([]float32)[0], &any(b).([]float32)[0])
			dst, a, b = dst[n:], a[n:], b[n:]
		}
	}
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

func subSlices[T float](dst, a, b []T) {
	if n := len(dst) &^ 7; n > 0 && vector.sub != nil {
		if d, ok := any(dst).([]float32); ok {
			vector.sub(n, &d[0], &any(a).([]float32)[0], &any(b).([]float32)[0])
			dst, a, b = dst[n:], a[n:], b[n:]
		}
	}
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] - b[i]
	}
}

// shiftSlice is dst = a + v.
func shiftSlice[T float](dst, a []T, v T) {
	if n := len(dst) &^ 7; n > 0 && vector.addScalar != nil {
		if d, ok := any(dst).([]float32); ok {
			vector.addScalar(n, &d[0], &any(a).([]float32)[0], float32(v))
			dst, a = dst[n:], a[n:]
		}
	}
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + v
	}
}

// scaleSlice is dst = a * v.
func scaleSlice[T float](dst, a []T, v T) {
	if n := len(dst) &^ 7; n > 0 && vector.mulScalar != nil {
		if d, ok := any(dst).([]float32); ok {
			vector.mulScalar(n, &d[0], &any(a).([]float32)[0], float32(v))
			dst, a = dst[n:], a[n:]
		}
	}
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * v
	}
}
