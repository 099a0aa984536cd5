package nn_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/tensor"
)

// decoder is a model that requests share: two layers whose keys and values are in a cache, and rotary positions.
type decoder struct {
	nn.Base
	Rope   *nn.RotaryEmbeddingModule
	Blocks []*nn.TransformerBlockLayer
}

const decoderLen = 16

func newDecoder(r *rig) *decoder {
	d := nn.New(&decoder{Rope: nn.RotaryEmbedding(8, decoderLen)})
	for range 2 {
		d.Blocks = append(d.Blocks, nn.TransformerBlock(8, 2, nn.FeedForward(16), nn.BatchFirst(), nn.NormFirst()))
	}
	r.place(d, nn.Seed(1))
	nn.Eval(d)
	return d
}

// request decodes a prompt of four positions and then four more, one by one, on a stream that is its own and closed at the end. What it reads of the
// first row is the numbers of the last position; without read it reads nothing.
func (d *decoder) request(r *rig, seed float32, read bool) (out []float64, err error) {
	s, err := r.dev.NewStream()
	if err != nil {
		return nil, err
	}
	defer func() {
		if closed := s.Close(); err == nil {
			err = closed
		}
	}()
	cache, err := nn.NewKVCache(r.dev, nn.KVCacheSize{Layers: 2, Batch: 1, Heads: 2, MaxLen: decoderLen, HeadDim: 4}, nn.WithAllocator(r.alloc), nn.WithStream(s))
	if err != nil {
		return nil, err
	}
	defer cache.Release()
	for _, n := range []int{4, 1, 1, 1, 1} {
		if out, err = d.step(r, s, cache, seed, n, read); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (d *decoder) step(r *rig, s device.Stream, cache *nn.KVCache, seed float32, n int, read bool) ([]float64, error) {
	g := r.graph(autograd.NoGrad(), autograd.WithStream(s))
	defer g.Release()
	x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) {
		first := float64(seed) + float64(cache.Len())
		return tensor.Linspace(e.Owned(), first, first+1, n*8, tensor.Float32)
	})
	x = d.Rope.AtPositions(x.Reshape(1, n, 8), cache.Positions(g, n))
	for i, b := range d.Blocks {
		x = b.Attend(x, nn.Cached(cache.Layer(i)))
	}
	if !read {
		return nil, g.Err()
	}
	return x.Select(1, -1).Float64s()
}

// A stream for each request: what was cached for closed ones serves those that come, and 1,000 requests take what a few took.
func TestRequests_WithAStreamEachTakeNoMoreMemory(t *testing.T) {
	for name, on := range map[string]func(t *testing.T) *rig{"host": onHost, "simulated": onSim} {
		t.Run(name, func(t *testing.T) {
			r := on(t)
			d := newDecoder(r)
			request := func() {
				_, err := d.request(r, 1, false)
				require.NoError(t, err)
			}
			request()
			request()
			warm := r.alloc.Stats()
			for range fulltests.Or(1000, 100) {
				request()
			}
			after := r.alloc.Stats()
			require.Equal(t, warm.NumDeviceAlloc, after.NumDeviceAlloc)
			require.Equal(t, warm.Segment.All.Current, after.Segment.All.Current)
			require.Equal(t, warm.ReservedBytes.All.Current, after.ReservedBytes.All.Current)
			require.Equal(t, warm.AllocatedBytes.All.Current, after.AllocatedBytes.All.Current)
		})
	}
}

// Requests of many goroutines on one model, each with a stream, a graph for each step and a cache, give bit for bit what they give one after the other.
// The race detector looks on. Each goroutine takes its streams' memory over from those before: there is never more of it than for all at once.
func TestRequests_OfManyGoroutinesGiveWhatTheyGiveAlone(t *testing.T) {
	r := onHost(t)
	d := newDecoder(r)
	const goroutines, requests = 6, 8
	var want [goroutines][]float64
	for i := range goroutines {
		var err error
		want[i], err = d.request(r, float32(i), true)
		require.NoError(t, err)
		if i > 0 {
			require.NotEqual(t, want[i-1], want[i])
		}
	}
	var results [goroutines][requests][]float64
	var errs [goroutines][requests]error
	var all sync.WaitGroup
	for i := range goroutines {
		all.Go(func() {
			for k := range requests {
				results[i][k], errs[i][k] = d.request(r, float32(i), true)
			}
		})
	}
	all.Wait()
	for i := range goroutines {
		for k := range requests {
			require.NoError(t, errs[i][k])
			require.Equal(t, want[i], results[i][k], "request %d of goroutine %d", k, i)
		}
	}
	// A stream's requests fit one segment of the small pool; parameters have one of their own.
	require.LessOrEqual(t, r.alloc.Stats().Segment.All.Peak, int64(goroutines+1))
}
