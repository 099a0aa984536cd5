package nn

import (
	"fmt"
	"math"
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/tensor"
)

// KVCacheSize says what a KVCache holds.
type KVCacheSize struct {
	Layers  int // of the model; at most 4096
	Batch   int // sequences
	Heads   int // of keys and values, which may be fewer than those of queries
	MaxLen  int // positions of a sequence; at most 2147483647
	HeadDim int // elements of a head
}

// KVCache has the keys and values of the positions that a model has seen, so that a step of decoding computes those of the new ones alone. All its memory,
// 2*Layers*Batch*Heads*MaxLen*HeadDim elements, and 8*MaxLen*(Batch+1) bytes for positions, is taken when it is made: keys and values are written where
// their positions are, nothing is concatenated, and decoding takes no more memory however long it goes on. It is for graphs made with NoGrad, on the stream that the cache was made
// for, and for one goroutine at a time; of one model there may be many caches.
//
//	cache, err := nn.NewKVCache(dev, nn.KVCacheSize{Layers: 12, Batch: 1, Heads: 12, MaxLen: 1024, HeadDim: 64})
//	...
//	x = block.Attend(x, nn.Cached(cache.Layer(i)))   // a TransformerBlock, or a MultiheadAttention
//	out := cache.Layer(i).Attend(q, k, v)            // one's own attention, [B, heads, T, HeadDim]
//
// A nil cache is none, as past_key_values=None: attention is to what is there alone, with gradients if the graph has them, each position seeing itself and
// those before it as with a cache that is empty. So one Forward trains and decodes.
//
// Rows of the batch, the sequences, may be of different lengths. Prompts of different lengths go in padded at their ends, and Truncate drops what was
// padding: a position sees none that comes after it.
type KVCache struct {
	size   KVCacheSize
	exec   tensor.Exec
	dtype  tensor.DType
	layers []*KVCacheLayer
	at     cachePositions
}

// KVCacheLayer is the part of a KVCache for one layer of a model.
type KVCacheLayer struct {
	cache  *KVCache
	number int
	tables [2]*tensor.Tensor // keys and values, [batch, heads, max length, head size]; nil after Release
	rows   []int             // the length of each row; nil of a layer that the cache does not have
}

// CacheFullError is a KVCache that has no room for more positions of a row. Nothing was written.
type CacheFullError struct {
	Layer, Row  int
	Len, MaxLen int // positions that the row has, and can have
	More        int // positions that were to come
}

// Error is one line, as in "nn: KVCache: layer 0, row 1: 1020 positions and 8 more are above the greatest length, 1024".
func (e *CacheFullError) Error() string {
	return fmt.Sprintf("nn: KVCache: layer %d, row %d: %d positions and %d more are above the greatest length, %d", e.Layer, e.Row, e.Len, e.More, e.MaxLen)
}

// NewKVCache makes a cache on dev, of float32 unless DType says otherwise; it should have the type of the queries, which under autocast is that of the
// region. WithStream and WithAllocator are as for To. The caller releases it.
func NewKVCache(dev device.Device, size KVCacheSize, opts ...Option) (*KVCache, error) {
	p := placement{dtype: tensor.Float32}
	for _, o := range opts {
		if o != nil {
			o(&p)
		}
	}
	if err := size.check(); err != nil {
		return nil, err
	}
	if !p.dtype.IsFloat() {
		return nil, argumentErr("KVCache", "keys and values of %s; want a floating-point type", p.dtype)
	}
	e, err := tensor.On(dev, p.exec...)
	if err != nil {
		return nil, err
	}
	c := &KVCache{size: size, exec: e, dtype: p.dtype}
	if err := c.at.reserve(e, size.Batch, size.MaxLen); err != nil {
		c.Release()
		return nil, err
	}
	for i := 0; i < size.Layers; i++ {
		l := &KVCacheLayer{cache: c, number: i}
		c.layers = append(c.layers, l)
		for k := range l.tables {
			// Zeros: what was never written may be NaN, and a weight of 0 does not hide that.
			if l.tables[k], err = tensor.Zeros(e, p.dtype, size.Batch, size.Heads, size.MaxLen, size.HeadDim); err != nil {
				c.Release()
				return nil, err
			}
		}
		l.rows = make([]int, size.Batch) // no more than the device had memory for
	}
	return c, nil
}

// check refuses sizes that no model has, before memory of the device or of the host is taken for a part of them.
func (s KVCacheSize) check() error {
	switch {
	case min(s.Layers, s.Batch, s.Heads, s.MaxLen, s.HeadDim) < 1:
		return argumentErr("KVCache", "a size of %+v; all of it must be at least 1", s)
	case s.Layers > maxLayers:
		return argumentErr("KVCache", "%d layers; there may be 1 to %d", s.Layers, maxLayers)
	case s.MaxLen > math.MaxInt32:
		return argumentErr("KVCache", "a greatest length of %d positions; it may be 1 to %d", s.MaxLen, math.MaxInt32)
	}
	most := math.MaxInt / 16 // elements of the largest type, for keys and values
	for _, n := range []int{2, s.Layers, s.Batch, s.Heads, s.MaxLen, s.HeadDim} {
		if most /= n; most == 0 {
			return argumentErr("KVCache", "a size of %+v; it is more bytes than can be counted", s)
		}
	}
	return nil
}

