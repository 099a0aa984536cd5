package memory

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// layoutPair is a pair that also allocates at addresses, looks at events by itself, and notes and puts back layouts, in a private
// pool if it has one. Private pools are not modelled: all is in the one.
type layoutPair struct {
	*pair
	pool   *Pool
	noted  *PoolCheckpoint
	layout []naiveLayout
}

func (p *layoutPair) allocator() Allocator {
	if p.pool != nil {
		return p.pool
	}
	return p.a
}

func (p *layoutPair) alloc(bytes uint64, stream int) {
	p.t.Helper()
	b, err := p.allocator().Alloc(bytes, p.stream(stream))
	require.NoError(p.t, err)
	p.enter(b, p.naive.alloc(bytes, stream))
}

// enter compares a block with the model's.
func (p *layoutPair) enter(b Block, want *naiveBlock) {
	p.t.Helper()
	require.NotNil(p.t, want)
	require.Equal(p.t, place{want.seg.number, want.offset}, p.place(b))
	require.Equal(p.t, want.size, b.Size())
	p.live = append(p.live, pairBlock{b, want})
}

// allocAt takes some address in or near a free block.
func (p *layoutPair) allocAt(rng *rand.Rand) {
	p.t.Helper()
	if len(p.naive.segments) == 0 {
		return
	}
	seg := p.naive.segments[rng.IntN(len(p.naive.segments))]
	b := seg.blocks[rng.IntN(len(seg.blocks))]
	offset := b.offset + rng.Uint64N(b.size)/minBlock*minBlock*uint64(rng.IntN(2))
	bytes := 1 + rng.Uint64N(seg.size-offset)
	if rng.IntN(3) == 0 { // just what is left
		bytes = b.offset + b.size - offset
	}
	stream := seg.stream
	if rng.IntN(10) == 0 {
		stream = rng.IntN(3)
	}
	var at = p.a.segments[slices.IndexFunc(p.a.segments, func(s *segment) bool { return int(s.reg) == seg.number })].ptr
	got, err := p.a.AllocAt(bytes, p.stream(stream), at.Add(offset))
	want := p.naive.allocAt(bytes, stream, seg, offset)
	if want == nil {
		require.ErrorIs(p.t, err, ErrAddress)
		return
	}
	require.NoError(p.t, err)
	p.enter(got, want)
}

func (p *layoutPair) checkpoint() {
	p.t.Helper()
	c, err := p.pool.Checkpoint()
	p.naive.poll()
	if !p.naive.idle(false) {
		require.ErrorIs(p.t, err, ErrCheckpoint)
		return
	}
	require.NoError(p.t, err)
	p.noted, p.layout = c, p.naive.checkpoint()
}

func (p *layoutPair) restore() {
	p.t.Helper()
	if p.noted == nil {
		return
	}
	r, err := p.pool.Restore(p.noted)
	p.naive.poll()
	if !p.naive.idle(true) {
		require.ErrorIs(p.t, err, ErrCheckpoint)
		return
	}
	live, ok := p.naive.restore(p.layout)
	if !ok {
		require.ErrorIs(p.t, err, ErrCheckpoint)
		return
	}
	require.NoError(p.t, err)
	require.Len(p.t, r.Freed, len(p.live))
	require.Len(p.t, r.Live, len(live))
	p.live = nil
	for i := range live {
		p.enter(r.Live[i], live[i])
	}
}

// requireEqual compares all that can be seen, the peaks too.
func (p *layoutPair) requireEqual() {
	p.t.Helper()
	p.check()
	require.Equal(p.t, p.naive.log, p.takeLog(), "driver calls")
	p.naive.log = nil
	require.Equal(p.t, p.naive.picture(), p.a.picture())
	got, want := p.a.Stats(), p.naive.stats
	if p.pool != nil {
		want.ReservedBytesByPrivatePools = map[PoolID]StatArray{p.pool.ID(): want.ReservedBytes}
	}
	require.Equal(p.t, want, got)
}

// Statistics after AllocAt, Restore and the completion of events, their peaks too, are the model's.
func TestPolicy_LayoutsEqualTheNaiveModel(t *testing.T) {
	for _, conf := range []string{"", "max_split_size_mb:20", "max_split_size_mb:32,max_non_split_rounding_mb:24", "roundup_power2_divisions:4"} {
		for _, private := range []bool{false, true} {
			for seed := range uint64(4) {
				t.Run(fmt.Sprintf("%s/%v/%d", conf, private, seed), func(t *testing.T) {
					rng := rand.New(rand.NewPCG(seed, 21))
					p := &layoutPair{pair: newPair(t, 64*gib, conf)}
					if private {
						p.pool = p.a.NewPool()
					}
					for range 400 {
						p.step(rng)
						p.requireEqual()
					}
				})
			}
		}
	}
}

func (p *layoutPair) step(rng *rand.Rand) {
	p.t.Helper()
	stream, n := rng.IntN(3), len(p.live)
	switch op := rng.IntN(100); {
	case op < 30:
		p.alloc(pairSize(byte(rng.IntN(256)), byte(rng.IntN(256))), stream)
	case op < 48 && n > 0:
		p.freeBoth(rng.IntN(n))
	case op < 55 && n > 0:
		p.freeLaterBoth(rng.IntN(n))
	case op < 62 && n > 0:
		p.recordBoth(rng.IntN(n), stream)
	case op < 70:
		p.complete(stream)
		p.naive.completeStream(stream)
	case op < 75:
		p.a.doPendingWork(nil)
		p.naive.poll()
	case op < 88 && p.pool == nil:
		p.allocAt(rng)
	case op < 80 && p.pool != nil:
		p.checkpoint()
	case op < 90 && p.pool != nil:
		p.restore()
	case op < 94:
		p.resetPeaksBoth()
	case op < 96 && p.pool == nil:
		p.empty()
		p.naive.releaseAll()
	}
}
