package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/stretchr/testify/require"
)

// tileSpecified is the specification of a micro-kernel: the loops in the comment of microkernel.tile.
func tileSpecified[T float](m *microkernel[T], k int, a, b, c []T, ld int, alpha T, add bool) {
	for i := range m.mr {
		for j := range m.nr {
			var sum T
			for l := range k {
				sum += a[l*m.mr+i] * b[l*m.nr+j]
			}
			sum *= alpha
			if add {
				sum += c[i*ld+j]
			}
			c[i*ld+j] = sum
		}
	}
}

// small gives integers that float32 sums of some hundred products hold exactly, whatever the order and the fusing.
func small[T float](rng *rand.Rand, n int) []T {
	v := make([]T, n)
	for i := range v {
		v[i] = T(rng.IntN(17) - 8)
	}
	return v
}

// eachRows are the loops of a micro-kernel for all numbers of rows, as micro-kernels of their own.
func eachRows[T float](m *microkernel[T]) (list []*microkernel[T]) {
	for rows := m.mr; rows >= m.mr-len(m.fewer); rows-- {
		list = append(list, &microkernel[T]{name: fmt.Sprint(m.name, " ", rows, " rows"), mr: rows, nr: m.nr, tile: m.of(rows)})
	}
	return list
}

func testTiles[T float](t *testing.T, kernels *matMulKernels[T]) {
	rng := rand.New(rand.NewPCG(1, 1))
	portable := goKernels[T]().wide
	for _, m := range slices.Concat(eachRows(&kernels.wide), eachRows(&kernels.narrow), eachRows(&portable)) {
		for _, k := range []int{1, 2, 3, 4, 5, 7, 8, 31, 256} {
			for _, ld := range []int{m.nr, m.nr + 3} {
				for _, add := range []bool{false, true} {
					a, b, c := small[T](rng, k*m.mr), small[T](rng, k*m.nr), small[T](rng, m.mr*ld+5)
					want := append([]T(nil), c...)
					tileSpecified(m, k, a, b, want, ld, -2, add)
					m.tile(k, &a[0], &b[0], &c[0], ld, -2, add)
					require.Equal(t, want, c, "%s k=%d ld=%d add=%v", m.name, k, ld, add)
				}
			}
		}
	}
}

func TestTile_EveryMicrokernelIsItsLoop(t *testing.T) {
	testTiles(t, &kernels32)
	testTiles(t, &kernels64)
}

// TestTile_Float64SumsAreFused: the order of additions is that of the loop too, with products fused into them.
func TestTile_Float64SumsAreFused(t *testing.T) {
	m := &kernels64.wide
	if m.mr == 4 {
		t.Skip("the portable kernel does not promise it")
	}
	rng := rand.New(rand.NewPCG(2, 2))
	const k = 100
	a, b, c := make([]float64, k*m.mr), make([]float64, k*m.nr), make([]float64, m.mr*m.nr)
	for i := range a {
		a[i] = rng.NormFloat64()
	}
	for i := range b {
		b[i] = rng.NormFloat64()
	}
	m.tile(k, &a[0], &b[0], &c[0], m.nr, 1, false)
	for i := range m.mr {
		for j := range m.nr {
			var sum float64
			for l := range k {
				sum = math.FMA(a[l*m.mr+i], b[l*m.nr+j], sum)
			}
			require.Equal(t, sum, c[i*m.nr+j])
		}
	}
}

func testGemv[T float](t *testing.T, gemv *gemvKernels[T]) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, n := range []int{1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 100, 513} {
		x := [4][]T{}
		for i := range x {
			x[i] = small[T](rng, n)
		}
		a, y := small[T](rng, 4), small[T](rng, n)
		want := append([]T(nil), y...)
		axpy4(want, a, x[0], x[1], x[2], x[3])
		gemv.axpy4(y, a, x[0], x[1], x[2], x[3])
		require.Equal(t, want, y, "axpy4 of %d", n)
		if gemv.pair != nil {
			b, z := small[T](rng, 4), small[T](rng, n)
			axpy4(want, a, x[0], x[1], x[2], x[3])
			other := append([]T(nil), z...)
			axpy4(other, b, x[0], x[1], x[2], x[3])
			gemv.pair(y, z, a, b, x[0], x[1], x[2], x[3])
			require.Equal(t, want, y, "pair of %d", n)
			require.Equal(t, other, z, "pair of %d", n)
		}

		ld := n + 3
		rows := small[T](rng, 4*ld)
		for count := 1; count <= 4; count++ {
			var got, want [gemvGroup]T
			gemv.dots(&got, count, rows, ld, x[0])
			dots(&want, count, rows, ld, x[0])
			require.Equal(t, want, got, "%d dots of %d", count, n)
		}
	}
}

func TestGemvKernels_AreTheirLoops(t *testing.T) {
	testGemv(t, &kernels32.gemv)
	testGemv(t, &kernels64.gemv)
}

func TestPack_PanelsHoldEveryElementInItsPlace(t *testing.T) {
	for _, d := range []dtype.DType{dtype.Float32, dtype.Float16, dtype.BFloat16} {
		t.Run(d.String(), func(t *testing.T) { packsEach(t, d) })
	}
}

