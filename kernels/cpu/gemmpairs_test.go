package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x448/float16"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// pairSet is a way to multiply pairs of a type.
type pairSet struct {
	name  string
	half  half
	loops *pairLoops
	rows  func(count int, dst *float32, width int, src *uint16, ld, n int)
}

// pairSets are those of this processor, and tiles in Go, which are packed as those of AMX are. A name of one that the processor does not have has no loops.
func pairSets() []pairSet {
	sets := []pairSet{
		{"bfloat16", brainHalf, pairKernels[brainHalf], pairRows},
		{"float16", float16Half, pairKernels[float16Half], pairRows},
	}
	for h, name := range map[half]string{brainHalf: "bfloat16 in tiles of Go", float16Half: "float16 in tiles of Go"} {
		tile := microkernel[float32]{name: name, mr: 32, nr: 32, tile: func(k int, a, b, c *float32, ld int, alpha float32, add bool) {
			tilesGo(h, k, a, b, c, ld, alpha, add)
		}}
		pack := kernels32.pack
		if pack.sixteen == nil {
			pack.sixteen = sixteenGo
		}
		sets = append(sets, pairSet{name, h, &pairLoops{matMulKernels[float32]{wide: tile, narrow: tile, pack: pack}, true}, pairRowsGo})
	}
	return append(sets, morePairSets...)
}

// morePairSets are what other tests add.
var morePairSets []pairSet

// eachPairSet calls f with each way in force.
func eachPairSet(t *testing.T, f func(t *testing.T, s pairSet)) {
	kernels, rows := pairKernels, pairRows
	defer func() { pairKernels, pairRows = kernels, rows }()
	for _, s := range pairSets() {
		t.Run(s.name, func(t *testing.T) {
			if s.loops == nil {
				t.Skip("the processor has no instruction for it")
			}
			pairKernels, pairRows = [brainHalf + 1]*pairLoops{}, s.rows
			pairKernels[s.half] = s.loops
			f(t, s)
		})
	}
}

// number is an element of the type, and bits those of one.
func (h half) number(bits uint16) float32 {
	if h == float16Half {
		return float16.Frombits(bits).Float32()
	}
	return math.Float32frombits(uint32(bits) << 16)
}

func (h half) bits(v float32) uint16 {
	if h == float16Half {
		return float16.Fromfloat32(v).Bits()
	}
	return brainBits(v)
}

func (h half) dtype() dtype.DType {
	if h == float16Half {
		return dtype.Float16
	}
	return dtype.BFloat16
}

// pair is what a panel has in the place of an element.
func (h half) pair(v float32) (x, y float32) {
	bits := math.Float32bits(v)
	return h.number(uint16(bits)), h.number(uint16(bits >> 16))
}

// tilesGo is what the tiles of AMX compute, for panels of 32 rows and 32 columns.
func tilesGo(h half, k int, a, b, c *float32, ld int, alpha float32, add bool) {
	as, bs, out := elementsAt(a, 32*k), elementsAt(b, 32*k), elementsAt(c, 31*ld+32)
	if k%packSteps != 0 {
		panic(fmt.Sprintf("%d pairs", k))
	}
	for i := range 32 {
		for j := range 32 {
			sum := float32(0)
			for l := range k {
				x0, x1 := h.pair(as[(l/packSteps*32+i)*packSteps+l%packSteps])
				y0, y1 := h.pair(bs[l*32+j])
				sum += x0*y0 + x1*y1
			}
			sum *= alpha
			if add {
				sum += out[i*ld+j]
			}
			out[i*ld+j] = sum
		}
	}
}

func pairRowsGo(count int, dst *float32, width int, src *uint16, ld, n int) {
	to, from := elementsAt(dst, count*width), elementsAt(src, (2*count-1)*ld+n)
	for l := range count {
		clear(to[l*width:][:width])
		for i := range n {
			to[l*width+i] = math.Float32frombits(uint32(from[2*l*ld+i]) | uint32(from[(2*l+1)*ld+i])<<16)
		}
	}
}

