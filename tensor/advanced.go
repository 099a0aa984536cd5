package tensor

import (
	"slices"

	"github.com/cistern-ml/cistern/internal/plural"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Index takes elements by several tensors of indices, as t[at[0], at[1], ...] of PyTorch and NumPy: at[k] is for dimension k, nil for all of it, and
// dimensions that none is for are taken whole. The indices, int64 or int32, broadcast to one shape, whose dimensions stand where the indexed
// ones stood, or in front if those were not neighbours. Negative ones count from the end; one outside makes the work fail on the device, which the
// next wait reports. A mask, bool, stands for as many dimensions as it has, and for the places where it is true, which are waited for.
//
// The result is a copy. For slices there are Slice, Narrow and Select.
func (t *Tensor) Index(at ...*Tensor) (*Tensor, error) {
	const name = "Index"
	if err := indexable(name, t, at); err != nil {
		return nil, err
	}
	var p parts
	x, err := p.plan(name, p.of(t), at)
	if err != nil {
		return nil, err
	}
	rows := p.do(p.do(p.do(p.of(t).Permute(x.Order...)).Reshape(x.Table...)).IndexSelect(0, x.Rows))
	return p.result(t.exec, p.do(p.do(rows.Reshape(x.Taken...)).Permute(x.Back()...)))
}

// IndexPut is t with values, broadcast, in the places that Index takes elements from; accumulate adds them to what is there, in order. Of several
// for one place the last wins otherwise. Both have one type, which to accumulate is not bool.
func (t *Tensor) IndexPut(at []*Tensor, values *Tensor, accumulate bool) (*Tensor, error) {
	const name = "IndexPut"
	if err := puttable(name, t, at, values, accumulate); err != nil {
		return nil, err
	}
	var p parts
	x, err := p.putting(name, t, at, values)
	if err != nil {
		return nil, err
	}
	return p.result(t.exec, p.put(t, &x, values, accumulate))
}

// IndexPutInPlace is IndexPut that changes t itself. Where the indices are for the first dimensions of a contiguous tensor no other elements of it are
// moved, unless integers are added.
func (t *Tensor) IndexPutInPlace(at []*Tensor, values *Tensor, accumulate bool) error {
	const name = "IndexPutInPlace"
	if err := puttable(name, t, at, values, accumulate); err != nil {
		return err
	}
	if err := t.writable(name); err != nil {
		return err
	}
	var p parts
	x, err := p.putting(name, t, at, values)
	if err != nil {
		return err
	}
	p.putInPlace(name, t, &x, values, accumulate)
	return p.release()
}

// puttable checks what can be checked of IndexPut's operands before masks are read.
func puttable(name string, t *Tensor, at []*Tensor, values *Tensor, accumulate bool) error {
	if err := indexable(name, t, at); err != nil {
		return err
	}
	if err := together(name, t, values); err != nil {
		return err
	}
	if t.dtype != values.dtype {
		return dtypeErr(name, "destination and values must have one type", t.dtype, values.dtype)
	}
	if accumulate && t.dtype == Bool {
		return dtypeErr(name, "bools are not added", t.dtype, values.dtype)
	}
	return nil
}

// putting is the plan of IndexPut, whose values fit it. After an error the computation has ended.
func (p *parts) putting(name string, t *Tensor, at []*Tensor, values *Tensor) (indexing, error) {
	x, err := p.plan(name, p.of(t), at)
	if err != nil {
		return indexing{}, err
	}
	if _, ok := values.layout.expandedTo(x.Result()); !ok {
		p.release()
		return indexing{}, shapeErr(name, []Shape{t.Shape(), values.Shape()}, "the values do not broadcast to %v", x.Result())
	}
	return x, nil
}

// expandedTo is expanded for a shape.
func (l *layout) expandedTo(shape Shape) (layout, bool) {
	to, err := newLayout("", shape)
	if err != nil {
		return layout{}, false
	}
	return l.expanded(&to)
}

// put puts values into a copy of t whose indexed dimensions are one, in front.
func (p *parts) put(t *Tensor, x *indexing, values *Tensor, accumulate bool) *Tensor {
	first := p.do(p.of(t).Permute(x.Order...))
	if first == nil {
		return nil
	}
	table := p.do(first.Reshape(x.Table...))
	shape := first.Shape().Clone()
	if table != nil && table.Len() > 0 && x.Rows.Len() > 0 {
		table = p.do(table.Reshape(x.Table[0], x.width()))
		table = p.changed(table, x.Rows, p.source(x, values), accumulate)
	}
	table = p.do(p.do(table.Reshape(shape...)).Permute(inverseOf(x.Order)...))
	if table == nil || !table.SharesStorage(t) && table.IsContiguous() {
		return table
	}
	return p.do(table.convert("IndexPut", table.dtype, table.exec))
}

// putInPlace puts values into t: into a view of it whose indexed dimensions are one, in front, or by way of a copy where there is no such view.
func (p *parts) putInPlace(name string, t *Tensor, x *indexing, values *Tensor, accumulate bool) {
	first := p.do(p.of(t).Permute(x.Order...))
	if p.err != nil || first.Len() == 0 || x.Rows.Len() == 0 {
		return
	}
	table, src := p.do(first.Reshape(x.Table[0], x.width())), p.source(x, values)
	switch at := p.rowPlaces(x.Rows, src); {
	case p.err != nil:
	case !accumulate:
		p.note(table.scatterInPlace(name, op.Scatter, 0, at, src))
	case t.dtype.IsFloat():
		p.note(table.indexAddInPlace(name, 0, x.Rows, src))
	default:
		table = p.joined(table, at, src, 0, ScatterSum, true)
	}
	if p.err != nil || table.SharesStorage(t) {
		return
	}
	if changed := p.do(table.Reshape(first.Shape()...)); p.err == nil {
		p.note(first.CopyFrom(changed))
	}
}

// source is the values of IndexPut as rows of its table.
func (p *parts) source(x *indexing, values *Tensor) *Tensor {
	src := p.do(p.do(p.of(values).Expand(x.Result()...)).Permute(x.Forth()...))
	return p.do(src.Reshape(x.Rows.Len(), x.width()))
}

// rowPlaces is an index for each element of src, by one for each of its rows.
func (p *parts) rowPlaces(rows, src *Tensor) *Tensor {
	if src == nil {
		return nil
	}
	return p.do(p.do(rows.Reshape(rows.Len(), 1)).Expand(src.Shape()...))
}

// changed is a table with other rows, or with rows added to some.
func (p *parts) changed(table, rows, src *Tensor, accumulate bool) *Tensor {
	if src == nil {
		return nil
	}
	if accumulate && table.dtype.IsFloat() {
		sum := p.do(table.convert("IndexPut", table.dtype, table.exec))
		if p.err == nil {
			p.note(sum.IndexAddInPlace(0, rows, src))
		}
		return sum
	}
	at := p.rowPlaces(rows, src)
	if accumulate {
		return p.joined(table, at, src, 0, ScatterSum, true)
	}
	return p.do(table.Scatter(0, at, src))
}

// indexing is how Index and IndexPut see a tensor: with the indexed dimensions in front, as one.
type indexing struct {
	Order []int   // of the dimensions: those that are indexed are the first
	Table []int   // the shape of t in that order, with the indexed dimensions as one
	Rows  *Tensor // which of that one
	Taken Shape   // the shape of what is taken: that of the indices, then the other dimensions
	index int     // how many dimensions the indices have
	rest  int     // how many dimensions there are besides
	at    int     // before which of these the indices' dimensions stand
}

// width is how many elements there are for each of the indices.
func (x *indexing) width() int { return max(x.Taken[len(x.Taken)-x.rest:].Len(), 1) }

// Forth brings the dimensions of the result in the order of Taken, and Back those of Taken in the order of the result.
func (x *indexing) Forth() []int { return inverseOf(x.Back()) }

// Back is the inverse of Forth.
func (x *indexing) Back() []int {
	var order []int
	for d := range x.at {
		order = append(order, x.index+d)
	}
	for d := range x.index {
		order = append(order, d)
	}
	for d := x.at; d < x.rest; d++ {
		order = append(order, x.index+d)
	}
	return order
}

// Result is the shape of the result.
func (x *indexing) Result() Shape {
	shape := Shape{}
	for _, d := range x.Back() {
		shape = append(shape, x.Taken[d])
	}
	return shape
}

// Indexing is how Index sees a tensor, for autograd. The caller releases Rows.
func (gradients) Indexing(t *Tensor, at []*Tensor) (indexing, error) {
	const name = "Index"
	if err := indexable(name, t, at); err != nil {
		return indexing{}, err
	}
	var p parts
	x, err := p.plan(name, p.of(t), at)
	if err != nil {
		return indexing{}, err
	}
	x.Rows, err = p.result(t.exec, x.Rows)
	return x, err
}

// inverseOf is the order that undoes another one.
func inverseOf(order []int) []int {
	back := make([]int, len(order))
	for i, d := range order {
		back[d] = i
	}
	return back
}

// indexable checks what can be checked before masks are read.
func indexable(name string, t *Tensor, at []*Tensor) error {
	if err := usable(name, t); err != nil {
		return err
	}
	dims, some := 0, false
	for _, idx := range at {
		if idx == nil {
			dims++
			continue
		}
		some = true
		if err := together(name, t, idx); err != nil {
			return err
		}
		switch idx.dtype {
		case Int64, Int32:
			dims++
		case Bool:
			if idx.NDim() == 0 {
				return shapeErr(name, []Shape{t.Shape(), idx.Shape()}, "a mask has at least one dimension")
			}
			if dims+idx.NDim() > t.NDim() || !t.Shape()[dims:dims+idx.NDim()].Equal(idx.Shape()) {
				return shapeErr(name, []Shape{t.Shape(), idx.Shape()}, "the mask does not have the shape of the dimensions from %d on", dims)
			}
			dims += idx.NDim()
		default:
			return dtypeErr(name, "indices are int64, int32, or bool for a mask", idx.dtype)
		}
	}
	if !some {
		return valueErr(name, "there are no indices")
	}
	if dims > t.NDim() {
		return shapeErr(name, []Shape{t.Shape()}, "there are indices for %s", plural.Of(dims, "dimension"))
	}
	return nil
}

// plan reads masks, and makes one index of several. After an error the computation has ended.
func (p *parts) plan(name string, t *Tensor, at []*Tensor) (indexing, error) {
	for _, i := range at {
		if i != nil && i.dtype == Bool {
			p.note(i.valued(name))
		}
	}
	if p.err != nil {
		return indexing{}, p.release()
	}
	idx, dims := p.unmasked(at)
	if p.err != nil {
		return indexing{}, p.release()
	}
	shape, err := shared(name, idx)
	x := indexing{Order: slices.Clone(dims), at: dims[0], index: len(shape), rest: t.NDim() - len(dims)}
	if last := dims[len(dims)-1]; last-dims[0] >= len(dims) {
		x.at = 0
	}
	n := 1
	for _, d := range dims {
		n *= t.Dim(d)
	}
	x.Table, x.Taken = []int{n}, slices.Clone(shape)
	for d := range t.NDim() {
		if !slices.Contains(dims, d) {
			x.Order = append(x.Order, d)
			x.Table, x.Taken = append(x.Table, t.Dim(d)), append(x.Taken, t.Dim(d))
		}
	}
	if err == nil {
		_, err = newLayout(name, x.Taken)
	}
	if err == nil && n == 0 && shape.Len() > 0 {
		err = shapeErr(name, []Shape{t.Shape(), shape}, "there is nothing to index")
	}
	if err != nil {
		p.release()
		return indexing{}, err
	}
	if x.Rows = p.rowsOf(t, idx, dims, shape); x.Rows == nil {
		return indexing{}, p.release()
	}
	return x, nil
}

// unmasked lists the indices, with a mask as one for each of its dimensions, and the dimension that each is for.
func (p *parts) unmasked(at []*Tensor) (idx []*Tensor, dims []int) {
	d := 0
	for _, i := range at {
		switch {
		case i == nil:
			d++
		case i.dtype != Bool:
			idx, dims = append(idx, p.of(i)), append(dims, d)
			d++
		default:
			places := p.do(i.Nonzero())
			for k := range i.NDim() {
				idx, dims = append(idx, p.do(places.Select(1, k))), append(dims, d)
				d++
			}
		}
	}
	return idx, dims
}

// shared is the shape to which indices broadcast.
func shared(name string, idx []*Tensor) (Shape, error) {
	shapes := make([]Shape, len(idx))
	for i, t := range idx {
		shapes[i] = t.Shape()
	}
	l, err := broadcastLayout(name, idx...)
	if err != nil {
		return nil, shapeErr(name, shapes, "the indices do not broadcast to one shape")
	}
	return l.dims().Clone(), nil
}

// rowsOf is the indices of several dimensions as one of dimension, in row-major order. One that is outside of its dimension becomes -1, which is
// outside of all.
func (p *parts) rowsOf(t *Tensor, idx []*Tensor, dims []int, shape Shape) *Tensor {
	var rows, wrong *Tensor
	for k, i := range idx {
		n := t.Dim(dims[k])
		own := p.fromStart(i, n)
		if len(idx) > 1 {
			out := p.do(p.do(own.LtScalar(0)).Or(p.do(own.GeScalar(float64(n)))))
			if wrong != nil {
				out = p.do(wrong.Or(out))
			}
			wrong = out
		}
		if rows != nil {
			own = p.do(p.do(rows.MulScalar(float64(n))).Add(own))
		}
		rows = own
	}
	if wrong != nil {
		rows = p.do(rows.MaskedFill(wrong, -1))
	}
	return p.do(p.do(rows.Expand(shape...)).Reshape(shape.Len()))
}
