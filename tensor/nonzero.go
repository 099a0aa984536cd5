package tensor

// The results of the functions in this file are as large as values say: each waits for the device once, to learn it. On a simulated device, which has
// no values, they fail with a *ValuesError.

// Nonzero is where the elements are that are not 0: int64 and [count, dimensions of t], in row-major order. It waits for the device.
func (t *Tensor) Nonzero() (*Tensor, error) {
	const name = "Nonzero"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if err := t.valued(name); err != nil {
		return nil, err
	}
	var p parts
	flat := p.nonzero(p.of(t))
	if flat == nil {
		return nil, p.release()
	}
	places := make([]*Tensor, t.NDim())
	stride := 1
	for d := t.NDim() - 1; d >= 0; d-- {
		places[d] = p.along(flat, stride, t.Dim(d))
		stride *= max(t.Dim(d), 1)
	}
	if len(places) == 0 {
		return p.result(t.exec, p.do(Empty(t.exec.Owned(), Int64, flat.Len(), 0)))
	}
	return p.result(t.exec, p.do(Stack(places, 1)))
}

// along is what places in row-major order are along a dimension of n elements. float64 holds them: there is no memory for 2^53 elements.
func (p *parts) along(flat *Tensor, stride, n int) *Tensor {
	wide := p.do(flat.To(Float64))
	whole := p.do(p.do(wide.DivScalar(float64(stride))).Floor())
	return p.do(p.do(whole.RemainderScalar(float64(n))).To(Int64))
}

// MaskedSelect is the elements of t where mask, which is bool, is true, in row-major order: of one dimension. The two broadcast. It waits for
// the device.
func (t *Tensor) MaskedSelect(mask *Tensor) (*Tensor, error) {
	const name = "MaskedSelect"
	if err := together(name, t, mask); err != nil {
		return nil, err
	}
	if mask.dtype != Bool {
		return nil, dtypeErr(name, "the mask must be bool", t.dtype, mask.dtype)
	}
	l, err := broadcastLayout(name, t, mask)
	if err != nil {
		return nil, err
	}
	if err := mask.valued(name); err != nil {
		return nil, err
	}
	var p parts
	flat := p.nonzero(p.do(p.of(mask).Expand(l.dims()...)))
	x := p.do(p.do(p.of(t).Expand(l.dims()...)).Reshape(l.len()))
	return p.result(t.exec, p.do(x.IndexSelect(0, flat)))
}

// nonzero is the places, in row-major order, of the elements that are not 0. Each such element goes to the place that its number among them
// says, all others behind the last of these. It waits.
func (p *parts) nonzero(t *Tensor) *Tensor {
	if t.Len() == 0 {
		return p.do(Empty(t.Exec(), Int64, 0))
	}
	flags := p.do(p.do(t.NeScalar(0)).Reshape(t.Len()))
	ends := p.do(flags.CumSum(0))
	if p.err != nil {
		return nil
	}
	count := p.read(p.do(ends.Narrow(0, t.Len()-1, 1)))
	rest := p.do(Scalar(t.exec, float64(count), Int64))
	slots := p.do(Where(flags, p.do(ends.SubScalar(1)), rest))
	places := p.do(Zeros(t.exec, Int64, count+1))
	line := p.do(Arange(t.exec, 0, float64(t.Len()), 1, Int64))
	if p.err == nil {
		p.note(places.ScatterInPlace(0, slots, line))
	}
	return p.do(places.Narrow(0, 0, count))
}

// read waits for the whole number that t holds.
func (p *parts) read(t *Tensor) int {
	v, err := t.Item()
	p.note(err)
	return int(v)
}

// Unique is the different elements of t, in ascending order and of one dimension; for each element of t, in its shape, which of them it is; and
// how often each occurs. The latter two are int64. Each NaN is different from all others. It waits for the device. The caller releases all
// results.
func (t *Tensor) Unique() (values, inverse, counts *Tensor, err error) {
	const name = "Unique"
	if err := usable(name, t); err != nil {
		return nil, nil, nil, err
	}
	if err := t.valued(name); err != nil {
		return nil, nil, nil, err
	}
	var p parts
	v, i, c := p.unique(p.of(t))
	if err := p.err; err != nil {
		p.release()
		return nil, nil, nil, err
	}
	values, inverse, counts = v.On(t.exec), i.On(t.exec), c.On(t.exec)
	return values, inverse, counts, p.release()
}

