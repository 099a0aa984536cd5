package plan

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// problemOf makes a problem of bytes: the cycle, then three for each buffer. It need not be valid.
func problemOf(data []byte) (p Problem) {
	if len(data) == 0 {
		return p
	}
	p.Cycle = int(data[0]) % 64
	for data = data[1:]; len(data) >= 3 && len(p.Buffers) < 200; data = data[3:] {
		from := int(data[1])
		if p.Cycle > 0 {
			from %= p.Cycle
		}
		life := int(data[2])
		if p.Cycle > 0 {
			life %= p.Cycle + 2 // sometimes 0, sometimes too long
		}
		p.Buffers = append(p.Buffers, Buffer{Size: uint64(data[0]) * 512, From: from, To: from + life})
	}
	return p
}

// FuzzPlace: a problem is refused, or its placement is one, is not below the bound, and is the same again.
func FuzzPlace(f *testing.F) {
	f.Add([]byte{0, 1, 0, 1, 2, 0, 3})
	f.Add([]byte{10, 1, 8, 4, 2, 0, 10, 3, 5, 5, 1, 9, 11})
	r := rand.New(rand.NewPCG(3, 4))
	for _, cycle := range []byte{0, 40} {
		long := []byte{cycle}
		for range 300 {
			long = append(long, byte(r.Uint32()))
		}
		f.Add(long)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p := problemOf(data)
		got, err := Place(t.Context(), p, Effort(500), Seed(uint64(len(data))))
		if err != nil {
			var bad *Error
			require.ErrorAs(t, err, &bad)
			require.Error(t, p.Validate())
			return
		}
		require.NoError(t, p.Check(got.Offsets))
		require.Equal(t, p.Bound(), got.Bound)
		require.GreaterOrEqual(t, got.Size, got.Bound)
		require.Equal(t, highestEnd(p, got.Offsets), got.Size)
		again, err := Place(t.Context(), p, Effort(500), Seed(uint64(len(data))))
		require.NoError(t, err)
		require.Equal(t, got, again)
		for i, b := range p.Buffers {
			require.Zero(t, got.Offsets[i]%512)
			require.False(t, b.Size == 0 && got.Offsets[i] != 0)
		}
	})
}

func highestEnd(p Problem, offsets []uint64) (size uint64) {
	for i, b := range p.Buffers {
		size = max(size, offsets[i]+b.Size)
	}
	return size
}

func TestPlace_IsOptimalWhereTheSearchEnds(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	above := 0
	for range 1500 {
		p := tiny(r)
		got, err := Place(t.Context(), p)
		require.NoError(t, err)
		require.NoError(t, p.Check(got.Offsets))
		require.True(t, got.Optimal, "%+v", p)
		require.Equal(t, smallest(p), got.Size, "%+v", p)
		if got.Size > got.Bound {
			require.Equal(t, AtOptimum, got.Stopped)
			above++
		}
	}
	require.Positive(t, above, "some need more than the bound")
}

// tiny returns up to 6 buffers in a short time.
func tiny(r *rand.Rand) (p Problem) {
	if r.IntN(3) > 0 {
		p.Cycle = 3 + r.IntN(6)
	}
	for range 3 + r.IntN(4) {
		from, life := r.IntN(8), 1+r.IntN(5)
		if p.Cycle > 0 {
			from, life = from%p.Cycle, min(life, p.Cycle)
		}
		p.Buffers = append(p.Buffers, Buffer{Size: uint64(1 + r.IntN(5)), From: from, To: from + life})
	}
	return p
}

// smallest tries every order: in that of the offsets of a smallest placement, each buffer slides down on those below it.
func smallest(p Problem) uint64 {
	n := len(p.Buffers)
	offsets, placed := make([]uint64, n), make([]bool, n)
	best := ^uint64(0)
	var try func(count int, top uint64)
	try = func(count int, top uint64) {
		if top >= best {
			return
		}
		if count == n {
			best = top
			return
		}
		for i := range n {
			if placed[i] {
				continue
			}
			offsets[i] = 0
			for k := range n {
				if placed[k] && together(p, p.Buffers[i], p.Buffers[k]) {
					offsets[i] = max(offsets[i], offsets[k]+p.Buffers[k].Size)
				}
			}
			placed[i] = true
			try(count+1, max(top, offsets[i]+p.Buffers[i].Size))
			placed[i] = false
		}
	}
	try(0, 0)
	return best
}

// together asks each moment.
func together(p Problem, a, b Buffer) bool {
	live := func(x Buffer, at int) bool {
		return x.From <= at && at < x.To || p.Cycle > 0 && at+p.Cycle < x.To
	}
	end := p.Cycle
	if end == 0 {
		end = max(a.To, b.To)
	}
	for at := range end {
		if live(a, at) && live(b, at) {
			return true
		}
	}
	return false
}
