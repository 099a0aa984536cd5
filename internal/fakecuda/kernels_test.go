//go:build linux && amd64

package fakecuda

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/stretchr/testify/require"
)

func ints(n int) []int32 {
	v := make([]int32, n)
	for i := range v {
		v[i] = int32(i*7919%1000 - 300)
	}
	return v
}

func TestKernel_RunsOneThreadForEachElement(t *testing.T) {
	everyway(t, func(t *testing.T, c *cu) {
		c.demo("")
		const n = 1000
		a, b := make([]float32, n), make([]float32, n)
		for i := range a {
			a[i], b[i] = float32(i), 0.5
		}
		out := c.alloc(4 * n)
		c.launch("add_f32", 8, 128, upload(c, a), upload(c, b), out, int64(n))
		for i, v := range download[float32](c, out, n) {
			require.Equal(t, float32(i)+0.5, v)
		}
	})
}

func TestKernel_GetsParametersOfEverySize(t *testing.T) {
	everyway(t, func(t *testing.T, c *cu) { getsParameters(t, c) })
}

func getsParameters(t *testing.T, c *cu) {
	c.demo("")
	type pair struct {
		A   int32
		Pad int32
		B   float64
	}
	out := c.alloc(8)
	args := []any{out, int8(-3), int16(300), int32(70000), int64(1) << 40, float32(0.5), 0.25, pair{A: 5, B: 1000}, uint8(200)}
	c.launch("parameters", 1, 32, args...)
	require.Equal(t, -3+300+70000+float64(int64(1)<<40)+0.5+0.25+5+1000+200, download[float64](c, out, 1)[0])
}

// blockSums returns the kernel's result and the right one.
func blockSums(c *cu) (got, want []float32) {
	const blocks, threads = 3, 224
	a := make([]float32, blocks*threads)
	want = make([]float32, blocks)
	for i := range a {
		a[i] = float32(i % 17)
		want[i/threads] += a[i]
	}
	sums := c.alloc(4 * blocks)
	c.launch("block_sum", blocks, threads, upload(c, a), sums)
	return download[float32](c, sums, blocks), want
}

// fromLeft, fromRight and runningSums do the same.
func fromLeft(c *cu) (got, want []int32) {
	a, out := ints(256), c.alloc(4*256)
	c.launch("from_left", 1, 256, upload(c, a), out)
	return download[int32](c, out, 256), append([]int32{a[255]}, a[:255]...)
}

func fromRight(c *cu) (got, want []int32) {
	a, out := ints(256), c.alloc(4*256)
	c.ok(c.try(c.function("from_right"), dim{1, 1, 1}, dim{256, 1, 1}, 1024, 0, upload(c, a), out))
	c.ok(c.CtxSynchronize())
	return download[int32](c, out, 256), append(append([]int32{}, a[1:]...), a[0])
}

func runningSums(c *cu) (got, want []int32) {
	const rows, threads = 3, 96
	a, out := ints(rows*threads), c.alloc(4*threads)
	c.launch("running_sum", 1, threads, upload(c, a), out, int32(rows))
	want = make([]int32, threads)
	for t := range want {
		for r := range rows {
			for i := range threads {
				want[t] += int32(i+1) * a[r*threads+(t+i)%threads]
			}
		}
	}
	return download[int32](c, out, threads), want
}

func copiedThrough(c *cu) (got, want []int32) {
	a, out := ints(64), c.alloc(4*64)
	c.launch("copy_through", 1, 64, upload(c, a), out)
	return download[int32](c, out, 64), append(append([]int32{}, a[32:]...), a[:32]...)
}

func TestBarrier_MakesSharedMemoryVisibleToTheBlock(t *testing.T) {
	everyway(t, func(t *testing.T, c *cu) {
		c.demo("")
		sums, wantSums := blockSums(c)
		require.Equal(t, wantSums, sums)
		for _, f := range []func(*cu) (got, want []int32){fromLeft, fromRight, runningSums, copiedThrough} {
			got, want := f(c)
			require.Equal(t, want, got)
		}
	})
}

