package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

var divisionsOf = []op.ID{op.Fmod, op.Remainder, op.FloorDivide}

// quotients are n pairs of whole numbers within 2^50, whose quotients are whole, one off that, or any, and of which some second numbers are 0.
func quotients(n int, seed uint64) (a, b []int64) {
	const most = 1<<50 - 1
	rng := rand.New(rand.NewPCG(seed, 3))
	ends := []int64{0, 1, -1, 2, most, -most, most - 1, -1 << 50, 1<<49 + 1, 1 << 25}
	a, b = onHeap[int64](n), onHeap[int64](n)
	for i := range a {
		small := func() int64 { return (1 - 2*rng.Int64N(2)) * rng.Int64N(1<<rng.IntN(51)) }
		a[i], b[i] = small(), small()
		switch rng.IntN(4) {
		case 0:
			a[i], b[i] = ends[rng.IntN(len(ends))], ends[rng.IntN(len(ends))]
		case 1, 2: // beside a multiple of b
			b[i] |= 1
			a[i] = b[i]*rng.Int64N(max(1, most/max(b[i], -b[i]))) + rng.Int64N(3) - 1
		}
	}
	return a, b
}

func TestDivisions_HaveTheBitsOfTheLoops(t *testing.T) {
	for _, id := range divisionsOf {
		agrees[int64](t, id, dtype.Int64, 2) // of all sizes, which vectors leave to the loops
		for _, n := range append(lengths()[1:], 100, 1000, 1024, 1025, 3000, 30000) {
			for at := range 3 {
				a, b := quotients(n+at, uint64(n))
				a, b = a[at:], b[at:]
				if n == 3000 { // a thousand that vectors leave to the loops among others
					a[1500], b[2999] = math.MinInt64, 1<<50
				}
				want, memory := onHeap[int64](n), onHeap[int64](n+at+16)
				fillSlice(memory, 7)
				got := memory[at:][:n:n]
				withoutVectors(func() { callRow(t, id, dtype.Int64, want, dtype.Int64, a, b) })
				callRow(t, id, dtype.Int64, got, dtype.Int64, a, b)
				require.Equal(t, want, got, "%s of %d elements", id, n)
				for i, v := range memory {
					require.True(t, v == 7 || i >= at && i < at+n, "%s wrote beside its %d elements", id, n)
				}
				callRow(t, id, dtype.Int64, a, dtype.Int64, a, b)
				require.Equal(t, want, a, "%s in place", id)
			}
		}
	}
}

// TestDivideSmall_TakesWhatIsSmall: the numbers that quotients are made of do go through the vectors, and others do not.
func TestDivideSmall_TakesWhatIsSmall(t *testing.T) {
	if vector.small == nil {
		t.Skip("this processor has no vectors for it")
	}
	a, b := quotients(64, 1)
	dst := onHeap[int64](64)
	for d := range divisionCount {
		require.Equal(t, 64, divideSmall(d, dst, a, b))
		for _, large := range []int64{1 << 50, -1<<50 - 1, math.MaxInt64, math.MinInt64} {
			for _, v := range [][]int64{a, b} {
				before := v[37]
				v[37] = large
				require.Zero(t, divideSmall(d, dst, a, b), "%d", large)
				v[37] = before
			}
		}
	}
}
