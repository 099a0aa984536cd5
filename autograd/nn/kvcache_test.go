package nn_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// cache makes a cache that lives until the end of the test.
func (r *rig) cache(size nn.KVCacheSize, opts ...nn.Option) *nn.KVCache {
	r.t.Helper()
	c, err := nn.NewKVCache(r.dev, size, append([]nn.Option{nn.WithAllocator(r.alloc)}, opts...)...)
	require.NoError(r.t, err)
	r.t.Cleanup(c.Release)
	return c
}

// numbers are n different numbers around 0.
func numbers(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32((i*7)%13)/6 - 1
	}
	return x
}

// twoBlocks is a decoder of two layers.
func twoBlocks(r *rig, opts ...nn.BlockOption) []*nn.TransformerBlockLayer {
	opts = append(opts, nn.FeedForward(8), nn.CausalBlock())
	blocks := []*nn.TransformerBlockLayer{nn.TransformerBlock(8, 2, opts...), nn.TransformerBlock(8, 2, opts...)}
	for i, b := range blocks {
		r.place(b, nn.Seed(uint64(i)))
		nn.Eval(b)
	}
	return blocks
}

func decode(blocks []*nn.TransformerBlockLayer, x *autograd.Variable, c *nn.KVCache, opts ...nn.AttendOption) *autograd.Variable {
	for i, b := range blocks {
		if c == nil {
			x = b.Attend(x, opts...)
		} else {
			x = b.Attend(x, append([]nn.AttendOption{nn.Cached(c.Layer(i))}, opts...)...)
		}
	}
	return x
}

func (r *rig) valuesOf(f func(g *autograd.Graph) *autograd.Variable) []float64 {
	r.t.Helper()
	g := r.graph(autograd.NoGrad())
	defer g.Release()
	v, err := f(g).Float64s()
	require.NoError(r.t, err)
	return v
}

// A sequence in chunks gives what the whole gives.
func TestKVCache_OfChunksIsTheWhole(t *testing.T) {
	for name, c := range map[string]struct {
		opts  []nn.BlockOption
		shape []int
		dim   int // of the positions
	}{
		"batch first": {[]nn.BlockOption{nn.BatchFirst(), nn.NormFirst()}, []int{2, 6, 8}, 1},
		"batch last":  {nil, []int{6, 2, 8}, 0},
		"one row":     {nil, []int{6, 8}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := onHost(t)
			blocks := twoBlocks(r, c.opts...)
			x := r.tensor(numbers(tensor.Shape(c.shape).Len()), c.shape...)
			batch := 2
			if len(c.shape) == 2 {
				batch = 1
			}
			cache := r.cache(nn.KVCacheSize{Layers: 2, Batch: batch, Heads: 2, MaxLen: 6, HeadDim: 4})
			whole := func(first, n int) []float64 {
				return r.valuesOf(func(g *autograd.Graph) *autograd.Variable {
					return decode(blocks, g.Input(x), nil).Narrow(c.dim, first, n)
				})
			}
			first := 0
			for _, n := range []int{2, 1, 2, 1} {
				got := r.valuesOf(func(g *autograd.Graph) *autograd.Variable {
					return decode(blocks, g.Input(x).Narrow(c.dim, first, n), cache)
				})
				require.InDeltaSlice(t, whole(first, n), got, 1e-5)
				first += n
				require.Equal(t, first, cache.Len())
			}
			require.NoError(t, cache.Truncate(3))
			again := r.valuesOf(func(g *autograd.Graph) *autograd.Variable {
				return decode(blocks, g.Input(x).Narrow(c.dim, 3, 3), cache)
			})
			require.InDeltaSlice(t, whole(3, 3), again, 1e-5, "after a rollback")
			cache.Reset()
			require.Zero(t, cache.Len())
			again = r.valuesOf(func(g *autograd.Graph) *autograd.Variable { return decode(blocks, g.Input(x), cache) })
			require.InDeltaSlice(t, whole(0, 6), again, 1e-5)
		})
	}
}

// Rows of two and of four positions go in padded, and then each goes on by itself: each gives what it gives alone.
func TestKVCache_RowsOfDifferentLengthsDoNotSeeEachOthersPadding(t *testing.T) {
	checkRows(t, onHost(t))
}

