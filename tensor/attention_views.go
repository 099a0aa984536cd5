package tensor

import (
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

// attending is one use of attention: its operands as the kernel wants them, of four dimensions.
type attending struct {
	Attention
	exec           Exec
	dtype          DType
	q, k, v, mask  *Tensor // mask is nil if there is none
	lq, lk, lv, lm layout
	batch          layout // the dimensions before heads, of which there are batches many
	batches        int
	heads, groups  int // of q, and of k and v
	queries, keys  int
	depth, width   int    // elements of a head of q and k, and of v
	rows           layout // of lse: [B, H, T]
	ndim           int    // of results; with fewer than four they are contiguous
	temps          []*Tensor
	shapes         []Shape // for errors
}

// release gives temporaries back.
func (p *attending) release() {
	for _, t := range p.temps {
		t.Release()
	}
}

// newAttending checks the operands and brings them into shape.
func newAttending(name string, q, k, v *Tensor, a Attention) (*attending, error) {
	if err := sameFloat(name, q, k, v); err != nil {
		return nil, err
	}
	p := &attending{Attention: a, exec: q.exec, dtype: q.dtype, shapes: shapesOf([]*Tensor{q, k, v})}
	if err := p.check(name, q, k, v); err != nil {
		return nil, err
	}
	if err := p.checkMask(name, q); err != nil {
		return nil, err
	}
	if p.Scale == 0 {
		p.Scale = 1 / math.Sqrt(float64(max(p.depth, 1)))
	}
	err := p.lowerRight(name)
	if err == nil {
		err = p.lay(name, q, k, v)
	}
	if err != nil {
		p.release()
		return nil, err
	}
	return p, nil
}

// lowerRight turns IsCausalLowerRight into what the kernel knows: IsCausal, nothing at all, or a mask.
//
// Whether query t sees key s depends on s-t alone. So the mask of all queries is one row of bools, as long as a step through all of s-t, which
// each query begins to read one element before the query ahead of it: a view that goes back in memory from row to row.
func (p *attending) lowerRight(name string) error {
	switch {
	case !p.IsCausalLowerRight || p.queries <= 1 || p.keys == 0:
		return nil
	case p.queries == p.keys:
		p.IsCausal = true
		return nil
	}
	row, err := trueThenFalse(p.exec.Owned(), p.keys, p.queries-1)
	if err != nil {
		return wrap(name, err)
	}
	p.temps = append(p.temps, row)
	p.mask, p.lm = row, layout{ndim: 4, offset: row.layout.offset + p.queries - 1}
	p.lm.shape = [op.MaxDims]int{p.batches, p.heads, p.queries, p.keys}
	p.lm.strides = [op.MaxDims]int{0, 0, -1, 1}
	return nil
}

// trueThenFalse is so many of each.
func trueThenFalse(e Exec, seen, hidden int) (*Tensor, error) {
	var w parts
	row := w.do(Ones(e, Bool, seen+hidden))
	if end := w.do(row.Narrow(0, seen, hidden)); w.err == nil {
		w.note(end.ZeroInPlace())
	}
	return w.result(e, row)
}

// check reads the sizes.
func (p *attending) check(name string, q, k, v *Tensor) error {
	if min(q.NDim(), k.NDim(), v.NDim()) < 2 {
		return shapeErr(name, p.shapes, "queries, keys and values have at least two dimensions")
	}
	p.queries, p.depth, p.keys, p.width = q.Dim(-2), q.Dim(-1), k.Dim(-2), v.Dim(-1)
	if k.Dim(-1) != p.depth || v.Dim(-2) != p.keys {
		return shapeErr(name, p.shapes, "want [..., T, D], [..., S, D] and [..., S, E]")
	}
	if max(p.depth, p.width) > op.MaxHead {
		return shapeErr(name, p.shapes, "heads of %d and %d elements; at most %d are allowed", p.depth, p.width, op.MaxHead)
	}
	if !(p.DropoutP >= 0 && p.DropoutP <= 1) {
		return valueErr(name, "the probability of dropout is %v; it must be in 0..1", p.DropoutP)
	}
	if math.IsNaN(p.Scale) || math.IsInf(p.Scale, 0) {
		return valueErr(name, "the scale is %v", p.Scale)
	}
	return p.checkHeads(name, q, k, v)
}

// checkHeads finds heads and batch.
func (p *attending) checkHeads(name string, q, k, v *Tensor) error {
	head := func(t *Tensor) int {
		if t.NDim() < 3 {
			return 1
		}
		return t.Dim(-3)
	}
	p.heads, p.groups = head(q), head(k)
	if p.EnableGQA {
		if q.NDim() < 3 || head(v) != p.groups || p.groups == 0 && p.heads > 0 || p.groups > 0 && p.heads%p.groups != 0 {
			return shapeErr(name, p.shapes, "%d heads of queries do not share %d of keys and %d of values", p.heads, p.groups, head(v))
		}
	} else {
		n, err := BroadcastShapes(Shape{p.heads}, Shape{p.groups}, Shape{head(v)})
		if err != nil {
			return shapeErr(name, p.shapes, "heads do not broadcast; set EnableGQA where heads of queries share keys")
		}
		p.heads, p.groups = n[0], n[0]
	}
	for _, t := range []*Tensor{q, k, v} {
		b := t.layout
		b.ndim = max(b.ndim-3, 0)
		if !p.batch.broadcast(&b) {
			return shapeErr(name, p.shapes, "batch dimensions do not broadcast")
		}
	}
	p.batches = p.batch.len()
	p.ndim = max(q.NDim(), k.NDim(), v.NDim())
	return nil
}

// lay makes the views of the kernel, and temporaries where strides do not allow them.
func (p *attending) lay(name string, q, k, v *Tensor) (err error) {
	if p.q, p.lq, err = p.laid(name, q, p.heads, p.queries, p.depth); err != nil {
		return err
	}
	if p.k, p.lk, err = p.laid(name, k, p.groups, p.keys, p.depth); err != nil {
		return err
	}
	if p.v, p.lv, err = p.laid(name, v, p.groups, p.keys, p.width); err != nil {
		return err
	}
	if p.rows, err = newLayout(name, []int{p.batches, p.heads, p.queries}); err != nil || p.Mask == nil {
		return err
	}
	return p.layMask(name)
}

// checkMask refuses a mask that does not go with the queries and keys.
func (p *attending) checkMask(name string, q *Tensor) error {
	m := p.Mask
	if p.IsCausal && p.IsCausalLowerRight {
		return valueErr(name, "IsCausal and IsCausalLowerRight, which a cache of keys and values asks for, exclude each other")
	}
	if m == nil {
		return nil
	}
	if err := together(name, q, m); err != nil {
		return err
	}
	if p.IsCausal {
		return valueErr(name, "a mask and IsCausal exclude each other")
	}
	if p.IsCausalLowerRight {
		return valueErr(name, "a mask and IsCausalLowerRight exclude each other")
	}
	if !m.dtype.IsFloat() && m.dtype != Bool {
		return dtypeErr(name, "masks are of bool or floating point", m.dtype)
	}
	to, err := p.full(name, p.heads, p.queries, p.keys)
	if err != nil {
		return err
	}
	if _, ok := m.layout.expanded(&to); !ok {
		return shapeErr(name, append(p.shapes, m.Shape()), "the mask does not broadcast to %v", to.dims())
	}
	return nil
}

// layMask takes the mask, in the type of the operands unless it is of bools.
func (p *attending) layMask(name string) error {
	m := p.Mask
	if m.dtype != Bool {
		x, err := m.as(name, p.dtype, p.exec)
		if err != nil {
			return err
		}
		if x != m {
			p.temps = append(p.temps, x)
		}
		m = x
	}
	var err error
	p.mask, p.lm, err = p.laid(name, m, p.heads, p.queries, p.keys)
	return err
}

// full is the contiguous layout [batch..., heads, rows, size].
func (p *attending) full(name string, heads, rows, size int) (layout, error) {
	b := p.batch
	dims := append(append(make([]int, 0, op.MaxDims+3), b.dims()...), heads, rows, size)
	return newLayout(name, dims)
}

// laid is t broadcast to [batch..., heads, rows, size] as four dimensions.
func (p *attending) laid(name string, t *Tensor, heads, rows, size int) (*Tensor, layout, error) {
	to, err := p.full(name, heads, rows, size)
	if err != nil {
		return nil, layout{}, err
	}
	l, ok := t.layout.expanded(&to)
	if !ok {
		return nil, layout{}, shapeErr(name, append(p.shapes, t.Shape()), "does not broadcast to %v", to.dims())
	}
	four, err := newLayout(name, []int{p.batches, heads, rows, size})
	if err != nil {
		return nil, layout{}, err
	}
	if r, ok := l.reshaped(&four); ok {
		return t, r, nil
	}
	wide := t.handle(&l, p.exec)
	defer wide.Release()
	x, err := wide.convert(name, t.dtype, p.exec)
	if err != nil {
		return nil, layout{}, err
	}
	p.temps = append(p.temps, x)
	return x, four, nil
}

// begin starts a call with the scalars of attention.
func (p *attending) begin(id op.ID) *launch {
	c := begin(id, p.exec)
	c.call.F[0], c.call.F[1] = p.Scale, p.DropoutP
	if p.IsCausal {
		c.call.I[0] = 1
	}
	return c
}

// operands adds q, k, v and the mask to a call of Attention.
func (p *attending) operands(c *launch) {
	c.in(p.q, &p.lq)
	c.in(p.k, &p.lk)
	c.in(p.v, &p.lv)
	if p.mask != nil {
		c.in(p.mask, &p.lm)
	}
}
