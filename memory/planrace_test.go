package memory

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

// Goroutines that work on streams of their own, and two on one, while another ends steps, empties caches and looks.
func TestPlan_GoroutinesAtOnce(t *testing.T) {
	dev := sim.New(2048 * mib)
	c, err := ParseConfig("expandable_segments:True,expandable_segments_compaction:1.02")
	require.NoError(t, err)
	a, err := New(dev, c)
	require.NoError(t, err)
	p, err := a.NewPlan()
	require.NoError(t, err)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			s := dev.Stream(device.StreamID(g / 2))
			for i := range 300 {
				var held []Block
				for k := range 12 {
					b, err := a.Alloc(uint64(1+k*k)<<(10+g), s)
					if err != nil {
						t.Error(err)
						return
					}
					held = append(held, b)
					if k%3 == 2 {
						if i%2 == 0 && a.RecordStream(held[0], dev.Stream(device.StreamID(2))) != nil {
							t.Error("RecordStream")
						}
						if err := a.Free(held[0]); err != nil {
							t.Error(err)
						}
						held = held[1:]
					}
				}
				for _, b := range held {
					if err := a.Free(b); err != nil {
						t.Error(err)
					}
				}
				if g == 0 {
					if err := p.Step(); err != nil {
						t.Error(err)
					}
				}
				if g == 1 && i%50 == 0 {
					if err := a.EmptyCache(); err != nil {
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
	require.NoError(t, a.check())
	require.NoError(t, p.Close())
	require.NoError(t, a.EmptyCache())
	require.Zero(t, a.Stats().ReservedBytes.All.Current)
	require.NoError(t, a.Close())
}