// The same on the emulated driver, which runs the committed PTX.
func TestKVCache_RowsOfDifferentLengthsOnAnEmulatedGPU(t *testing.T) {
	dev, _ := emulatedtest.NewPTX(t)
	checkRows(t, rigOn(t, dev))
}

func checkRows(t *testing.T, r *rig) {
	blocks := twoBlocks(r, nn.BatchFirst())
	x := r.tensor(numbers(2*8*8), 2, 8, 8)
	cache := r.cache(nn.KVCacheSize{Layers: 2, Batch: 2, Heads: 2, MaxLen: 8, HeadDim: 4})
	lengths := []int{2, 4}
	prompt := r.valuesOf(func(g *autograd.Graph) *autograd.Variable { return decode(blocks, g.Input(x).Narrow(1, 0, 4), cache) })
	require.NoError(t, cache.Truncate(lengths...))
	require.Equal(t, lengths, cache.Lengths())
	require.Equal(t, []int{4, 4}, []int{cache.Len(), cache.Layer(1).Lengths()[1]})
	// Row 0 goes on at position 2, row 1 at position 4, with two positions and then one.
	step := func(n int) []float64 {
		return r.valuesOf(func(g *autograd.Graph) *autograd.Variable {
			v, at := g.Input(x), cache.Lengths()
			rows := []*autograd.Variable{v.Narrow(0, 0, 1).Narrow(1, at[0], n), v.Narrow(0, 1, 1).Narrow(1, at[1], n)}
			return decode(blocks, autograd.Cat(rows, 0), cache)
		})
	}
	got := [][]float64{step(2), step(1)}
	require.Equal(t, []int{5, 7}, cache.Lengths())
	for b, first := range lengths {
		whole := r.valuesOf(func(g *autograd.Graph) *autograd.Variable { return decode(blocks, g.Input(x).Narrow(0, b, 1), nil) })
		require.InDeltaSlice(t, whole[:first*8], prompt[b*32:b*32+first*8], 1e-5)
		require.InDeltaSlice(t, whole[first*8:(first+2)*8], got[0][b*16:(b+1)*16], 1e-5)
		require.InDeltaSlice(t, whole[(first+2)*8:(first+3)*8], got[1][b*8:(b+1)*8], 1e-5)
	}
	// Beam search goes on with row 1 twice.
	require.NoError(t, cache.Reorder(1, 1))
	require.Equal(t, []int{7, 7}, cache.Lengths())
	twice := r.valuesOf(func(g *autograd.Graph) *autograd.Variable {
		return decode(blocks, g.Input(x).Narrow(0, 1, 1).Narrow(1, 7, 1).Expand(2, 1, 8), cache)
	})
	whole := r.valuesOf(func(g *autograd.Graph) *autograd.Variable { return decode(blocks, g.Input(x).Narrow(0, 1, 1), nil) })
	require.InDeltaSlice(t, whole[56:], twice[:8], 1e-5)
	require.Equal(t, twice[:8], twice[8:])
}

// A mask of padding at the front, as tokenizers that pad on the left give, hides keys of the cache too.
func TestKVCache_JoinsMasks(t *testing.T) {
	r := onHost(t)
	l := nn.MultiheadAttention(8, 2, nn.BatchFirst())
	r.place(l, nn.Seed(1))
	x := r.tensor(numbers(5*8), 1, 5, 8)
	cache := r.cache(nn.KVCacheSize{Layers: 1, Batch: 1, Heads: 2, MaxLen: 5, HeadDim: 4})
	padded := func(g *autograd.Graph, n int) nn.AttendOption {
		return nn.KeyPaddingMask(autograd.FromSlice(g, []bool{true, false, false, false, false}[:n], 1, n))
	}
	whole := r.valuesOf(func(g *autograd.Graph) *autograd.Variable {
		v := g.Input(x).Narrow(1, 1, 4)
		return l.Attend(v, v, v, nn.IsCausal())
	})
	var got []float64
	for _, at := range [][2]int{{0, 3}, {3, 1}, {4, 1}} {
		got = append(got, r.valuesOf(func(g *autograd.Graph) *autograd.Variable {
			v := g.Input(x).Narrow(1, at[0], at[1])
			return l.Attend(v, v, v, nn.Cached(cache.Layer(0)), padded(g, at[0]+at[1]))
		})...)
	}
	require.InDeltaSlice(t, whole, got[8:], 1e-5)
}