// unique sorts: a run of equal elements begins where an element differs from the one before.
func (p *parts) unique(t *Tensor) (values, inverse, counts *Tensor) {
	n, e := t.Len(), t.exec
	if n == 0 {
		return p.do(t.Reshape(0)), p.do(Empty(e, Int64, t.Shape()...)), p.do(Empty(e, Int64, 0))
	}
	sorted, order := p.both(p.do(t.Reshape(n)).Sort(0, false))
	differ := p.do(p.do(sorted.Narrow(0, 1, n-1)).Ne(p.do(sorted.Narrow(0, 0, n-1))))
	begins := p.do(Cat([]*Tensor{p.do(Ones(e, Bool, 1)), differ}, 0))
	if p.err != nil {
		return nil, nil, nil
	}
	starts := p.nonzero(begins)
	values = p.do(sorted.IndexSelect(0, starts))
	run := p.do(p.do(begins.CumSum(0)).SubScalar(1))
	inverse = p.do(p.do(run.Scatter(0, order, run)).Reshape(t.Shape()...))
	if p.err != nil {
		return nil, nil, nil
	}
	ends := p.do(Cat([]*Tensor{p.do(starts.Slice(0, 1, End, 1)), p.do(Full(e, float64(n), Int64, 1))}, 0))
	return values, inverse, p.do(ends.Sub(starts))
}

// BinCount is how often each of 0, 1, 2 and so on is an element of t, of one dimension and int64, int32 or uint8: int64, and as long as the greatest
// element needs, or minLength if that is more. With weights, of t's shape, it is the sums of those of each element's weight: float32 if they are,
// else float64; nil for none. It waits for the device, and refuses negative elements.
func (t *Tensor) BinCount(weights *Tensor, minLength int) (*Tensor, error) {
	const name = "BinCount"
	if err := countable(name, t, weights, minLength); err != nil {
		return nil, err
	}
	if err := t.valued(name); err != nil {
		return nil, err
	}
	dt := Float64
	if weights != nil && weights.dtype == Float32 {
		dt = Float32
	}
	var p parts
	if t.Len() == 0 {
		return Zeros(t.exec, Int64, minLength)
	}
	at := p.do(p.of(t).To(Int64))
	length, err := p.bins(name, at, minLength)
	if err != nil {
		return nil, err
	}
	sums := p.do(Zeros(t.exec.Owned(), dt, length))
	if p.err != nil {
		return nil, p.release()
	}
	var shares *Tensor
	if weights != nil {
		shares = p.do(p.of(weights).To(dt))
	} else {
		shares = p.do(Ones(t.exec.Owned(), dt, t.Len()))
	}
	if p.err == nil {
		p.note(sums.IndexAddInPlace(0, at, shares))
	}
	if weights != nil {
		return p.result(t.exec, sums)
	}
	return p.result(t.exec, p.do(sums.To(Int64)))
}

func countable(name string, t, weights *Tensor, minLength int) error {
	if err := usable(name, t); err != nil {
		return err
	}
	switch {
	case t.dtype != Int64 && t.dtype != Int32 && t.dtype != Uint8:
		return dtypeErr(name, "elements are int64, int32 or uint8", t.dtype)
	case t.NDim() != 1:
		return shapeErr(name, []Shape{t.Shape()}, "it takes one dimension")
	case minLength < 0:
		return valueErr(name, "the least length is %d; it must not be negative", minLength)
	case weights == nil:
		return nil
	}
	if err := together(name, t, weights); err != nil {
		return err
	}
	if !weights.Shape().Equal(t.Shape()) {
		return shapeErr(name, []Shape{t.Shape(), weights.Shape()}, "each element has a weight")
	}
	return nil
}

// bins is how many bins elements need. It waits. After an error the computation has ended.
func (p *parts) bins(name string, at *Tensor, least int) (int, error) {
	ends := p.do(Stack([]*Tensor{p.do(at.Min(nil, false)), p.do(at.Max(nil, false))}, 0))
	if p.err != nil {
		return 0, p.release()
	}
	v, err := ToSlice[int64](ends)
	if err == nil && v[0] < 0 {
		err = valueErr(name, "an element is %d; none may be negative", v[0])
	}
	if err == nil {
		_, err = newLayout(name, []int{int(v[1])})
	}
	if err != nil {
		p.release()
		return 0, err
	}
	return max(least, int(v[1])+1), nil
}
