package nn

import (
	"fmt"
	"slices"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Lengths are how many positions of each row the layer has.
func (l *KVCacheLayer) Lengths() []int {
	if l == nil {
		return nil
	}
	return slices.Clone(l.rows)
}

// Append writes k and v, [batch, heads, T, head size], behind the positions that each row has, and gives all keys and values so far as views of the
// cache, [batch, heads, S, head size], where S is the length of the longest row: what lies behind the end of a shorter one must be hidden (Mask). They are
// good until the next Append, Truncate or Reorder. A full row is a *CacheFullError of the graph. Of a nil layer they are k and v.
func (l *KVCacheLayer) Append(k, v *autograd.Variable) (keys, values *autograd.Variable) {
	if l == nil {
		return k, v
	}
	g := k.Graph()
	if g == nil {
		g = v.Graph()
	}
	if g == nil {
		return nil, nil
	}
	if err := l.append(g, k, v); err != nil {
		failed := g.Refuse("kv_cache", err, k, v)
		return failed, failed
	}
	return l.seen(g, 0), l.seen(g, 1)
}

// Attend is attention of q, [batch, query heads, T, head size], to the positions of the cache and those that come with it, k and v, which it
// appends: [batch, query heads, T, head size]. Each position sees itself and those before it in its row. Fewer heads of keys than of queries are
// shared. Options are those of autograd.ScaledDotProductAttention, without masks. A nil layer has no positions, and appends nothing.
func (l *KVCacheLayer) Attend(q, k, v *autograd.Variable, opts ...autograd.AttentionOption) *autograd.Variable {
	if !q.Alive() || !k.Alive() {
		return autograd.ScaledDotProductAttention(q, k, v) // says what is wrong
	}
	if q.NDim() != 4 || k.NDim() != 4 || q.Dim(2) != k.Dim(2) || q.DType() != k.DType() {
		return q.Graph().Refuse("kv_cache", &tensor.ShapeError{Op: "KVCache", Shapes: []tensor.Shape{q.Shape().Clone(), k.Shape().Clone()},
			Detail: "want queries and keys of one type, and of four dimensions, with as many new positions"}, q, k, v)
	}
	before := l.Lengths()
	keys, values := l.Append(k, v)
	if !keys.Alive() {
		return keys
	}
	hide := autograd.CausalLowerRight()
	if mask := l.Mask(q.Graph(), q.Dim(-2)); mask != nil {
		hide = autograd.AttnMask(mask)
	}
	all := append([]autograd.AttentionOption{autograd.EnableGQA(), hide}, opts...)
	out := autograd.ScaledDotProductAttention(q, keys, values, all...)
	if l == nil {
		return out
	}
	return l.orBack(before, out)
}

// orBack is the result of attention; if there is none the positions that came with it are gone again, so that the call may be repeated.
func (l *KVCacheLayer) orBack(before []int, out *autograd.Variable) *autograd.Variable {
	if !out.Alive() {
		copy(l.rows, before)
	}
	return out
}

// Mask is what the last n positions of each row see: of type bool, [batch, 1, n, S], true where a key is seen. It is nil where all rows are of one length:
// then autograd.CausalLowerRight says the same without a mask. So it is of a nil layer.
func (l *KVCacheLayer) Mask(g *autograd.Graph, n int) *autograd.Variable {
	if g == nil || l == nil {
		return nil
	}
	if err := l.usable("Mask"); err != nil {
		return g.Refuse("kv_cache", err)
	}
	shortest, longest := slices.Min(l.rows), slices.Max(l.rows)
	if n < 0 || n > shortest {
		return g.Refuse("kv_cache", argumentErr("KVCache", "a mask of %d positions of rows of %v", n, l.rows))
	}
	if shortest == longest {
		return nil
	}
	return g.New(func(tensor.Exec) (*tensor.Tensor, error) {
		// A few keys more than there are, so that the sizes of masks do not change with every step.
		wide := min(l.cache.size.MaxLen, (longest+255)/256*256)
		at, err := l.cache.at.of(l.cache.exec, l.before(n), n)
		if err != nil {
			return nil, err
		}
		rows, err := at.Reshape(l.cache.size.Batch, 1, n, 1)
		if err != nil {
			return nil, err
		}
		defer rows.Release()
		keys, err := l.cache.at.count.Narrow(0, 0, wide)
		if err != nil {
			return nil, err
		}
		defer keys.Release()
		all, err := rows.Ge(keys)
		if err != nil {
			return nil, err
		}
		defer all.Release()
		return all.Narrow(3, 0, longest)
	})
}

// Positions are the next n positions of each row, of type int64, [batch, n], as nn.RotaryEmbedding's AtPositions and tables of learned positions take
// them. Ask before Append. Of a nil layer they are 0..n-1, [1, n], for all rows.
func (l *KVCacheLayer) Positions(g *autograd.Graph, n int) *autograd.Variable {
	if g == nil {
		return nil
	}
	if n < 0 {
		return g.Refuse("kv_cache", argumentErr("KVCache", "%d positions", n))
	}
	if l == nil {
		return g.Arange(0, float64(n), 1, tensor.Int64).Unsqueeze(0)
	}
	err := l.usable("Positions")
	if err == nil {
		err = l.onItsStream(g)
	}
	if err == nil {
		err = l.room(n)
	}
	if err != nil {
		return g.Refuse("kv_cache", err)
	}
	at, err := l.cache.at.of(l.cache.exec, l.rows, n)
	if err != nil {
		return g.Refuse("kv_cache", err)
	}
	return g.Input(at)
}

// Positions are those of the first layer: the next ones, before a step begins.
func (c *KVCache) Positions(g *autograd.Graph, n int) *autograd.Variable {
	return c.Layer(0).Positions(g, n)
}

// before are the lengths without the last n positions.
func (l *KVCacheLayer) before(n int) []int {
	rows := slices.Clone(l.rows)
	for b := range rows {
		rows[b] -= n
	}
	return rows
}

func (l *KVCacheLayer) usable(use string) error {
	if l.rows == nil {
		return argumentErr("KVCache", "%s of no layer: number %d of %d", use, l.number, l.cache.Size().Layers)
	}
	return l.cache.usable(use)
}

// append checks everything before it writes.
func (l *KVCacheLayer) append(g *autograd.Graph, k, v *autograd.Variable) error {
	if err := l.usable("Append"); err != nil {
		return err
	}
	var ts [2]*tensor.Tensor
	for i, x := range []*autograd.Variable{k, v} {
		t, err := x.Tensor()
		if err != nil {
			return err
		}
		if ts[i] = t; x.RequiresGrad() {
			return argumentErr("KVCache", "it keeps values, through which no gradients flow: use a graph with NoGrad")
		}
	}
	s := l.cache.size
	if shape := ts[0].Shape(); !shape.Equal(ts[1].Shape()) || len(shape) != 4 || shape[0] != s.Batch || shape[1] != s.Heads || shape[3] != s.HeadDim {
		return &tensor.ShapeError{Op: "KVCache", Shapes: []tensor.Shape{shape.Clone(), ts[1].Shape().Clone()},
			Detail: fmt.Sprintf("want keys and values of [%d, %d, T, %d]", s.Batch, s.Heads, s.HeadDim)}
	}
	if err := l.onItsStream(g); err != nil {
		return err
	}
	n := ts[0].Dim(2)
	if err := l.room(n); err != nil {
		return err
	}
	for i, t := range ts {
		if err := l.write(l.tables[i], t, n); err != nil {
			return err
		}
	}
	for b := range l.rows {
		l.rows[b] += n
	}
	return nil
}

// onItsStream refuses graphs of another stream, whose work the cache would have to wait for at every step.
func (l *KVCacheLayer) onItsStream(g *autograd.Graph) error {
	if s := l.cache.exec.Stream(); g.Exec().Stream() != nil && s != g.Exec().Stream() {
		return argumentErr("KVCache", "the graph works on stream %v, the cache was made for %v (nn.WithStream)", g.Exec().Stream().ID(), s.ID())
	}
	return nil
}

// room refuses more positions than a row has place for.
func (l *KVCacheLayer) room(n int) error {
	for b, length := range l.rows {
		if n > l.cache.size.MaxLen-length {
			return &CacheFullError{Layer: l.number, Row: b, Len: length, MaxLen: l.cache.size.MaxLen, More: n}
		}
	}
	return nil
}

// write writes n positions of each row into table: in one go, wherever the rows end.
func (l *KVCacheLayer) write(table, t *tensor.Tensor, n int) error {
	if n == 0 {
		return nil
	}
	if slices.Min(l.rows) == slices.Max(l.rows) {
		place, err := table.Narrow(2, l.rows[0], n)
		if err != nil {
			return err
		}
		defer place.Release()
		return place.CopyFrom(t)
	}
	at, err := l.cache.at.of(l.cache.exec, l.rows, n)
	if err != nil {
		return err
	}
	rows, err := at.Reshape(l.cache.size.Batch, 1, n, 1)
	if err != nil {
		return err
	}
	defer rows.Release()
	places, err := rows.Expand(t.Shape()...)
	if err != nil {
		return err
	}
	defer places.Release()
	same, err := t.To(table.DType())
	if err != nil {
		return err
	}
	defer same.Release()
	return table.ScatterInPlace(2, places, same)
}

// seen are all keys (0) or values (1) so far.
func (l *KVCacheLayer) seen(g *autograd.Graph, i int) *autograd.Variable {
	view, err := l.tables[i].Narrow(2, 0, slices.Max(l.rows))
	if err != nil {
		return g.Refuse("kv_cache", err)
	}
	defer view.Release()
	return g.Input(view)
}

// cachePositions are n positions behind each row, [batch, n], written once for all layers of a step. All their memory is taken with the cache's.
type cachePositions struct {
	count  *tensor.Tensor // 0, 1, ... up to the greatest length
	places *tensor.Tensor // room for as many positions of each row
	rows   []int
	n      int
	index  *tensor.Tensor // a view of one of these
}

// reserve takes the memory.
func (p *cachePositions) reserve(e tensor.Exec, batch, longest int) (err error) {
	if p.count, err = tensor.Arange(e, 0, float64(longest), 1, tensor.Int64); err != nil || batch == 1 {
		return err // one row has no neighbour of another length
	}
	p.places, err = tensor.Zeros(e, tensor.Int64, batch*longest)
	return err
}

func (p *cachePositions) of(e tensor.Exec, rows []int, n int) (*tensor.Tensor, error) {
	if p.index != nil && p.n == n && slices.Equal(p.rows, rows) {
		return p.index, nil
	}
	p.forget()
	index, err := p.behind(e, rows, n)
	if err != nil {
		return nil, err
	}
	p.rows, p.n, p.index = slices.Clone(rows), n, index
	return index, nil
}

// behind are n positions behind each row. Those of rows of one length need nothing from the host.
func (p *cachePositions) behind(e tensor.Exec, rows []int, n int) (*tensor.Tensor, error) {
	if first := slices.Min(rows); first == slices.Max(rows) {
		one, err := p.count.Narrow(0, first, n)
		if err != nil {
			return nil, err
		}
		defer one.Release()
		return one.Expand(len(rows), n)
	}
	at := make([]int64, 0, len(rows)*n)
	for _, first := range rows {
		for i := range n {
			at = append(at, int64(first+i))
		}
	}
	if !p.places.Exclusive() { // a graph that goes on has those of a step before
		return tensor.FromSlice(e, at, len(rows), n)
	}
	room, err := p.places.Narrow(0, 0, len(at))
	if err != nil {
		return nil, err
	}
	defer room.Release()
	if err := tensor.CopyFromSlice(room, at); err != nil {
		return nil, err
	}
	return room.Reshape(len(rows), n)
}

// forget lets the positions of a step go.
func (p *cachePositions) forget() {
	p.index.Release()
	p.rows, p.n, p.index = nil, 0, nil
}

func (p *cachePositions) release() {
	p.forget()
	p.count.Release()
	p.places.Release()
	*p = cachePositions{}
}