// One's own attention, whose queries share keys and turn by their positions, on rows of different lengths.
func TestKVCacheLayer_AttendsByHand(t *testing.T) {
	r := onHost(t)
	rope := nn.RotaryEmbedding(4, 8)
	r.place(rope)
	q, k := r.tensor(numbers(2*4*6*4), 2, 4, 6, 4), r.tensor(numbers(2*2*6*4), 2, 2, 6, 4)
	cache := r.cache(nn.KVCacheSize{Layers: 1, Batch: 2, Heads: 2, MaxLen: 6, HeadDim: 4})
	layer := cache.Layer(0)
	part := func(v *autograd.Variable, at []int, n int) *autograd.Variable {
		return autograd.Cat([]*autograd.Variable{v.Narrow(0, 0, 1).Narrow(2, at[0], n), v.Narrow(0, 1, 1).Narrow(2, at[1], n)}, 0)
	}
	positions := func(n int) []float64 {
		return r.valuesOf(func(g *autograd.Graph) *autograd.Variable { return cache.Positions(g, n) })
	}
	run := func(n int) []float64 {
		return r.valuesOf(func(g *autograd.Graph) *autograd.Variable {
			at, positions := layer.Lengths(), cache.Positions(g, n)
			k := part(g.Input(k), at, n)
			return layer.Attend(rope.AtPositions(part(g.Input(q), at, n), positions), rope.AtPositions(k, positions), k, autograd.AttnScale(0.3))
		})
	}
	run(4)
	require.Equal(t, []float64{4, 5, 4, 5}, positions(2))
	require.NoError(t, cache.Truncate(3, 4))
	require.Equal(t, []float64{3, 4, 4, 5}, positions(2))
	got := run(2)
	for b, first := range []int{3, 4} {
		whole := r.valuesOf(func(g *autograd.Graph) *autograd.Variable {
			q, k := g.Input(q).Narrow(0, b, 1), g.Input(k).Narrow(0, b, 1)
			out := autograd.ScaledDotProductAttention(rope.Forward(q), rope.Forward(k), k, autograd.IsCausal(), autograd.EnableGQA(), autograd.AttnScale(0.3))
			return out.Narrow(2, first, 2)
		})
		require.InDeltaSlice(t, whole, got[b*32:(b+1)*32], 1e-5)
	}
}

// One Forward, as models are written, with a cache and without: None of PyTorch.
func TestKVCache_NilIsNoCache(t *testing.T) {
	r := onHost(t)
	blocks := twoBlocks(r, nn.BatchFirst())
	rope := nn.RotaryEmbedding(8, 8)
	r.place(rope)
	x, heads := r.tensor(numbers(2*5*8), 2, 5, 8), r.tensor(numbers(2*4*5*8), 2, 4, 5, 8)
	empty := func() *nn.KVCache {
		return r.cache(nn.KVCacheSize{Layers: 2, Batch: 2, Heads: 2, MaxLen: 5, HeadDim: 4})
	}
	model := func(c *nn.KVCache) []float64 {
		return r.valuesOf(func(g *autograd.Graph) *autograd.Variable {
			v := rope.AtPositions(g.Input(x), c.Positions(g, 5))
			for i, b := range blocks {
				v = b.SelfAttn.Attend(v, v, v, nn.Cached(c.Layer(i)))
			}
			return v
		})
	}
	require.Equal(t, model(empty()), model(nil))
	one := func(c *nn.KVCache) []float64 {
		return r.valuesOf(func(g *autograd.Graph) *autograd.Variable {
			q := g.Input(heads).Narrow(3, 0, 4)
			return c.Layer(0).Attend(q, q.Narrow(1, 0, 2), q.Narrow(1, 2, 2), autograd.AttnScale(0.3))
		})
	}
	require.Equal(t, one(empty()), one(nil))

	var none *nn.KVCache
	g := r.graph()
	defer g.Release()
	v := g.Input(x, autograd.RequiresGrad())
	encoder := nn.TransformerEncoder(nil, blocks...)
	loss := encoder.Attend(v, nn.Cached(none.Layer(1))).Sum(nil, false)
	require.NoError(t, loss.Backward())
	require.NotNil(t, v.Grad(), "gradients flow")
	k, w := none.Layer(0).Append(v, v)
	require.True(t, k == v && w == v)
	require.Nil(t, none.Layer(0).Mask(g, 5))
	require.Empty(t, none.Layer(0).Lengths())
	require.Equal(t, tensor.Shape{1, 5}, none.Positions(g, 5).Shape())
	require.NoError(t, g.Err())
}

