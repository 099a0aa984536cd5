package nn

import (
	"fmt"
	"slices"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Attention to a memory whose keys and values are computed once.

// remembered attends to the memory's keys and values in the cache, which it fills if it is empty.
func (a *attending) remembered(query, memory *autograd.Variable) *autograd.Variable {
	length := a.batchFirst(memory).Dim(-2)
	q := a.heads(query, 0)
	if err := a.fits(q, length); err != nil {
		return a.g.Refuse("attention", err, query, memory)
	}
	before := slices.Clone(a.cache.Lengths())
	var keys, values *autograd.Variable
	if slices.Max(before) == 0 {
		keys, values = a.cache.Append(a.alone(a.heads(memory, 1)), a.alone(a.heads(memory, 2)))
	} else {
		keys, values = a.cache.seen(a.g, 0), a.cache.seen(a.g, 1)
	}
	if !keys.Alive() || !values.Alive() {
		return keys
	}
	a.sizes(q, q.Dim(-2), length)
	out := autograd.ScaledDotProductAttention(a.alone(q), keys, values, a.options()...)
	out = a.cache.orBack(before, out).Transpose(-3, -2).Flatten(-2, -1)
	if !a.batched {
		out = out.Squeeze(0)
	}
	return a.finish(out)
}

// heads are those of the projection of operand i, [N, heads, T, head size], or without N.
func (a *attending) heads(v *autograd.Variable, i int) *autograd.Variable {
	p := a.batchFirst(v.Linear(a.weight(i), a.bias(i, 1)))
	shape := append(p.Shape()[:max(p.NDim()-1, 0)].Clone(), a.layer.heads, a.layer.embed/max(a.layer.heads, 1))
	return p.Reshape(shape...).Transpose(-3, -2)
}

// alone gives what has no batch one.
func (a *attending) alone(v *autograd.Variable) *autograd.Variable {
	if a.batched {
		return v
	}
	return v.Unsqueeze(0)
}

// fits refuses a cache that is not for queries q and a memory of so many positions.
func (a *attending) fits(q *autograd.Variable, length int) error {
	if err := a.cache.usable("Cached"); err != nil || !q.Alive() {
		return err
	}
	if q.RequiresGrad() {
		return argumentErr("KVCache", "it keeps values, through which no gradients flow: use a graph with NoGrad")
	}
	s := a.cache.cache.size
	batch := 1
	if a.batched {
		batch = q.Dim(0)
	}
	if batch != s.Batch || q.Dim(-3) != s.Heads || q.Dim(-1) != s.HeadDim {
		return &tensor.ShapeError{Op: "KVCache", Shapes: []tensor.Shape{q.Shape().Clone()}, Detail: fmt.Sprintf("want queries of [%d, %d, T, %d]", s.Batch, s.Heads, s.HeadDim)}
	}
	for b, n := range a.cache.rows {
		if n != a.cache.rows[0] || n != 0 && n != length {
			return argumentErr("KVCache", "row %d has %d positions of a memory, and the memory has %d: Reset makes room for another one", b, n, length)
		}
	}
	return a.cache.onItsStream(a.g)
}

// layered are the options of each layer of a stack: with CachedLayers each has its own part of the cache.
func layered(what string, layers int, opts []AttendOption) (func(i int) []AttendOption, *KVCache, error) {
	var a attending
	for _, o := range opts {
		if o != nil {
			o(&a)
		}
	}
	if !a.stacked {
		if a.cache != nil && layers > 1 {
			return nil, nil, argumentErr(what, "a layer of a KVCache is for one layer, and it has %d: CachedLayers is for all of them", layers)
		}
		return func(int) []AttendOption { return opts }, nil, nil
	}
	if err := a.stack.usable("CachedLayers"); err != nil {
		return nil, nil, err
	}
	if n := len(a.stack.layers); n != layers {
		return nil, nil, argumentErr(what, "a KVCache of %d layers for %d", n, layers)
	}
	return func(i int) []AttendOption { return append(slices.Clone(opts), Cached(a.stack.Layer(i))) }, a.stack, nil
}
