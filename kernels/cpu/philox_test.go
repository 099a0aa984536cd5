package cpu

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// The known answers are those that come with Random123, the authors' own implementation (kat_vectors).
func TestPhilox_KnownAnswers(t *testing.T) {
	for _, k := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{[4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{
			[4]uint32{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, [2]uint32{0xffffffff, 0xffffffff},
			[4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
		},
		{ // digits of pi
			[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
		},
	} {
		require.Equal(t, k.want, philox(k.counter, k.key[0], k.key[1]))
	}
}

func TestPhilox_BlocksAreThoseOfTheLayout(t *testing.T) {
	for _, n := range []int{4, 12, 16, 20, 64, 100} {
		for _, first := range []uint64{0, 1<<32 - 2, math.MaxUint64 - 1} {
			for _, key := range []uint64{0, 0x299f31d0a4093822, math.MaxUint64} {
				got := make([]uint32, n)
				philoxBlocks(got, key, first, 1)
				for i := range got {
					b := first + uint64(i/4)
					want := philox([4]uint32{uint32(b), uint32(b >> 32), 1, 0}, uint32(key), uint32(key>>32))
					require.Equal(t, want[i%4], got[i], "word %d of %d from block %d", i, n, first)
				}
			}
		}
	}
}

func TestPhilox_UniformsStayBelowOne(t *testing.T) {
	require.Equal(t, float32(0), uniform24(0xff))
	require.Equal(t, float32(1-0x1p-24), uniform24(math.MaxUint32))
	require.Equal(t, 1-0x1p-53, uniform53(math.MaxUint32, math.MaxUint32))
	require.Zero(t, uniform53(0, 1<<11-1))
}

// TestRandom_MomentsAreThoseOfTheDistributions: with a million numbers, a mean is off by a thousandth of the deviation.
func TestRandom_MomentsAreThoseOfTheDistributions(t *testing.T) {
	u, s := make([]float32, 1<<20), takeScratch()
	for i := 0; i < len(u); i += chunk {
		uniforms(u[i:i+chunk], 7, uint64(i/4), s)
	}
	mean, deviation := moments(u)
	require.InDelta(t, 0.5, mean, 0.002)
	require.InDelta(t, math.Sqrt(1.0/12), deviation, 0.002)

	c := call(0, 1)
	normal(u, c)
	mean, deviation = moments(u)
	require.InDelta(t, 0, mean, 0.005)
	require.InDelta(t, 1, deviation, 0.005)
	var cross float64 // neighbours come from the same pair of uniform numbers
	for i := 0; i < len(u); i += 2 {
		cross += float64(u[i]) * float64(u[i+1])
	}
	require.InDelta(t, 0, cross/float64(len(u)/2), 0.01)
}

func moments[T float](v []T) (mean, deviation float64) {
	var sum, squares float64
	for _, x := range v {
		sum += float64(x)
		squares += float64(x) * float64(x)
	}
	mean = sum / float64(len(v))
	return mean, math.Sqrt(squares/float64(len(v)) - mean*mean)
}
