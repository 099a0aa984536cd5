package cpu

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// choosesAlike chooses by bytes of all values, with the loop of this processor, between guards, and in place of either operand. Half of the bytes are 0.
func choosesAlike[T word](t *testing.T) {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{0, 1, 31, 32, 33, 63, 64, 95, 96, 600} {
		at := n % 5
		mask, b, c, memory := make([]uint8, at+n), make([]T, at+n), make([]T, at+n), make([]T, at+n+40)
		for i := range mask {
			mask[i] = uint8(rng.IntN(2)) * uint8(i+1)
			b[i], c[i] = T(rng.Uint64()), T(rng.Uint64())
		}
		mask, b, c = mask[at:], b[at:], c[at:]
		want := make([]T, n)
		for i := range want {
			if want[i] = c[i]; mask[i] != 0 {
				want[i] = b[i]
			}
		}
		fillSlice(memory, 7)
		got := memory[at:][:n:n]
		where(got, mask, b, c, nil)
		require.Equal(t, want, got, "%T, %d elements", b, n)
		for i, v := range memory {
			require.True(t, v == 7 || i >= at && i < at+n, "%T: wrote beside %d elements", b, n)
		}
		first := append([]T{}, b...)
		where(first, mask, first, c, nil)
		require.Equal(t, want, first, "%T, %d elements in place of the first", b, n)
		where(c, mask, b, c, nil)
		require.Equal(t, want, c[:n:n], "%T, %d elements in place of the second", b, n)
	}
}

func TestWhere_ChoosesByAllBytesThatAreNotZero(t *testing.T) {
	check := func() {
		choosesAlike[uint8](t)
		choosesAlike[uint16](t)
		choosesAlike[uint32](t)
		choosesAlike[uint64](t)
	}
	check()
	withoutVectors(check)
}