func sixteenGo(steps int, dst *float32, width int, src *float32, ld, skip, mask int) {
	to, from := elementsAt(dst, (steps-1)*width+16-skip), elementsAt(src, 15*ld+steps)
	for l := range steps {
		for i := range 16 {
			if mask>>i&1 != 0 {
				to[l*width+i-skip] = from[i*ld+l]
			}
		}
	}
}

// Products of pairs are those of the elements as float32, however operands lie: small whole numbers leave nothing to round.
func TestMatMul_OfPairsIsThatOfFloat32(t *testing.T) {
	eachPairSet(t, testMatMulOfPairs)
}

func testMatMulOfPairs(t *testing.T, s pairSet) {
	rng := rand.New(rand.NewPCG(41, 42))
	g := &guards{}
	for _, size := range [][3]int{{14, 32, 32}, {17, 33, 34}, {40, 70, 64}, {65, 31, 600}, {128, 96, 1026}, {100, 5, 62}, {9, 300, 48}, {33, 64, 33}, {1, 40, 32}, {64, 1, 36}, {70, 70, 32 * 37}} {
		m, n, k := size[0], size[1], size[2]
		for turned := range 4 {
			a, b := watchedHalves(rng, g, s.half, m*k), watchedHalves(rng, g, s.half, k*n)
			va, vb := viewOf(t, s.half.dtype(), a, m, k), viewOf(t, s.half.dtype(), b, k, n)
			if turned&1 != 0 {
				va.Strides[0], va.Strides[1] = 1, m
			}
			if turned&2 != 0 {
				vb.Strides[0], vb.Strides[1] = 1, k
			}
			watch = g.add
			out := watched[uint16](m * n)
			c := &op.Call{Op: op.MatMul, Out: []op.View{viewOf(t, s.half.dtype(), out, m, n)}, In: []op.View{va, vb}}
			c.F[0] = 1
			launch(t, c)
			watch = nil
			require.Zero(t, g.check(), size)
			g.parts = nil
			at := func(x []uint16, v *op.View, i, j int) float32 {
				return s.half.number(x[i*v.Strides[0]+j*v.Strides[1]])
			}
			for i := range m {
				for j := range n {
					var sum float32
					for l := range k {
						sum += at(a, &va, i, l) * at(b, &vb, l, j)
					}
					require.Equal(t, s.half.bits(sum), out[i*n+j], fmt.Sprint(size, turned, i, j))
				}
			}
		}
	}
}

// watchedHalves are n whole numbers from -4 to 4.
func watchedHalves(rng *rand.Rand, g *guards, h half, n int) []uint16 {
	watch = g.add
	v := watched[uint16](n)
	watch = nil
	for i := range v {
		v[i] = h.bits(float32(rng.IntN(9) - 4))
	}
	return v
}

// Results of float32, whose rows or columns lie side by side.
func TestMultiplyPairs_WritesFloat32(t *testing.T) {
	eachPairSet(t, testMultiplyPairs)
}

func testMultiplyPairs(t *testing.T, s pairSet) {
	rng := rand.New(rand.NewPCG(43, 44))
	g := &guards{}
	const m, n, k = 45, 37, 66
	a, b := watchedHalves(rng, g, s.half, k*m), watchedHalves(rng, g, s.half, k*n)
	for _, to := range [][2]int{{n, 1}, {1, m}} {
		watch = g.add
		out := watched[float32](m * n)
		require.True(t, multiplyPairs(s.half, &product[float32]{
			m: m, n: n, k: k, alpha: 0.5, dst: matrix{addressOf(out), to[0], to[1]}, a: matrix{addressOf(a), 1, m}, b: matrix{addressOf(b), n, 1},
		}))
		watch = nil
		require.Zero(t, g.check())
		for i := range m {
			for j := range n {
				var sum float32
				for l := range k {
					sum += s.half.number(a[l*m+i]) * s.half.number(b[l*n+j])
				}
				require.Equal(t, sum/2, out[i*to[0]+j*to[1]], "%d %d", i, j)
			}
		}
	}
	require.False(t, multiplyPairs(s.half, &product[float32]{m: m, n: n, k: k - 1}), "an odd number of steps")
}
