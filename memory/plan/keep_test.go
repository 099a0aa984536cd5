package plan

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Buffers that have offsets keep them, and the others are placed around them, by every method.
func TestKeep_OthersArePlacedAround(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		p := Problem{Cycle: rng.IntN(2) * 60}
		for range 1 + rng.IntN(60) {
			from := rng.IntN(60)
			p.Buffers = append(p.Buffers, Buffer{uint64(rng.IntN(9)) * 512, from, from + 1 + rng.IntN(40)})
		}
		first, err := Place(t.Context(), p, Effort(1))
		require.NoError(t, err)
		kept, high := map[int]uint64{}, uint64(0)
		for i := range p.Buffers {
			if rng.IntN(3) == 0 && p.Buffers[i].Size != 0 {
				kept[i] = first.Offsets[i] + 1024 // all by as much: they do not overlap
				high = max(high, kept[i]+p.Buffers[i].Size)
			}
		}
		got, err := Place(t.Context(), p, Keep(kept), Effort(2000))
		require.NoError(t, err)
		require.NoError(t, p.Check(got.Offsets))
		require.GreaterOrEqual(t, got.Size, max(high, got.Bound))
		require.Equal(t, p.Bound(), got.Bound)
		for i, at := range kept {
			require.Equal(t, at, got.Offsets[i])
		}
		for _, task := range p.tasks() {
			task.keep(kept)
			for _, m := range task.methods() {
				offsets := make([]uint64, len(task.jobs))
				_, ok := m.run(task, math.MaxUint64, offsets, func(int) bool { return true })
				require.True(t, ok, m.name)
				all := make([]uint64, len(p.Buffers))
				part := Problem{Cycle: p.Cycle}
				all = all[:0]
				for k, j := range task.jobs {
					part.Buffers, all = append(part.Buffers, p.Buffers[j.id]), append(all, offsets[k])
					if at, ok := kept[j.id]; ok {
						require.Equal(t, at, offsets[k], m.name)
					}
				}
				require.NoError(t, part.Check(all), m.name)
			}
		}
	}
}

func TestKeep_AllOfThem(t *testing.T) {
	p := Problem{Buffers: []Buffer{{512, 0, 3}, {512, 1, 2}}}
	got, err := Place(t.Context(), p, Keep(map[int]uint64{0: 4096, 1: 1024}))
	require.NoError(t, err)
	require.Equal(t, []uint64{4096, 1024}, got.Offsets)
	require.EqualValues(t, 4608, got.Size)
	require.True(t, got.Optimal)
	require.Equal(t, AtOptimum, got.Stopped)
}

func TestKeep_RefusesWhatIsNoPlacement(t *testing.T) {
	p := Problem{Buffers: []Buffer{{512, 0, 1}, {512, 0, 3}, {512, 1, 2}}}
	for name, c := range map[string]struct {
		kept   map[int]uint64
		kind   Kind
		buffer int
		within string
	}{
		"overlap":   {map[int]uint64{1: 512, 2: 1000}, Overlap, 1, "buffer 1 of 512 bytes, live in [0, 3) at offset 512, and buffer 2"},
		"high":      {map[int]uint64{2: math.MaxInt64 - 511}, KeptTooHigh, 2, "buffer 2 of 512 bytes, live in [1, 2) at offset 9223372036854775296"},
		"no buffer": {map[int]uint64{3: 0}, WrongCount, -1, "4 offsets, 3 buffers"},
		"negative":  {map[int]uint64{-1: 0}, WrongCount, -1, "3 buffers"},
	} {
		_, err := Place(context.Background(), p, Keep(c.kept))
		var bad *Error
		require.ErrorAs(t, err, &bad, name)
		require.Equal(t, c.kind, bad.Kind, name)
		require.Equal(t, c.buffer, bad.Buffer, name)
		require.ErrorContains(t, err, c.within, name)
	}
	_, err := Place(context.Background(), p, Keep(map[int]uint64{0: 512, 2: 512}))
	require.NoError(t, err, "they live one after the other")
}
