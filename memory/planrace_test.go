package memory

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

// Goroutines that work on streams of their own, and two on one, while another ends steps, empties caches and looks.
func TestPlan_GoroutinesAtOnce(t *testing.T) { planWithGoroutines(t, 0) }

// The same while the driver fails every now and then: what a call does not get it says, and no two blocks overlap.
func TestPlan_GoroutinesWhileTheDriverFails(t *testing.T) {
	for _, every := range []int64{7, 41, 211} {
		planWithGoroutines(t, every)
	}
}

// planWithGoroutines lets one driver call of so many fail; 0 is none.
func planWithGoroutines(t *testing.T, every int64) {
	dev := sim.New(2048 * mib)
	injected := errors.New("injected")
	var calls atomic.Int64
	tolerable := func(err error) bool { return err == nil || every != 0 && errors.Is(err, injected) }
	c, err := ParseConfig("expandable_segments:True,expandable_segments_compaction:1.02")
	require.NoError(t, err)
	a, err := New(dev, c)
	require.NoError(t, err)
	p, err := a.NewPlan()
	require.NoError(t, err)
	var mu sync.Mutex
	inUse := map[device.Ptr][]memoryPart{}
	claim := func(b Block) {
		mine := partsOf(a, b)
		mu.Lock()
		defer mu.Unlock()
		for at, parts := range inUse {
			for _, x := range parts {
				for _, y := range mine {
					if x.from < y.to && y.from < x.to {
						t.Errorf("blocks at %#x and %#x overlap", uintptr(at), uintptr(b.Ptr()))
					}
				}
			}
		}
		inUse[b.Ptr()] = mine
	}
	free := func(b Block) {
		mu.Lock()
		delete(inUse, b.Ptr()) // before somebody else may have it
		mu.Unlock()
		for err := a.Free(b); err != nil; err = a.Free(b) { // it stays allocated when it cannot be freed
			if !tolerable(err) {
				t.Error(err)
				return
			}
		}
	}
	var kept []Block // with holes between
	for i := range 48 {
		b, err := a.Alloc(uint64(1+i*37%23)*100*kib, dev.Stream(device.StreamID(i/2%2)))
		require.NoError(t, err)
		kept = append(kept, b)
	}
	for i, b := range kept {
		if i%4 < 2 {
			require.NoError(t, a.Free(b))
		} else {
			claim(b)
		}
	}
	if every != 0 {
		dev.Inject(func(sim.Call) error {
			if calls.Add(1)%every == 0 {
				return injected
			}
			return nil
		})
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			s := dev.Stream(device.StreamID(g / 2))
			for i := range 300 {
				var held []Block
				for k := range 12 {
					b, err := a.Alloc(uint64(1+k*k)<<(11+2*g), s)
					if !tolerable(err) {
						t.Error(err)
						return
					}
					if err != nil {
						continue
					}
					claim(b)
					held = append(held, b)
					if k%3 == 2 && len(held) > 0 {
						if i%2 == 0 && !tolerable(a.RecordStream(held[0], dev.Stream(device.StreamID(2)))) {
							t.Error("RecordStream")
						}
						free(held[0])
						held = held[1:]
					}
				}
				for _, b := range held {
					free(b)
				}
				if g == 0 {
					if err := p.Step(); !tolerable(err) {
						t.Error(err)
					}
				}
				if g == 1 && i%50 == 0 {
					if err := a.EmptyCache(); !tolerable(err) {
						t.Error(err)
					}
					a.Snapshot()
					a.SnapshotInPieces()
					p.Stats()
				}
			}
		})
	}
	wg.Wait()
	dev.Inject(nil)
	for i, b := range kept {
		if i%4 >= 2 {
			free(b)
		}
	}
	require.NoError(t, a.check())
	require.NoError(t, p.Close())
	require.NoError(t, a.EmptyCache())
	require.NoError(t, a.EmptyCache()) // what the driver refused
	require.Zero(t, a.Stats().ReservedBytes.All.Current)
	require.NoError(t, a.Close())
}
