package memory

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/internal/memmeter"
	"github.com/cistern-ml/cistern/internal/oplabel"
	"github.com/cistern-ml/cistern/internal/training"
)

// A meter counts as the statistics do, whatever the program does: also blocks of private pools, blocks that wait for other streams, and those that were
// there before.
func TestMeter_CountsAsTheStatistics(t *testing.T) {
	for _, conf := range []string{"", expandable, "max_split_size_mb:32"} {
		t.Run(conf, func(t *testing.T) {
			r := newRig(t, 2*gib, conf)
			rng := rand.New(rand.NewPCG(1, 2))
			pool := r.a.NewPool()
			var held []Block
			step := func() {
				switch n := rng.IntN(10); {
				case n < 5 && len(held) < 60 || len(held) == 0:
					b, err := r.a.Alloc(uint64(rng.IntN(int(8*mib)))+1, r.stream(rng.IntN(3)))
					require.NoError(t, err)
					held = append(held, b)
				case n == 5 && len(held) < 60:
					b, err := pool.Alloc(uint64(rng.IntN(int(mib)))+1, r.stream(0))
					require.NoError(t, err)
					held = append(held, b)
				default:
					i := rng.IntN(len(held))
					if n == 6 {
						require.NoError(t, r.a.RecordStream(held[i], r.stream(rng.IntN(3))))
					}
					require.NoError(t, r.a.Free(held[i]))
					held[i] = held[len(held)-1]
					held = held[:len(held)-1]
				}
			}
			for range 50 {
				step()
			}
			start := r.a.Stats().AllocatedBytes.All.Current
			r.a.ResetPeakStats()
			m := new(memmeter.Meter)
			stop, err := StartMeter(training.Key{}, r.a, m)
			require.NoError(t, err)
			for range 6000 { // more than a meter's log
				step()
			}
			stats := r.a.Stats().AllocatedBytes.All
			stop()
			require.False(t, r.a.HistoryEnabled())
			step() // of which it is not told
			found := m.End()
			require.Equal(t, uint64(start), found.Start)
			require.Equal(t, uint64(stats.Peak), found.Peak)
			require.Equal(t, uint64(stats.Current), found.End)
			for _, b := range held {
				r.free(b)
			}
			require.NoError(t, pool.Release())
		})
	}
}

// Goroutines have their own labels.
func TestMeter_KnowsWhichGoroutineAsks(t *testing.T) {
	r := newRig(t, gib, "")
	m := new(memmeter.Meter)
	stop, err := StartMeter(training.Key{}, r.a, m)
	require.NoError(t, err)
	ops := []string{"add", "mul", "linear", "relu"}
	var group sync.WaitGroup
	for i, op := range ops {
		s := r.stream(i)
		group.Go(func() {
			defer oplabel.Enter(oplabel.Enter(oplabel.Of(oplabel.Label{Op: op})))
			for range 200 {
				b, err := r.a.Alloc(uint64(i+1)*1024, s)
				if err == nil {
					err = r.a.Free(b)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	stop()
	found := map[string]memmeter.Flow{}
	for _, s := range m.End().Sums {
		found[s.Op] = s.Flow
	}
	for i, op := range ops {
		bytes := uint64(200 * (i + 1) * 1024)
		require.Equal(t, memmeter.Flow{Allocated: bytes, Freed: bytes, Allocations: 200}, found[op], op)
	}
}

// A closed allocator that recorded until then leaves nothing that operations would have to do.
func TestClose_EndsLabels(t *testing.T) {
	r := newRig(t, gib, "")
	require.NoError(t, r.a.RecordHistory(HistoryOptions{}))
	require.NotNil(t, r.a.labels, "operations enter labels")
	require.NoError(t, r.a.Close())
	require.Nil(t, r.a.labels)
	require.NoError(t, r.a.RecordHistory(HistoryOptions{}))
	require.Nil(t, r.a.labels)
}
