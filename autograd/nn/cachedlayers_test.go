package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// cachedDecoder is a decoder of three layers with caches for sequences of 2 rows, and what it decodes.
type cachedDecoder struct {
	*rig
	m                   *nn.TransformerModule
	positions, memories *nn.KVCache
	batched             bool
	dim                 int // of the positions
}

func newCachedDecoder(r *rig, batch, length, memory int, opts ...nn.BlockOption) *cachedDecoder {
	d := &cachedDecoder{rig: r, m: nn.Transformer(8, 2, 1, 3, append(opts, nn.FeedForward(8), nn.CausalBlock())...), batched: batch > 0, dim: 0}
	r.place(d.m, nn.Seed(3))
	nn.Eval(d.m)
	size := nn.KVCacheSize{Layers: 3, Batch: max(batch, 1), Heads: 2, MaxLen: length, HeadDim: 4}
	d.positions = r.cache(size)
	size.MaxLen = memory
	d.memories = r.cache(size)
	return d
}

func (d *cachedDecoder) shape(n int) []int {
	switch {
	case !d.batched:
		return []int{n, 8}
	case d.dim == 1:
		return []int{2, n, 8}
	}
	return []int{n, 2, 8}
}

// cached are the options of both attentions.
func (d *cachedDecoder) cached(more ...nn.AttendOption) (self, cross []nn.AttendOption) {
	return []nn.AttendOption{nn.CachedLayers(d.positions)}, append(more, nn.CachedLayers(d.memories))
}

func TestCachedLayers_StepsAreTheWhole(t *testing.T) {
	for name, c := range map[string]struct {
		opts  []nn.BlockOption
		batch int
		dim   int
		masks bool
	}{
		"batch first": {[]nn.BlockOption{nn.BatchFirst(), nn.NormFirst()}, 2, 1, true},
		"batch last":  {nil, 2, 0, false},
		"one row":     {[]nn.BlockOption{nn.ActivationGELU()}, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := onHost(t)
			d := newCachedDecoder(r, c.batch, 6, 5, c.opts...)
			d.dim = c.dim
			x, memory := r.tensor(numbers(tensor.Shape(d.shape(6)).Len()), d.shape(6)...), r.tensor(numbers(tensor.Shape(d.shape(5)).Len()), d.shape(5)...)
			masks := func(g *autograd.Graph) (all []nn.AttendOption) {
				if c.masks {
					all = append(all, nn.KeyPaddingMask(bools(r, g, 2, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1)))
				}
				return all
			}
			for range 2 { // the second time after Reset
				first := 0
				for _, n := range []int{2, 1, 3} {
					want := r.valuesOf(func(g *autograd.Graph) *autograd.Variable {
						return d.m.Decoder.Decode(g.Input(x), g.Input(memory), nil, masks(g)).Narrow(c.dim, first, n)
					})
					got := r.valuesOf(func(g *autograd.Graph) *autograd.Variable {
						self, cross := d.cached(masks(g)...)
						return d.m.Decoder.Decode(g.Input(x).Narrow(c.dim, first, n), g.Input(memory), self, cross)
					})
					require.InDeltaSlice(t, want, got, 1e-5)
					first += n
				}
				require.Equal(t, 6, d.positions.Len())
				require.Equal(t, 5, d.memories.Len())
				d.positions.Reset()
				d.memories.Reset()
			}
			encoder := nn.TransformerEncoder(nil, nn.TransformerBlock(8, 2, append(c.opts, nn.CausalBlock(), nn.FeedForward(8))...))
			r.place(encoder, nn.Seed(5))
			nn.Eval(encoder)
			one := r.cache(nn.KVCacheSize{Layers: 1, Batch: max(c.batch, 1), Heads: 2, MaxLen: 6, HeadDim: 4})
			for first := range 6 {
				want := r.valuesOf(func(g *autograd.Graph) *autograd.Variable { return encoder.Forward(g.Input(x)).Narrow(c.dim, first, 1) })
				got := r.valuesOf(func(g *autograd.Graph) *autograd.Variable {
					return encoder.Attend(g.Input(x).Narrow(c.dim, first, 1), nn.CachedLayers(one))
				})
				require.InDeltaSlice(t, want, got, 1e-5)
			}
		})
	}
}

// The memory of the first call is what counts: what is read afterwards is the cache.
func TestCachedLayers_ComputesTheMemoryOnce(t *testing.T) {
	r := onHost(t)
	d := newCachedDecoder(r, 2, 4, 3)
	x, memory := r.tensor(numbers(16), 1, 2, 8), r.tensor(numbers(48), 3, 2, 8)
	other := r.tensor(make([]float32, 48), 3, 2, 8)
	run := func(m *tensor.Tensor) []float64 {
		d.positions.Reset()
		return r.valuesOf(func(g *autograd.Graph) *autograd.Variable {
			self, cross := d.cached()
			return d.m.Decoder.Decode(g.Input(x), g.Input(m), self, cross)
		})
	}
	want := run(memory)
	require.Equal(t, want, run(other))
	d.memories.Reset()
	require.NotEqual(t, want, run(other))
}