// Size is what the cache was made for.
func (c *KVCache) Size() KVCacheSize {
	if c == nil {
		return KVCacheSize{}
	}
	return c.size
}

// Layer is the part for layer i of the model. Without a cache it is nil, which is no cache either; of a layer that the cache does not have any use is
// an error.
func (c *KVCache) Layer(i int) *KVCacheLayer {
	switch {
	case c == nil:
		return nil
	case i < 0 || i >= len(c.layers):
		return &KVCacheLayer{cache: c, number: i}
	}
	return c.layers[i]
}

// Lengths are how many positions of each row all layers have: after a step that failed some layers may have more, which Truncate to these drops.
func (c *KVCache) Lengths() []int {
	if c == nil || len(c.layers) == 0 {
		return nil
	}
	least := slices.Clone(c.layers[0].rows)
	for _, l := range c.layers[1:] {
		for b, n := range l.rows {
			least[b] = min(least[b], n)
		}
	}
	return least
}

// Len is the greatest of Lengths.
func (c *KVCache) Len() int {
	if lengths := c.Lengths(); len(lengths) > 0 {
		return slices.Max(lengths)
	}
	return 0
}

// Truncate drops the positions of rows from a length on: one length for all rows, or one for each. Memory stays. It is an *ArgumentError if a row is
// shorter, or a length negative; then nothing is dropped.
func (c *KVCache) Truncate(lengths ...int) error {
	if err := c.usable("Truncate"); err != nil {
		return err
	}
	have := c.Lengths()
	if len(lengths) == 1 {
		lengths = slices.Repeat(lengths, len(have))
	}
	if len(lengths) != len(have) {
		return argumentErr("KVCache", "Truncate to %d lengths of %d rows", len(lengths), len(have))
	}
	for b, n := range lengths {
		if n < 0 || n > have[b] {
			return argumentErr("KVCache", "Truncate row %d to %d positions; it has %d", b, n, have[b])
		}
	}
	for _, l := range c.layers {
		copy(l.rows, lengths)
	}
	return nil
}

// Reset makes all rows empty, for other sequences. Memory stays.
func (c *KVCache) Reset() {
	if c == nil {
		return
	}
	for _, l := range c.layers {
		clear(l.rows)
	}
}

// Reorder makes row i what row rows[i] was, for all rows, as beam search does when it goes on with other hypotheses. It takes the memory of keys or
// values of one layer for as long as it runs. After an error the cache must be Reset.
func (c *KVCache) Reorder(rows ...int) error {
	if err := c.usable("Reorder"); err != nil {
		return err
	}
	if len(rows) != c.size.Batch {
		return argumentErr("KVCache", "Reorder by %d numbers of %d rows", len(rows), c.size.Batch)
	}
	index := make([]int64, len(rows))
	same := true
	for i, b := range rows {
		if b < 0 || b >= c.size.Batch {
			return argumentErr("KVCache", "Reorder by row %d of %d", b, c.size.Batch)
		}
		index[i], same = int64(b), same && b == i
	}
	if same {
		return nil
	}
	from, err := tensor.FromSlice(c.exec.Owned(), index, len(index))
	if err != nil {
		return err
	}
	defer from.Release()
	for _, l := range c.layers {
		if err := l.reorder(from); err != nil {
			return err
		}
		before := slices.Clone(l.rows)
		for i, b := range rows {
			l.rows[i] = before[b]
		}
	}
	return nil
}

func (l *KVCacheLayer) reorder(from *tensor.Tensor) error {
	for i, t := range l.tables {
		moved, err := t.IndexSelect(0, from)
		if err != nil {
			return err
		}
		t.Release()
		l.tables[i] = moved
	}
	return nil
}

// Release gives the memory back.
func (c *KVCache) Release() {
	if c == nil {
		return
	}
	for _, l := range c.layers {
		for i, t := range l.tables {
			t.Release()
			l.tables[i] = nil
		}
		clear(l.rows)
	}
	c.at.release()
}

// String names the cache and its size.
func (c *KVCache) String() string {
	if c == nil {
		return "nil"
	}
	s := c.size
	return fmt.Sprintf("KVCache(layers=%d, batch=%d, heads=%d, max_len=%d, head_dim=%d, %s)", s.Layers, s.Batch, s.Heads, s.MaxLen, s.HeadDim, c.dtype)
}

// usable refuses a cache without memory.
func (c *KVCache) usable(use string) error {
	if c == nil || len(c.layers) == 0 {
		return argumentErr("KVCache", "%s of no cache: NewKVCache makes one", use)
	}
	if c.layers[0].tables[0] == nil {
		return argumentErr("KVCache", "%s after Release", use)
	}
	return nil
}
