package cpu

// Batch norm of float32 in one pass over the elements of a channel. Results are the same bits as those of one step after the other.

// channelRow are the numbers of a channel: y is ((x+shift)*rstd)*k1 + k2, and with a gradient g k0*g + ((x+shift)*rstd)*k1 + k2.
// Assembly reads them by their places.
type channelRow struct{ shift, rstd, k1, k0, k2 float32 }

// form32 sets y as far as vectors reach, and gives how many elements it has set. g is nil in a forward pass.
func (j *channelNorm[T]) form32(y, g, x []T, c int) int {
	to, ok := any(y).([]float32)
	n := len(y) &^ 7
	if !ok || n == 0 || j.k1 == nil || j.k2 == nil || vector.channelForms == nil {
		return 0
	}
	row := channelRow{shift: -float32(j.mean[c]), rstd: float32(j.rstd[c]), k1: float32(j.k1[c]), k2: float32(j.k2[c])}
	from := any(x).([]float32)
	if !j.gradient {
		vector.channelForms(n, &to[0], &from[0], &row)
		return n
	}
	row.k0 = float32(j.k0[c])
	vector.channelGrads(n, &to[0], &any(g).([]float32)[0], &from[0], &row)
	return n
}

// ones are the weights with which normDots has those of a channel.
var ones = func() (v [chunk]float32) {
	for i := range v {
		v[i] = 1
	}
	return v
}()

// channelDots are the sums of a piece of a channel, of at most chunk elements: of g, and of g*(x-mean)*rstd. ok reports whether they are float32.
func channelDots[T float](g, x []T, mean, rstd T) (sum, product float64, ok bool) {
	to, ok := any(g).([]float32)
	if !ok {
		return 0, 0, false
	}
	var sums [2]float64
	row := normRow{mean: float32(mean), rstd: float32(rstd)}
	sum, product = normDots(to, ones[:len(to)], any(x).([]float32), &row, &sums)
	return sum, product, true
}