// A missing barrier must show under at least one schedule: that is why there are two.
func TestBarrier_WhenMissingShows(t *testing.T) {
	differs := func(f func(*cu) (got, want []int32)) func(*cu) bool {
		return func(c *cu) bool {
			got, want := f(c)
			return !equal(got, want)
		}
	}
	for mutant, wrong := range map[string]func(*cu) bool{
		"1": func(c *cu) bool { got, want := blockSums(c); return !equal(got, want) },
		"2": differs(fromLeft),
		"3": differs(fromRight),
		"4": differs(runningSums),
		"5": func(c *cu) bool { got, want := tile(c, "tile_f16", half); return !equal(got, want) },
		"6": differs(copiedThrough),
	} {
		if !fulltests.Enabled() && mutant != "1" && mutant != "4" {
			continue // each is compiled
		}
		found := 0
		schedules(t, func(t *testing.T, c *cu) {
			c.demo(mutant)
			if wrong(c) {
				found++
			}
		})
		require.NotZero(t, found, "mutant %s passes under both schedules", mutant)
	}
}

// equal compares bit by bit what NaN would make unequal, and finds them unequal.
func equal[T int32 | float32](a, b []T) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

func TestHistogram_CountsInSharedAndGlobalMemory(t *testing.T) {
	everyway(t, func(t *testing.T, c *cu) {
		c.demo("")
		const n = 5000
		a, want := make([]uint8, n), make([]uint32, 256)
		for i := range a {
			a[i] = uint8(i * i % 251)
			want[a[i]]++
		}
		bins := upload(c, make([]uint32, 256))
		c.ok(c.try(c.function("histogram"), dim{4, 1, 1}, dim{16, 6, 1}, 0, 0, upload(c, a), int64(n), bins))
		require.Equal(t, want, download[uint32](c, bins, 256))
	})
}

// Several workers run blocks of one launch at the same time.
func TestAtomics_AreAtomicBetweenBlocks(t *testing.T) {
	everyway(t, func(t *testing.T, c *cu) { countsTogether(t, c) })
}

func countsTogether(t *testing.T, c *cu) {
	c.demo("")
	c.lib.Set("workers", "4")
	const blocks, threads = 40, 64
	i, u := upload(c, make([]int32, 3)), upload(c, []uint32{0, 0xffffffff, 0})
	w, f, d := upload(c, make([]uint64, 3)), upload(c, []float32{0}), upload(c, []float64{0})
	h, b := upload(c, []uint16{0}), upload(c, []uint16{0})
	c.launch("atomics", blocks, threads, i, u, w, f, d, h, b)
	const n = blocks * threads
	require.Equal(t, []int32{n, n - 1, 1 - n}, download[int32](c, i, 3))
	require.Equal(t, []uint32{0xffffffff, 0xffffff80, 0}, download[uint32](c, u, 3))
	require.Equal(t, []uint64{3 * n, 1, 7}, download[uint64](c, w, 3))
	require.Equal(t, []float32{n / 2}, download[float32](c, f, 1))
	require.Equal(t, []float64{n / 4}, download[float64](c, d, 1))
	require.Equal(t, half(2048), download[uint16](c, h, 1)[0]) // 2048 + 1 is 2048 in half precision
	require.Equal(t, brain(256), download[uint16](c, b, 1)[0])
}

func TestWarp_OperationsGiveEachLaneItsResult(t *testing.T) {
	everyway(t, func(t *testing.T, c *cu) {
		c.demo("")
		out := c.alloc(64 * 10 * 4)
		c.launch("warp_operations", 1, 64, out)
		got := download[uint32](c, out, 640)
		for thread := range uint32(64) {
			require.Equal(t, warpOperations(thread), got[thread*10:thread*10+10], "thread %d", thread)
		}
	})
}

