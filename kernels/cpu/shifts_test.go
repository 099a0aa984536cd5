package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Chunks of 4, 8 and 16, few and many of a tap, that overlap as those do in which a line ends: the last one written counts, and nothing beside
// them is written.
func TestShifts_AreThoseOfGo(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	for size := 4; size <= winogradLoops.widest; size *= 2 {
		for count := 1; count <= 9; count++ {
			t.Run(fmt.Sprint(size, "x", count), func(t *testing.T) {
				const guard, taps = 16, 7
				src := randomFloats(uint64(count), 500)
				var chunks, offsets []int
				place := guard
				for range count {
					chunks = append(chunks, rng.IntN(100), place)
					place += 1 + rng.IntN(size)
				}
				for range taps {
					offsets = append(offsets, rng.IntN(300))
				}
				nr := place + rng.IntN(3) // the next tap's may begin where this one's still writes
				want := randomFloats(99, taps*nr+size+2*guard)
				got := append([]float32(nil), want...)
				shiftsGo(&want[0], nr, &src[0], offsets, chunks, size)
				winogradLoops.shifts(&got[0], nr, &src[0], offsets, chunks, size)
				require.Equal(t, want, got)
				require.Equal(t, randomFloats(99, len(want))[:guard], got[:guard])
			})
		}
	}
}
