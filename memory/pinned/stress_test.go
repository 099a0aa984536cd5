package pinned

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
)

// Goroutines allocate, fill, hand to real asynchronous streams that check the content, free at once, and meet in every path:
// caches, events, the background goroutine, captures, EmptyCache, changes of settings, and a reader of all statistics.
func TestPinnedStress_GoroutinesAndStreams(t *testing.T) {
	for _, conf := range []string{
		"",
		"pinned_use_background_threads:True",
		"pinned_reserve_segment_size_mb:1,pinned_max_cached_size_mb:1,pinned_max_round_threshold_mb:1",
	} {
		c, err := memory.ParseConfig(conf)
		require.NoError(t, err)
		dev := host.New()
		p, err := New(dev, c)
		require.NoError(t, err)
		streams := []device.Stream{dev.DefaultStream()}
		for range 3 {
			s, err := dev.NewStream()
			require.NoError(t, err)
			streams = append(streams, s)
		}
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() { pinnedWorkerStress(t, p, streams, uint64(g)) })
		}
		wg.Go(func() { pinnedObserver(t, p, streams, c) })
		wg.Wait()

		require.NoError(t, dev.Synchronize(t.Context()), "no stream found wrong content")
		require.NoError(t, p.EmptyCache())
		require.NoError(t, p.check())
		require.Zero(t, p.Stats().ActiveBytes.Current)
		require.NoError(t, p.Close())
		require.NoError(t, dev.Close())
	}
}

var errContent = errors.New("the content of a block changed")

func pinnedWorkerStress(t *testing.T, p *Allocator, streams []device.Stream, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range 400 {
		n := uint64(1) << rng.IntN(14)
		if rng.IntN(40) == 0 {
			n = mib + rng.Uint64N(mib)
		}
		b, err := p.Alloc(n - rng.Uint64N(n/2+1))
		if err != nil {
			t.Error(err)
			return
		}
		mem, mark := b.Bytes(), byte(seed*31+uint64(i))
		ends := [][]byte{mem[:min(len(mem), 64)], mem[max(0, len(mem)-64):]}
		for _, end := range ends {
			fill(end, mark)
		}
		for range rng.IntN(3) {
			s := streams[rng.IntN(len(streams))]
			err = errors.Join(err, s.(device.Executor).Submit("check", func() error {
				for _, end := range ends {
					if len(bytes.Trim(end, string([]byte{mark}))) != 0 {
						return errContent
					}
				}
				return nil
			}), p.RecordStream(b, s))
		}
		if err = errors.Join(err, p.Free(b)); err != nil {
			t.Error(err)
		}
		if !errors.Is(p.Free(b), memory.ErrDoubleFree) {
			t.Error("a second Free was taken")
		}
		if rng.IntN(50) == 0 {
			if err := p.EmptyCache(); err != nil {
				t.Error(err)
			}
		}
	}
}

// pinnedObserver reads what locks everything, checks the invariants, captures, and changes settings.
func pinnedObserver(t *testing.T, p *Allocator, streams []device.Stream, c memory.Config) {
	for i := range 100 {
		if err := p.check(); err != nil {
			t.Error(err)
			return
		}
		if s := p.Stats(); s.ActiveBytes.Current > s.AllocatedBytes.Current || s.ActiveBytes.Current > s.ActiveBytes.Peak {
			t.Errorf("%+v", s)
		}
		capture, err := p.BeginCapture(func(s device.Stream) bool { return s == streams[1] })
		if err != nil {
			t.Error(err)
			return
		}
		c.PinnedMaxCachedBytes = uint64(i%3) * mib
		err = p.SetConfig(c)
		// A captured stream's blocks get no event: its work has to be done before they are let go.
		capture.End()
		err = errors.Join(err, streams[1].Synchronize(t.Context()), capture.Release())
		if err != nil {
			t.Error(err)
		}
		if i%20 == 0 {
			p.ResetPeakStats()
			p.ResetAccumulatedStats()
		}
	}
}