// warpOperations is the kernel of that name for one thread, from the definitions.
func warpOperations(thread uint32) []uint32 {
	lane := thread % 32
	third, upper := uint32(0), uint32(0)
	for i := range uint32(32) {
		if i%3 == 0 {
			third |= 1 << i
		}
	}
	up, down := lane, lane
	if lane%8 >= 3 {
		up = lane - 3
	}
	if lane%16+3 < 16 {
		down = lane + 3
	}
	upper = 15
	if lane >= 16 {
		upper = 0
		for i := uint32(16); i < 32; i++ {
			upper += i
		}
	}
	return []uint32{third, 2, 0xf << (lane / 4 * 4), 31*32/2 - 9, 49, up, down, (lane^5)/2 + (lane ^ 1), upper, 2*4 + 2 + 1}
}

func TestWarp_LanesThatEndedAreNotWaitedFor(t *testing.T) {
	everyway(t, func(t *testing.T, c *cu) {
		c.demo("")
		for _, n := range []int{1, 31, 32, 40, 100, 128} {
			a, out := ints(128), c.alloc(4*128)
			c.launch("early_end", 1, 128, upload(c, a), out, uint32(n))
			got := download[int32](c, out, n)
			for i := range n {
				want := int32(0)
				for k := i; k < min(n, i/32*32+32); k++ {
					want += a[k]
				}
				require.Equal(t, want, got[i], "n %d, thread %d", n, i)
			}
		}
	})
}

// half and brain convert small integers, and simple fractions, exactly.
func half(x float32) uint16 {
	b := math.Float32bits(x)
	if x == 0 {
		return uint16(b >> 16)
	}
	return uint16(b>>16&0x8000 | (b>>13-(127-15)<<10)&0x7fff)
}

func brain(x float32) uint16 { return uint16(math.Float32bits(x) >> 16) }

// tile multiplies 16x16 by 16x8.
func tile(c *cu, kernel string, convert func(float32) uint16) (got, want []float32) {
	rng := rand.New(rand.NewPCG(1, 2))
	a, b := make([]float32, 16*16), make([]float32, 16*8)
	a16, b16 := make([]uint16, len(a)), make([]uint16, len(b))
	for i := range a {
		a[i] = float32(rng.IntN(64)-32) / 4
		a16[i] = convert(a[i])
	}
	for i := range b {
		b[i] = float32(rng.IntN(64)-32) / 4
		b16[i] = convert(b[i])
	}
	out := c.alloc(16 * 8 * 4)
	c.launch(kernel, 1, 32, upload(c, a16), upload(c, b16), out)
	return download[float32](c, out, 16*8), product(a, b, 16)
}

// product is exact: its operands are multiples of 1/4.
func product(a, b []float32, depth int) []float32 {
	out := make([]float32, 16*8)
	for i := range 16 {
		for j := range 8 {
			for k := range depth {
				out[i*8+j] += a[i*depth+k] * b[k*8+j]
			}
		}
	}
	return out
}

func TestTensorCore_MultipliesATileOfEachType(t *testing.T) {
	everyway(t, func(t *testing.T, c *cu) {
		c.demo("")
		got, want := tile(c, "tile_f16", half)
		require.Equal(t, want, got)
		got, want = tile(c, "tile_bf16", brain)
		require.Equal(t, want, got)
		a, b := make([]float32, 16*8), make([]float32, 8*8)
		for i := range a {
			a[i] = float32(i%13) / 4
		}
		for i := range b {
			b[i] = float32(i%7) / 4
		}
		out := c.alloc(16 * 8 * 4)
		c.launch("tile_tf32", 1, 32, upload(c, a), upload(c, b), out)
		require.Equal(t, product(a, b, 8), download[float32](c, out, 16*8))
	})
}

func TestAsyncCopy_FillsWithZeroAndWaitsByGroup(t *testing.T) {
	everyway(t, func(t *testing.T, c *cu) {
		c.demo("")
		out := c.alloc(4 * 7)
		c.launch("partial_copies", 1, 1, upload(c, []int32{1, 2, 3, 4, 5, 6, 7, 8}), out)
		require.Equal(t, []int32{1, 2, 0, 0, 5, 7, 0}, download[int32](c, out, 7))
	})
}