// The weights of attention are of queries and keys that are there.
func TestMultiheadAttention_WeightsRefuseACache(t *testing.T) {
	r := onHost(t)
	l := nn.MultiheadAttention(8, 2, nn.BatchFirst())
	r.place(l, nn.Seed(1))
	cache := r.cache(nn.KVCacheSize{Layers: 1, Batch: 1, Heads: 2, MaxLen: 5, HeadDim: 4})
	x := r.tensor(numbers(5*8), 1, 5, 8)
	weights := func(opt nn.AttendOption) (*autograd.Variable, error) {
		g := r.graph(autograd.NoGrad())
		t.Cleanup(g.Release)
		v := g.Input(x)
		_, w := l.AttendWeights(v, v, v, true, opt)
		return w, g.Err()
	}
	_, err := weights(nn.Cached(cache.Layer(0)))
	var argument *nn.ArgumentError
	require.ErrorAs(t, err, &argument)
	require.ErrorContains(t, err, "AttendWeights takes no KVCache")
	causal, err := weights(nn.IsCausal())
	require.NoError(t, err)
	cached, err := weights(nn.Cached(nil))
	require.NoError(t, err)
	want, err := causal.Float64s()
	require.NoError(t, err)
	got, err := cached.Float64s()
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestKVCache_CountsItsMemoryToTheByte(t *testing.T) {
	r := onSim(t)
	size := nn.KVCacheSize{Layers: 3, Batch: 2, Heads: 4, MaxLen: 64, HeadDim: 8}
	c, err := nn.NewKVCache(r.dev, size, nn.WithAllocator(r.alloc), nn.DType(tensor.BFloat16))
	require.NoError(t, err)
	const all = 2*3*2*4*64*8*2 + 8*64*(2+1)
	require.EqualValues(t, all, r.allocated())
	require.Equal(t, size, c.Size())
	require.Equal(t, "KVCache(layers=3, batch=2, heads=4, max_len=64, head_dim=8, bfloat16)", c.String())
	require.NoError(t, c.Reorder(1, 0))
	require.EqualValues(t, all, r.allocated())
	c.Release()
	require.Zero(t, r.allocated())
	c.Release()
	require.ErrorContains(t, c.Truncate(0), "after Release")
	require.ErrorContains(t, c.Reorder(0, 1), "after Release")
}

func TestKVCache_RefusesSizesBeyondTheDevicesMemory(t *testing.T) {
	r := onSim(t)
	for _, size := range []nn.KVCacheSize{{1, 1 << 40, 1, 1, 1}, {math.MaxInt, 1 << 10, 1, 1 << 10, 8}, {1, math.MaxInt, 1, 1, 1}} {
		_, err := nn.NewKVCache(r.dev, size, nn.WithAllocator(r.alloc))
		require.Error(t, err, "%+v", size)
	}
}

// Sizes that no model has are refused before any memory is taken, each and their product.
func TestKVCache_RefusesSizesThatNoModelHas(t *testing.T) {
	r := onSim(t)
	for want, size := range map[string]nn.KVCacheSize{
		"nn: KVCache: 9223372036854775807 layers; there may be 1 to 4096":                            {math.MaxInt, 1, 1, 1, 1},
		"nn: KVCache: 4097 layers; there may be 1 to 4096":                                           {4097, 1, 1, 1, 1},
		"nn: KVCache: a greatest length of 9223372036854775807 positions; it may be 1 to 2147483647": {1, 1, 1, math.MaxInt, 1},
		"nn: KVCache: a size of {Layers:1 Batch:9223372036854775807 Heads:1 MaxLen:1 HeadDim:1}; ":   {1, math.MaxInt, 1, 1, 1},
		"Heads:9223372036854775807 MaxLen:1 HeadDim:1}; it is more bytes than can be counted":        {1, 1, math.MaxInt, 1, 1},
		"HeadDim:4611686018427387904}; it is more bytes than can be counted":                         {1, 1, 1, 1, 1 << 62},
		"MaxLen:1048576 HeadDim:1048576}; it is more bytes than can be counted":                      {1 << 10, 1 << 10, 1, 1 << 20, 1 << 20},
	} {
		_, err := nn.NewKVCache(r.dev, size, nn.WithAllocator(r.alloc))
		var argument *nn.ArgumentError
		require.ErrorAs(t, err, &argument)
		require.ErrorContains(t, err, want)
		require.Equal(t, "KVCache", argument.What)
	}
	r.cache(nn.KVCacheSize{Layers: 4096, Batch: 1, Heads: 1, MaxLen: 1, HeadDim: 1})
	_, err := nn.NewKVCache(r.dev, nn.KVCacheSize{1, 1, 1, math.MaxInt32, 1}, nn.WithAllocator(r.alloc))
	require.ErrorIs(t, err, memory.ErrOutOfMemory)
}

func TestKVCache_RefusesWhatDoesNotFit_AndChangesNothing(t *testing.T) {
	r := onHost(t)
	blocks := twoBlocks(r, nn.BatchFirst())
	cache := r.cache(nn.KVCacheSize{Layers: 2, Batch: 2, Heads: 2, MaxLen: 4, HeadDim: 4})
	x := r.tensor(numbers(2*3*8), 2, 3, 8)
	heads := r.tensor(numbers(2*2*3*4), 2, 2, 3, 4)
	r.valuesOf(func(g *autograd.Graph) *autograd.Variable { return decode(blocks, g.Input(x), cache) })
	before := r.allocated()
	refused := func(f func(g *autograd.Graph), opts ...autograd.Option) error {
		g := r.graph(opts...)
		defer g.Release()
		f(g)
		return g.Err()
	}
	var full *nn.CacheFullError
	err := refused(func(g *autograd.Graph) { decode(blocks, g.Input(x), cache) }, autograd.NoGrad())
	require.ErrorAs(t, err, &full)
	require.Equal(t, nn.CacheFullError{Layer: 0, Row: 0, Len: 3, MaxLen: 4, More: 3}, *full)
	require.ErrorContains(t, err, "layer 0, row 0: 3 positions and 3 more are above the greatest length, 4")
	require.ErrorAs(t, refused(func(g *autograd.Graph) { cache.Positions(g, 2) }), &full)

	// One layer's cache is not that of several.
	encoder := nn.TransformerEncoder(nil, blocks...)
	err = refused(func(g *autograd.Graph) { encoder.Attend(g.Input(x), nn.Cached(cache.Layer(1))) }, autograd.NoGrad())
	require.ErrorContains(t, err, "a layer of a KVCache is for one layer, and it has 2: CachedLayers is for all of them")

	// Attention that is refused takes back what was appended for it.
	for _, opts := range [][]autograd.AttentionOption{{autograd.IsCausal()}, nil} {
		err := refused(func(g *autograd.Graph) {
			q := g.Input(heads).Narrow(2, 0, 1)
			k := q
			if opts == nil {
				q = autograd.Cat([]*autograd.Variable{q, q.Narrow(1, 0, 1)}, 1) // 3 heads do not share 2
			}
			cache.Layer(0).Attend(q, k, k, opts...)
		}, autograd.NoGrad())
		require.Error(t, err)
		require.Equal(t, []int{3, 3}, cache.Layer(0).Lengths())
	}
	err = refused(func(g *autograd.Graph) {
		mask := g.Zeros(tensor.Bool, 2, 7)
		blocks[0].Attend(g.Input(x).Narrow(1, 0, 1), nn.Cached(cache.Layer(0)), nn.KeyPaddingMask(mask))
	}, autograd.NoGrad())
	require.Error(t, err)
	require.Equal(t, []int{3, 3}, cache.Layer(0).Lengths())

	var argument *nn.ArgumentError
	var shape *tensor.ShapeError
	other, err := r.dev.NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	one := func(g *autograd.Graph) *autograd.Variable { return g.Input(heads).Narrow(2, 0, 1) }
	for name, c := range map[string]struct {
		f    func(g *autograd.Graph)
		want any
		opts []autograd.Option
	}{
		"no gradients flow": {func(g *autograd.Graph) { decode(blocks, g.Input(x).Narrow(1, 0, 1), cache) }, &argument, nil},
		"of no layer":       {func(g *autograd.Graph) { cache.Layer(2).Append(one(g), one(g)) }, &argument, nil},
		"Mask of no layer":  {func(g *autograd.Graph) { cache.Layer(-1).Mask(g, 1) }, &argument, nil},
		"a mask of 4":       {func(g *autograd.Graph) { cache.Layer(0).Mask(g, 4) }, &argument, nil},
		"-1 positions":      {func(g *autograd.Graph) { cache.Positions(g, -1) }, &argument, nil},
		"of [2, 2, T, 4]":   {func(g *autograd.Graph) { cache.Layer(0).Append(one(g), one(g).Narrow(0, 0, 1)) }, &shape, nil},
		"the graph works on stream": {func(g *autograd.Graph) { cache.Layer(0).Append(one(g), one(g)) }, &argument,
			[]autograd.Option{autograd.WithStream(other)}},
		"of a variable to itself": {func(g *autograd.Graph) {
			v := g.Input(x)
			blocks[0].SelfAttn.Attend(v, v, v.Neg(), nn.Cached(cache.Layer(0)))
		}, &argument, nil},
		"Append of no layer":                   {func(g *autograd.Graph) { decode(blocks, g.Input(x).Narrow(1, 0, 1), new(nn.KVCache)) }, &argument, []autograd.Option{autograd.NoGrad()}},
		"Positions of no layer: number 7 of 2": {func(g *autograd.Graph) { cache.Layer(7).Positions(g, 1) }, &argument, nil},
		"nil":                                  {func(g *autograd.Graph) { cache.Layer(0).Append(one(g), nil) }, nil, nil},
		"nil variable":                         {func(g *autograd.Graph) { cache.Layer(0).Attend(nil, one(g), one(g)) }, nil, nil},
		"as many new":                          {func(g *autograd.Graph) { cache.Layer(0).Attend(g.Input(heads), one(g), one(g)) }, &shape, nil},
	} {
		err := refused(c.f, c.opts...)
		require.ErrorContains(t, err, name)
		if c.want != nil {
			require.ErrorAs(t, err, c.want, name)
		}
	}
	require.Equal(t, before, r.allocated())
	require.Equal(t, []int{3, 3}, cache.Layer(0).Lengths())
	cache.Reset()
	for name, err := range map[string]error{
		"Truncate row 0 to 1 positions; it has 0": cache.Truncate(1), "to -1": cache.Truncate(-1), "3 lengths of 2": cache.Truncate(0, 0, 0),
		"row 2 of 2": cache.Reorder(0, 2), "1 numbers of 2": cache.Reorder(0),
		"NewKVCache makes one": (*nn.KVCache)(nil).Truncate(0),
	} {
		require.ErrorContains(t, err, name)
		require.True(t, errors.As(err, &argument))
	}
	for _, size := range []nn.KVCacheSize{{}, {Layers: 1, Batch: 1, Heads: 1, MaxLen: 1}} {
		_, err := nn.NewKVCache(r.dev, size)
		require.ErrorAs(t, err, &argument)
	}
	_, err = nn.NewKVCache(r.dev, nn.KVCacheSize{1, 1, 1, 1, 1}, nn.DType(tensor.Int64))
	require.ErrorAs(t, err, &argument)
	_, err = nn.NewKVCache(r.dev, nn.KVCacheSize{1 << 20, 1, 1, 1 << 30, 1 << 10}, nn.WithAllocator(r.alloc))
	require.Error(t, err)
	require.Equal(t, before, r.allocated())
}

// 1,500 tokens, one by one, from rows of different lengths: after the first steps the driver is not asked for memory any more.
func TestKVCache_DecodingTakesNoMemoryFromTheDriver(t *testing.T) {
	steps := 1500
	if testing.Short() {
		steps = 150
	}
	for name, on := range map[string]func(t *testing.T) *rig{"host": onHost, "simulated": onSim} {
		for _, short := range []int{0, 3} {
			t.Run(name, func(t *testing.T) {
				r := on(t)
				blocks := twoBlocks(r, nn.BatchFirst())
				rope := nn.RotaryEmbedding(8, 1600)
				r.place(rope)
				cache := r.cache(nn.KVCacheSize{Layers: 2, Batch: 2, Heads: 2, MaxLen: 1600, HeadDim: 4})
				x := r.tensor(numbers(2*8*8), 2, 8, 8)
				step := func(n int) {
					g := r.graph(autograd.NoGrad())
					defer g.Release()
					positions := cache.Positions(g, n)
					decode(blocks, rope.AtPositions(g.Input(x).Narrow(1, 0, n), positions), cache)
					require.NoError(t, g.Err())
				}
				step(8)
				require.NoError(t, cache.Truncate(8-short, 8))
				for range 3 {
					step(1)
				}
				warm := r.alloc.Stats()
				for range steps {
					step(1)
				}
				after := r.alloc.Stats()
				require.Equal(t, steps+11, cache.Len())
				require.Equal(t, warm.NumDeviceAlloc, after.NumDeviceAlloc)
				require.Equal(t, warm.Segment.All.Current, after.Segment.All.Current)
				require.Equal(t, warm.ReservedBytes.All.Peak, after.ReservedBytes.All.Peak)
				require.Equal(t, warm.AllocatedBytes.All.Current, after.AllocatedBytes.All.Current)
			})
		}
	}
}

// Positions of rows of one length and of several, for a prompt and for each token: all of them lie in what the cache took when it was made.
func TestKVCache_PositionsTakeNoMemory(t *testing.T) {
	r := onHost(t)
	cache := r.cache(nn.KVCacheSize{Layers: 1, Batch: 2, Heads: 1, MaxLen: 8, HeadDim: 4})
	heads := r.tensor(numbers(2*3*4), 2, 1, 3, 4)
	blocks := func() int64 { return r.alloc.Stats().Allocation.All.Allocated }
	step := func(n int, want ...float64) {
		before := blocks()
		g := r.graph(autograd.NoGrad())
		defer g.Release()
		at := cache.Positions(g, n)
		require.Equal(t, before, blocks())
		got, err := at.Float64s()
		require.NoError(t, err)
		require.Equal(t, want, got)
		k := g.Input(heads).Narrow(2, 0, n)
		cache.Layer(0).Append(k, k)
		require.NoError(t, g.Err())
	}
	step(3, 0, 1, 2, 0, 1, 2)
	require.NoError(t, cache.Truncate(1, 3))
	step(2, 1, 2, 3, 4)
	step(1, 3, 5)
	step(1, 4, 6)
}

// A graph that goes on keeps the positions that it has.
func TestKVCache_PositionsOfAnEarlierStepStay(t *testing.T) {
	r := onHost(t)
	cache := r.cache(nn.KVCacheSize{Layers: 1, Batch: 2, Heads: 1, MaxLen: 8, HeadDim: 4})
	heads := r.tensor(numbers(2*3*4), 2, 1, 3, 4)
	g := r.graph(autograd.NoGrad())
	defer g.Release()
	k := g.Input(heads)
	cache.Layer(0).Append(k, k)
	require.NoError(t, cache.Truncate(1, 3))
	first := cache.Positions(g, 1)
	cache.Layer(0).Append(k.Narrow(2, 0, 1), k.Narrow(2, 0, 1))
	second := cache.Positions(g, 1)
	for v, want := range map[*autograd.Variable][]float64{first: {1, 3}, second: {2, 4}} {
		got, err := v.Float64s()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// What the cache is for: keys and values that grow by concatenation take new sizes at every step, and the blocks of the steps before do not fit.
func TestConcatenation_ReservesFarMoreThanIsLive(t *testing.T) {
	r := onSim(t)
	const layers, steps = 4, 400
	var tables [2 * layers]*tensor.Tensor
	step := r.tensor(numbers(8*64*2), 1, 8, 2, 64)
	for i := range tables {
		tables[i] = step.Retain()
	}
	for range steps {
		for i, before := range tables {
			longer, err := tensor.Cat([]*tensor.Tensor{before, step}, 2)
			require.NoError(t, err)
			before.Release()
			tables[i] = longer
		}
	}
	s := r.alloc.Stats()
	live, reserved := s.AllocatedBytes.All.Current, s.ReservedBytes.All.Current
	for _, x := range tables {
		x.Release()
	}
	t.Logf("live %d MiB, reserved %d MiB", live>>20, reserved>>20)
	require.Greater(t, reserved, 2*live)
}
