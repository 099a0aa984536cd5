package tensor

import "slices"

// Split cuts t along dim into views of size elements; the last may have fewer. A dimension of 0 makes one empty view. The caller
// releases all of them.
func (t *Tensor) Split(size, dim int) ([]*Tensor, error) {
	const name = "Split"
	axis, err := t.dimension(name, dim)
	if err != nil {
		return nil, err
	}
	n := t.layout.shape[axis]
	if size < 0 || size == 0 && n > 0 {
		return nil, valueErr(name, "size is %d; it must be positive", size)
	}
	if err := t.countable(name, pieceCount(n, size)); err != nil {
		return nil, err
	}
	sizes := []int{min(n, size)}
	for done := sizes[0]; done < n; done += size {
		sizes = append(sizes, min(size, n-done))
	}
	return t.cut(sizes, axis), nil
}

// SplitSizes cuts t along dim into views of the given sizes, which must add up to the dimension.
func (t *Tensor) SplitSizes(sizes []int, dim int) ([]*Tensor, error) {
	const name = "SplitSizes"
	axis, err := t.dimension(name, dim)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(sizes, func(n int) bool { return n < 0 }) {
		return nil, valueErr(name, "sizes are %v; none may be negative", sizes)
	}
	sum := 0
	for _, n := range sizes {
		if n > t.layout.shape[axis]-sum { // sums of larger ones may wrap
			sum = -1
			break
		}
		sum += n
	}
	if sum != t.layout.shape[axis] {
		return nil, shapeErr(name, []Shape{t.Shape()}, "sizes %v do not add up to dimension %d", sizes, dim)
	}
	return t.cut(sizes, axis), nil
}

// Chunk cuts t along dim into n views of one size, but for the last. There may be fewer than n, as in PyTorch.
func (t *Tensor) Chunk(n, dim int) ([]*Tensor, error) {
	const name = "Chunk"
	axis, err := t.dimension(name, dim)
	if err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, valueErr(name, "%d pieces; there must be one or more", n)
	}
	size := pieceCount(t.layout.shape[axis], n)
	if size == 0 { // n empty views
		if err := t.countable(name, n); err != nil {
			return nil, err
		}
		return t.cut(make([]int, n), axis), nil
	}
	return t.Split(size, dim)
}

// Unbind is a view of each slice of t along dim, without that dimension.
func (t *Tensor) Unbind(dim int) ([]*Tensor, error) {
	const name = "Unbind"
	axis, err := t.dimension(name, dim)
	if err != nil {
		return nil, err
	}
	if err := t.countable(name, t.layout.shape[axis]); err != nil {
		return nil, err
	}
	ts := make([]*Tensor, t.layout.shape[axis])
	for i := range ts {
		l := t.layout
		l.part(axis, i, 1)
		l.drop(axis)
		ts[i] = t.handle(&l, t.exec)
	}
	return ts, nil
}

// maxPieces is how many handles one call makes: an expanded dimension may have as many elements as there are numbers.
const maxPieces = 1 << 18

// countable refuses to make more views than fit into Go's memory.
func (t *Tensor) countable(name string, n int) error {
	if n > maxPieces {
		return shapeErr(name, []Shape{t.Shape()}, "%d pieces; there may be %d", n, maxPieces)
	}
	return nil
}

// pieceCount is n/size, rounded up.
func pieceCount(n, size int) int {
	if n == 0 {
		return 0
	}
	return (n-1)/size + 1
}

// cut makes views of the given sizes, one behind the other.
func (t *Tensor) cut(sizes []int, axis int) []*Tensor {
	ts := make([]*Tensor, len(sizes))
	start := 0
	for i, n := range sizes {
		l := t.layout
		l.part(axis, start, n)
		ts[i] = t.handle(&l, t.exec)
		start += n
	}
	return ts
}

// MoveDim brings dimension from to place to; the others keep their order.
func (t *Tensor) MoveDim(from, to int) (*Tensor, error) {
	const name = "MoveDim"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	i, err := t.layout.axis(name, from)
	if err != nil {
		return nil, err
	}
	j, err := t.layout.axis(name, to)
	if err != nil {
		return nil, err
	}
	l := t.layout
	for ; i < j; i++ {
		l.swap(i, i+1)
	}
	for ; i > j; i-- {
		l.swap(i, i-1)
	}
	return t.handle(&l, t.exec), nil
}

// SwapAxes is Transpose.
func (t *Tensor) SwapAxes(a, b int) (*Tensor, error) { return t.transpose("SwapAxes", a, b) }

// Diagonal is a view of the elements whose places along dimensions a and b differ by offset (b is ahead if it is positive): the two
// dimensions are dropped and the diagonal comes last.
func (t *Tensor) Diagonal(offset, a, b int) (*Tensor, error) {
	return t.diagonal("Diagonal", offset, a, b)
}

func (t *Tensor) diagonal(name string, offset, a, b int) (*Tensor, error) {
	if err := usable(name, t); err != nil {
		return nil, err
	}
	i, err := t.layout.axis(name, a)
	if err != nil {
		return nil, err
	}
	j, err := t.layout.axis(name, b)
	if err != nil {
		return nil, err
	}
	if i == j || t.NDim() < 2 {
		return nil, shapeErr(name, []Shape{t.Shape()}, "dimensions %d and %d are one", a, b)
	}
	l := t.layout
	rows, columns := l.shape[i], l.shape[j]
	n, stride := 0, l.strides[i]+l.strides[j]
	if offset >= 0 {
		n = max(0, min(rows, columns-offset))
	} else {
		n = max(0, min(rows+offset, columns))
	}
	if n > 0 {
		l.offset += max(offset, 0)*l.strides[j] + max(-offset, 0)*l.strides[i]
	}
	l.drop(max(i, j))
	l.drop(min(i, j))
	l.insert(l.ndim, n, stride)
	return t.handle(&l, t.exec), nil
}

// DiagEmbed makes matrices of zeros with the last dimension of t on the diagonal, moved offset columns to the right (or rows down,
// if it is negative). They are the last two dimensions of the result.
func (t *Tensor) DiagEmbed(offset int) (*Tensor, error) { return t.diagEmbed("DiagEmbed", offset) }

func (t *Tensor) diagEmbed(name string, offset int) (*Tensor, error) {
	if _, err := t.dimension(name, -1); err != nil {
		return nil, err
	}
	if t.NDim() == MaxDims {
		return nil, shapeErr(name, []Shape{t.Shape()}, "at most %d dimensions are allowed", MaxDims)
	}
	n := t.Dim(-1) + max(offset, -offset) // of which either may wrap around
	if n < t.Dim(-1) {
		return nil, shapeErr(name, []Shape{t.Shape()}, "offset %d makes a matrix larger than any", offset)
	}
	r, err := filled(name, t.exec, 0, t.dtype, append(t.Shape()[:t.NDim()-1].Clone(), n, n))
	if err != nil || t.Len() == 0 {
		return r, err
	}
	d, err := r.Diagonal(offset, -2, -1)
	if err == nil {
		err = r.write(name, &d.layout, t, &t.layout)
		d.Release()
	}
	if err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}
