package tensor

import (
	"github.com/cistern-ml/cistern/kernels/op"
)

// empty makes a result [..., H, T, size], in the memory order of [..., T, H, size].
func (p *attending) empty(name string, size int) (*Tensor, error) {
	return p.emptyOf(name, p.heads, p.queries, size)
}

func (p *attending) emptyOf(name string, heads, rows, size int) (*Tensor, error) {
	first, second := rows, heads
	if p.ndim < 4 {
		first, second = heads, rows
	}
	l, err := p.full(name, first, second, size)
	if err != nil {
		return nil, err
	}
	t, err := alloc(name, p.exec, p.dtype, &l)
	if err != nil {
		return nil, err
	}
	if p.ndim >= 4 {
		t.layout.swap(t.layout.ndim-3, t.layout.ndim-2)
	}
	if p.ndim < 3 {
		t.layout.drop(0) // one head, which no operand has as a dimension
	}
	return t, nil
}

func (p *attending) emptyLSE(name string) (*Tensor, error) {
	return alloc(name, p.exec, op.ComputeType(p.dtype), &p.rows)
}

// four is the layout of a result as four dimensions, if its strides allow that.
func (p *attending) four(t *Tensor) (layout, bool) {
	l := t.layout
	to := layout{ndim: 4}
	heads := 1
	if l.ndim > 2 {
		heads = l.shape[l.ndim-3]
	}
	to.shape = [op.MaxDims]int{p.batches, heads, l.shape[l.ndim-2], l.shape[l.ndim-1]}
	to.pack()
	return l.reshaped(&to)
}

// fours is four of several tensors of any strides.
func (p *attending) fours(name string, ts []*Tensor) (views [4]layout, err error) {
	for i, t := range ts {
		var ok bool
		if views[i], ok = p.four(t); !ok {
			return views, shapeErr(name, []Shape{t.Shape()}, "strides %v do not let the batch be one dimension", t.Strides())
		}
	}
	return views, nil
}

// shapeOf is the shape of a result or gradient: [batch..., heads, rows, size], or fewer dimensions if the operands have fewer.
func (p *attending) shapeOf(heads, rows, size int) Shape {
	b := p.batch
	s := append(append(Shape{}, b.dims()...), heads, rows, size)
	return s[len(s)-max(p.ndim, 2):]
}

// emptyMask is for the gradient of the mask.
func (p *attending) emptyMask(name string) (*Tensor, error) {
	l, err := newLayout(name, p.shapeOf(p.heads, p.queries, p.keys))
	if err != nil {
		return nil, err
	}
	return alloc(name, p.exec, p.dtype, &l)
}