func packsEach(t *testing.T, d dtype.DType) {
	rng := rand.New(rand.NewPCG(4, 4))
	l, s := accessorOf[float32](d), takeScratch()
	for _, width := range []int{4, 6, 14, 16, 32, -6, -14} { // negative: panels of about the same number of rows
		even := width < 0 && !isHalf(d)
		width = max(width, -width)
		for _, count := range []int{1, 3, 5, width, width + 1, 3*width - 1} {
			rows := cut{count: count, width: width}
			if even {
				rows = cutEvenly(count, width, width/2)
			}
			for _, k := range []int{1, 3, 4, 16, 17, 100} {
				data := small[float32](rng, count*k*2)
				for _, a := range []matrix{{0, k, 1}, {0, 1, count}, {0, 2 * k, 2}} {
					last := (count-1)*a.row + (k-1)*a.step + 1
					if a.ptr = viewOf(t, dtype.Float32, data).Ptr; isHalf(d) {
						bits := make([]uint16, last)
						narrowTo(bits, data[:last], d)
						widen(data[:last], bits, d)
						a.ptr = viewOf(t, d, bits).Ptr
					}
					size := rows.rows() * k
					dst := make([]float32, size+16)
					for i := range dst {
						dst[i] = 99
					}
					for job := range packJobs(&a, &rows, k) {
						pack(&l, dst[:size], a, job, &rows, k, &kernels32.pack, s)
					}
					require.Equal(t, slices.Repeat([]float32{99}, 16), dst[size:], "behind the panels")
					for p := range rows.panels() {
						panel, wide, first := dst[rows.at(p)*k:], rows.wide(p), rows.from(p)
						require.LessOrEqual(t, wide, width)
						for i := range wide * k {
							want, row := float32(0), first+i%wide
							if row < rows.from(p+1) {
								want = data[row*a.row+i/wide*a.step]
							}
							if panel[i] != want {
								require.Equal(t, want, panel[i], "%+v k %d row %d step %d", rows, k, row, i/wide)
							}
						}
					}
				}
			}
		}
	}
}

// TestMatMul_DoesNotDependOnTheNumberOfWorkers also crosses the borders of blocks.
func TestMatMul_DoesNotDependOnTheNumberOfWorkers(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for _, s := range [][3]int{{300, 400, 300}, {1030, 33, 270}, {5, 2100, 300}, {40, 2060, 20}, {16, 3000, 64}} {
		a, b, c := make([]float32, s[0]*s[2]), make([]float32, s[2]*s[1]), make([]float32, s[0]*s[1])
		for i := range a {
			a[i] = float32(rng.NormFloat64())
		}
		for i := range b {
			b[i] = float32(rng.NormFloat64())
		}
		x := &op.Call{Op: op.MatMul, Out: []op.View{viewOf(t, dtype.Float32, c, s[0], s[1])},
			In: []op.View{viewOf(t, dtype.Float32, a, s[0], s[2]), viewOf(t, dtype.Float32, b, s[2], s[1])}}
		x.F[0] = 1
		var results [][]float32
		for _, n := range []int{1, 2, 7} {
			workers(n, func() { launch(t, x) })
			results = append(results, append([]float32(nil), c...))
		}
		requireSame(t, results[0], results[1], "2 workers")
		requireSame(t, results[0], results[2], "7 workers")
		for range 50 {
			i, j := rng.IntN(s[0]), rng.IntN(s[1])
			var want, size float64
			for l := range s[2] {
				p := float64(a[i*s[2]+l]) * float64(b[l*s[1]+j])
				want += p
				size += math.Abs(p)
			}
			require.InDelta(t, want, c[i*s[1]+j], 1e-6*size)
		}
	}
}

func TestMatMul_ChoosesTheKernelWithLessInVain(t *testing.T) {
	k := &matMulKernels[float32]{wide: microkernel[float32]{mr: 14, nr: 32}, narrow: microkernel[float32]{mr: 6, nr: 16}}
	require.Same(t, &k.wide, k.choose(512, 512))
	require.Same(t, &k.narrow, k.choose(512, 10))
	require.Same(t, &k.narrow, k.choose(20, 48))
}

// Elements times alpha overflow where the sums do not.
func TestMatMul_MultipliesSumsByAlpha(t *testing.T) {
	for _, n := range []int{1, 3} {
		for _, m := range []int{2, 40} {
			a, b, c := make([]float64, m*2), make([]float64, 2*n), make([]float64, m*n)
			for i := range a {
				a[i] = math.MaxFloat64 * float64(1-i%2)
			}
			for i := range n {
				b[i] = 0.25
			}
			x := &op.Call{Op: op.MatMul, Out: []op.View{viewOf(t, dtype.Float64, c, m, n)},
				In: []op.View{viewOf(t, dtype.Float64, a, m, 2), viewOf(t, dtype.Float64, b, 2, n)}}
			x.F[0] = 2
			launch(t, x)
			for i := range c {
				require.Equal(t, math.MaxFloat64/2, c[i], "%d rows, %d columns", m, n)
			}
		}
	}
}
