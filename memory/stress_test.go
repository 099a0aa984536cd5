package memory

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

// The stress tests let goroutines meet in every path at once: caches of shared streams, events, the ladder with a device
// that is too small, changes of settings, and a reader of all statistics. They are for the race detector, and for check.

const (
	stressGoroutines = 16
	stressStreams    = 4
	stressSteps      = 1500
)

// stressSettings are switched while the goroutines run.
var stressSettings = []string{
	"",
	"max_split_size_mb:32",
	"garbage_collection_threshold:0.5",
	"roundup_power2_divisions:4",
	"expandable_segments:True",
	"expandable_segments:True,garbage_collection_threshold:0.5",
	sharing,
	sharing + ",max_split_size_mb:20",
	sharing + ",expandable_segments:True",
	sharing + ",expandable_segments:True,expandable_segments_compaction:1",
	"expandable_segments:True,expandable_segments_compaction:1",
}

// sharingSettings is how many of them, the last ones, put streams in order.
const sharingSettings = 5

// sharing are the settings by which memory cached for one stream serves another, or its own earlier.
const sharing = "record_stream_device_wait:True,cross_stream_reclaim:True,search_after_event_sync:True"

func TestStress_GoroutinesOnSharedStreams(t *testing.T) {
	dev := sim.New(160 * mib)
	a, err := New(dev, Config{})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for g := range stressGoroutines {
		wg.Go(func() { stressWorker(t, a, dev, uint64(g)) })
	}
	wg.Go(func() { stressObserver(t, a) })
	wg.Wait()

	require.NoError(t, a.EmptyCache()) // frees what was given to FreeLater, too
	require.NoError(t, a.check())
	require.Zero(t, a.Stats().Allocation.All.Current)
	require.NoError(t, a.Close())
	live := dev.Live()
	live.Streams = 0
	require.Equal(t, sim.Live{}, live)
}

// stressWorker allocates and frees at random on all streams, and frees everything at the end.
func stressWorker(t *testing.T, a *Caching, dev *sim.Device, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	stream := func() device.Stream { return dev.Stream(device.StreamID(rng.IntN(stressStreams))) }
	var live []Block
	for range stressSteps {
		switch n := rng.IntN(100); {
		case n < 50 && len(live) < 12:
			b, err := a.Alloc(stressSize(rng), stream())
			if err == nil {
				live = append(live, b)
			} else if !errors.Is(err, ErrOutOfMemory) {
				t.Error(err)
				return
			}
		case n < 60 && len(live) > 0:
			if err := a.RecordStream(live[rng.IntN(len(live))], stream()); err != nil {
				t.Error(err)
			}
		case n < 61:
			if err := a.EmptyCache(); err != nil {
				t.Error(err)
			}
		case len(live) > 0:
			i := rng.IntN(len(live))
			b := live[i]
			live[i] = live[len(live)-1]
			live = live[:len(live)-1]
			if n < 65 {
				a.FreeLater(b)
			} else if err := a.Free(b); err != nil {
				t.Error(err)
			}
		}
	}
	for _, b := range live {
		if err := a.Free(b); err != nil {
			t.Error(err)
		}
	}
}

// stressSize is mostly small, sometimes as large as a segment of its own.
func stressSize(rng *rand.Rand) uint64 {
	switch rng.IntN(10) {
	case 0:
		return 10*mib + rng.Uint64N(4*mib)
	case 1, 2, 3:
		return mib + rng.Uint64N(4*mib)
	}
	return 1 + rng.Uint64N(mib/2)
}

// stressObserver reads what locks everything, checks the invariants and changes settings while the others work.
func stressObserver(t *testing.T, a *Caching) {
	for i := range stressSteps / 10 {
		c, err := ParseConfig(stressSettings[i%len(stressSettings)])
		if err == nil {
			err = a.SetConfig(c)
		}
		if err != nil {
			t.Error(err)
		}
		a.SetMemoryLimit(uint64(i%3) * 100 * mib)
		if err := a.check(); err != nil {
			t.Errorf("%v\n%s", err, a.picture())
			return
		}
		s := a.Stats()
		if s.AllocatedBytes.All.Current > s.ActiveBytes.All.Current || s.ActiveBytes.All.Current > s.ReservedBytes.All.Current {
			t.Errorf("allocated %d, active %d, reserved %d", s.AllocatedBytes.All.Current, s.ActiveBytes.All.Current,
				s.ReservedBytes.All.Current)
		}
		a.Snapshot()
		if i%20 == 0 {
			a.ResetPeakStats()
			a.ResetAccumulatedStats()
		}
	}
	a.SetMemoryLimit(0)
}
