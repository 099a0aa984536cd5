package cpu

// Layer norm of float32 in fewer passes: the squares of a row are added up as they are formed, and a row with weight and bias is written at once.
// Results are the same bits as those of one step after the other.

// squares32 is the sum of (x-mean)², of sums of four as foldSum has them, and reports whether it is finite and vectors served. x has at most 4,096 elements.
func squares32(x []float32, mean float32) (sum float64, ok bool) {
	n := len(x) &^ 15
	if vector.squares == nil || n == 0 {
		return 0, false
	}
	sum = vector.squares(n, &x[0], mean)
	for _, v := range x[n:] {
		d := v - mean
		sum += float64(float32(d * d))
	}
	return sum, sum-sum == 0
}

// normalize32 sets y to (x-mean)*rstd*w + b, as far as vectors reach, and gives how many elements it has set.
func normalize32(y, x, w, b []float32, mean, rstd float32) int {
	n := len(y) &^ 7
	if vector.normalize == nil || n == 0 {
		return 0
	}
	vector.normalize(n, &y[0], &x[0], &w[0], &b[0], mean, rstd)
	return n
}

// forwardFloats writes n elements from place at on, which is column col of a row of a group whose first channel is first, and reports whether it did.
func (j *rowNorm[T]) forwardFloats(at, first, col, n int, mean, rstd T) bool {
	w, ok := any(j.weight).([]float32)
	if !ok || w == nil || j.bias == nil || j.l != 1 || !j.access.direct || vector.normalize == nil {
		return false
	}
	b := any(j.bias).([]float32)[first+col:][:n]
	x, y := slice[float32](offset(j.call.In[0].Ptr, at, 4), n), slice[float32](offset(j.call.Out[0].Ptr, at, 4), n)
	w = w[first+col:][:n]
	for i := normalize32(y, x, w, b, float32(mean), float32(rstd)); i < n; i++ {
		v := float32(float32(x[i]-float32(mean)) * float32(rstd))
		y[i] = float32(v*w[i]) + b[i]
	}
	return true
}