// 1,000 steps: after the first ones the driver is not asked for memory any more.
func TestCachedLayers_DecodingTakesNoMemoryFromTheDriver(t *testing.T) {
	for name, on := range map[string]func(t *testing.T) *rig{"host": onHost, "simulated": onSim} {
		t.Run(name, func(t *testing.T) {
			r := on(t)
			d := newCachedDecoder(r, 2, 1100, 16)
			x, memory := r.tensor(numbers(16), 1, 2, 8), r.tensor(numbers(16*16), 16, 2, 8)
			step := func() {
				g := r.graph(autograd.NoGrad())
				defer g.Release()
				self, cross := d.cached()
				d.m.Decoder.Decode(g.Input(x), g.Input(memory), self, cross)
				require.NoError(t, g.Err())
			}
			for range 4 {
				step()
			}
			warm := r.alloc.Stats()
			for range 1000 {
				step()
			}
			after := r.alloc.Stats()
			require.Equal(t, 1004, d.positions.Len())
			require.Equal(t, 16, d.memories.Len())
			require.Equal(t, warm.NumDeviceAlloc, after.NumDeviceAlloc)
			require.Equal(t, warm.ReservedBytes.All.Peak, after.ReservedBytes.All.Peak)
			require.Equal(t, warm.AllocatedBytes.All.Current, after.AllocatedBytes.All.Current)
		})
	}
}

func TestCachedLayers_RefusesWhatDoesNotFit_AndChangesNothing(t *testing.T) {
	r := onHost(t)
	d := newCachedDecoder(r, 2, 4, 3)
	x, memory := r.tensor(numbers(16), 1, 2, 8), r.tensor(numbers(48), 3, 2, 8)
	self, cross := d.cached()
	r.valuesOf(func(g *autograd.Graph) *autograd.Variable {
		return d.m.Decoder.Decode(g.Input(x), g.Input(memory), self, cross)
	})
	two := r.cache(nn.KVCacheSize{Layers: 2, Batch: 2, Heads: 2, MaxLen: 4, HeadDim: 4})
	narrow := r.cache(nn.KVCacheSize{Layers: 3, Batch: 1, Heads: 2, MaxLen: 4, HeadDim: 4})
	before := r.allocated()
	layers := func(c *nn.KVCache) []nn.AttendOption { return []nn.AttendOption{nn.CachedLayers(c)} }
	for want, f := range map[string]func(g *autograd.Graph, x, memory *autograd.Variable){
		"a KVCache of 2 layers for 3": func(_ *autograd.Graph, x, memory *autograd.Variable) { d.m.Decoder.Decode(x, memory, layers(two), nil) },
		"CachedLayers of no cache":    func(_ *autograd.Graph, x, memory *autograd.Variable) { d.m.Decoder.Decode(x, memory, nil, layers(nil)) },
		"each needs its own": func(_ *autograd.Graph, x, memory *autograd.Variable) {
			d.m.Decoder.Decode(x, memory, layers(d.positions), layers(d.positions))
		},
		"row 0 has 3 positions of a memory, and the memory has 2": func(_ *autograd.Graph, x, memory *autograd.Variable) {
			d.m.Decoder.Decode(x, memory.Narrow(0, 0, 2), nil, cross)
		},
		"want queries of [1, 2, T, 4]": func(_ *autograd.Graph, x, memory *autograd.Variable) {
			d.m.Decoder.Decode(x, memory, nil, layers(narrow))
		},
		"is for stacks of layers": func(_ *autograd.Graph, x, memory *autograd.Variable) {
			d.m.Decoder.Layers[0].Decode(x, memory, layers(d.positions), nil)
		},
		"it has 3: CachedLayers is for all": func(_ *autograd.Graph, x, memory *autograd.Variable) {
			d.m.Decoder.Decode(x, memory, nil, []nn.AttendOption{nn.Cached(d.memories.Layer(0))})
		},
		"want [2, 3]": func(g *autograd.Graph, x, memory *autograd.Variable) {
			d.m.Decoder.Decode(x, memory, nil, append(cross, nn.KeyPaddingMask(g.Zeros(tensor.Bool, 2, 7))))
		},
	} {
		g := r.graph(autograd.NoGrad())
		f(g, g.Input(x), g.Input(memory))
		require.ErrorContains(t, g.Err(), want)
		g.Release()
		require.Equal(t, before, r.allocated(), want)
		require.Equal(t, []int{1, 1}, d.positions.Lengths())
		require.Equal(t, []int{3, 3}, d.memories.Lengths())
	}
	g := r.graph()
	d.m.Decoder.Decode(g.Input(x), g.Input(memory), nil, cross)
	require.ErrorContains(t, g.Err(), "no gradients flow")
	g.Release()

	// What was appended for attention that is refused is gone again.
	d.memories.Reset()
	g = r.graph(autograd.NoGrad())
	d.m.Decoder.Decode(g.Input(x), g.Input(memory), nil, append(cross, nn.AttnMask(g.Zeros(tensor.Bool, 1, 7))))
	require.Error(t, g.Err())
	g.Release()
	require.Equal(t, []int{0, 0}, d.memories.Layer(0).Lengths())
}
