package cpu

import "slices"

// The transforms of Winograd's convolution (winograd.go), in plain Go: the specification of winograd_avx2_amd64.s. A transform takes
// eight tiles at a time, a lane of a vector each.

// winogradLanes is the number of tiles that are transformed together.
const winogradLanes = 8

// winogradPositions is the number of products of a tile.
const winogradPositions = 36

// winogradWork is memory for a transform.
type winogradWork = [winogradPositions * winogradLanes]float32

// winogradMatrix is one of the matrices, by rows.
type winogradMatrix [][]float32

// The matrices for the points 0, 1, -1, 1/2, -2 and infinity. Those with 2 and -2 in place of the last two are simpler, and their errors
// three times as large.
var (
	winogradImage = winogradMatrix{ // B' of a 6x6 patch
		{1, -1.5, -2, 1.5, 1, 0},
		{0, -1, .5, 2.5, 1, 0},
		{0, 1, -2.5, .5, 1, 0},
		{0, -2, -1, 2, 1, 0},
		{0, .5, -1, -.5, 1, 0},
		{0, 1, -1.5, -2, 1.5, 1},
	}
	winogradGradient = winogradMatrix{ // G of a 4x4 tile, in the gradient of the kernel
		{1, 0, 0, 0},
		{1. / 3, 1. / 3, 1. / 3, 1. / 3},
		{-1. / 3, 1. / 3, -1. / 3, 1. / 3},
		{-16. / 15, -8. / 15, -4. / 15, -2. / 15},
		{1. / 15, -2. / 15, 4. / 15, -8. / 15},
		{0, 0, 0, 1},
	}
	winogradFilter = winogradMatrix{ // G of a 3x3 kernel
		{1, 0, 0},
		{1. / 3, 1. / 3, 1. / 3},
		{-1. / 3, 1. / 3, -1. / 3},
		{-16. / 15, -8. / 15, -4. / 15},
		{1. / 15, -2. / 15, 4. / 15},
		{0, 0, 1},
	}
	winogradFilter5 = winogradMatrix{ // G of a 5x5 kernel
		{1, 0, 0, 0, 0},
		{1. / 3, 1. / 3, 1. / 3, 1. / 3, 1. / 3},
		{-1. / 3, 1. / 3, -1. / 3, 1. / 3, -1. / 3},
		{-16. / 15, -8. / 15, -4. / 15, -2. / 15, -1. / 15},
		{1. / 15, -2. / 15, 4. / 15, -8. / 15, 16. / 15},
		{0, 0, 0, 0, 1},
	}
	winogradResult = winogradMatrix{ // A' of a 4x4 tile of results
		{1, 1, 1, 1, 1, 0},
		{0, 1, -1, .5, -2, 0},
		{0, 1, 1, .25, 4, 0},
		{0, 1, -1, .125, -8, 1},
	}
	winogradResult2 = winogradMatrix{ // A' of a 2x2 tile of results
		{1, 1, 1, 1, 1, 0},
		{0, 1, -1, .5, -2, 1},
	}
	winogradTaps = winogradMatrix{ // A' of a 3x3 kernel's gradient
		{1, 1, 1, 1, 1, 0},
		{0, 1, -1, .5, -2, 0},
		{0, 1, 1, .25, 4, 1},
	}
)

// winogradKernels are the inner loops of Winograd's convolution on this processor.
type winogradKernels struct {
	wide, narrow microkernel[float32] // of panels of 8 rows, and of a multiple of 8 columns

	// These compute M x M' for a tile x in each lane, with M the matrix of six rows of that name. Lane i's tile begins at src +
	// lanes[i], and its rows are row elements apart; the elements of the result go to dst[position*n + i], n = 0..35. An image is read
	// two elements behind each row.
	image, gradient winogradIn

	three, five winogradForm // of kernels of 3x3 and of 5x5

	// taps computes M x M' likewise. Rows of the results, of three elements, lie one behind the other.
	taps func(dst *float32, lanes *[winogradLanes]int, src *float32, position int, work *winogradWork)

	// shifts is shiftsGo, of convolutions that are packed by shifts.
	shifts func(dst *float32, nr int, src *float32, offsets, chunks []int, n int)
	widest int // of the chunks that there are loops for: 8, or 16
}

// winogradForm is what differs between kernels of two sizes.
type winogradForm struct {
	taps int // of a kernel, down and across
	size int // of a tile of results

	// filter is the transform of kernels, as image is that of patches; turned is filter for a kernel whose last element comes first.
	filter, turned winogradIn

	// result computes M x M' + bias for a tile x of 6x6 in each lane, element n at src[position*n + i]. Lane i's result begins at dst +
	// lanes[i], and its rows are row elements apart.
	result winogradOut
}

type winogradOut func(dst *float32, lanes *[winogradLanes]int, row int, src *float32, position int, bias float32, work *winogradWork)

type winogradIn func(dst *float32, position int, src *float32, lanes *[winogradLanes]int, row int, work *winogradWork)

// choose gives the micro-kernel for n columns: the narrow one where the wide one computes much more beyond their end.
func (k *winogradKernels) choose(n int) *microkernel[float32] {
	wide, narrow := panels(n, k.wide.nr)*k.wide.nr, panels(n, k.narrow.nr)*k.narrow.nr
	if 20*wide > 23*narrow {
		return &k.narrow
	}
	return &k.wide
}

// The kernels of plain Go. The init function of winograd_amd64.go may replace them.
var winogradLoops = goWinograd()

// winogradTiles are the wide and the narrow micro-kernel of each instruction set that the processor has; winogradLoops has the last.
var winogradTiles [][2]microkernel[float32]

func goWinograd() winogradKernels {
	tile := microkernel[float32]{name: "8x8 Go", mr: 8, nr: 8, tile: tile8x8Go}
	return winogradKernels{
		wide: tile, narrow: tile,
		image: winogradImage.in(false), gradient: winogradGradient.in(false),
		three: winogradForm{3, 4, winogradFilter.in(false), winogradFilter.in(true), winogradResult.result},
		five:  winogradForm{5, 2, winogradFilter5.in(false), winogradFilter5.in(true), winogradResult2.result},
		taps:  winogradTapsGo, shifts: shiftsGo, widest: 8,
	}
}

// times sets out, whose elements are step apart, to m*x.
func (m winogradMatrix) times(out []float32, step int, x []float32) {
	for i, row := range m {
		var sum float32
		for j, v := range row {
			if v != 0 {
				sum += v * x[j]
			}
		}
		out[i*step] = sum
	}
}

func (m winogradMatrix) in(turned bool) winogradIn {
	return func(dst *float32, position int, src *float32, lanes *[winogradLanes]int, row int, _ *winogradWork) {
		n := len(m[0])
		results := elementsAt(dst, (winogradPositions-1)*position+winogradLanes)
		var tile, half [6 * 6]float32
		var line [6]float32
		for lane, at := range lanes {
			for r := range n {
				p := offsetElements(src, at+r*row)
				copy(line[:n], elementsAt(p, n))
				to := r
				if turned {
					slices.Reverse(line[:n])
					to = n - 1 - r
				}
				m.times(half[to:], 6, line[:n])
			}
			for c := range 6 {
				m.times(tile[c:], 6, half[c*6:][:n])
			}
			for i, v := range tile {
				results[i*position+lane] = v
			}
		}
	}
}

// out computes M x M' of one lane, of n x n elements.
func (m winogradMatrix) out(tile []float32, src []float32, position int) {
	n := len(m)
	var half [6 * 6]float32
	var line [6]float32
	for c := range 6 {
		for r := range 6 {
			line[r] = src[(r*6+c)*position]
		}
		m.times(half[c:], 6, line[:])
	}
	for r := range n {
		m.times(tile[r*n:], 1, half[r*6:][:6])
	}
}

func (m winogradMatrix) result(dst *float32, lanes *[winogradLanes]int, row int, src *float32, position int, bias float32, _ *winogradWork) {
	in, n := elementsAt(src, (winogradPositions-1)*position+winogradLanes), len(m)
	var tile [16]float32
	for lane, at := range lanes {
		m.out(tile[:], in[lane:], position)
		for i, v := range tile[:n*n] {
			*offsetElements(dst, at+i/n*row+i%n) = v + bias
		}
	}
}

func winogradTapsGo(dst *float32, lanes *[winogradLanes]int, src *float32, position int, _ *winogradWork) {
	in := elementsAt(src, (winogradPositions-1)*position+winogradLanes)
	var tile [9]float32
	for lane, at := range lanes {
		winogradTaps.out(tile[:], in[lane:], position)
		copy(elementsAt(offsetElements(dst, at), 9), tile[:])
	}
}

// tile8x8Go is the portable micro-kernel of 8x8 results: four of 4x4.
func tile8x8Go(k int, a, b, c *float32, ld int, alpha float32, add bool) {
	as, bs, out := elementsAt(a, 8*k), elementsAt(b, 8*k), elementsAt(c, 7*ld+8)
	for i := 0; i < 8; i += 4 {
		for j := 0; j < 8; j += 4 {
			quarterGo(as[i:], bs[j:], out[i*ld+j:], ld, alpha, add)
		}
	}
}

// quarterGo is tileGo for 4x4 results of a tile of 8x8.
func quarterGo(as, bs, out []float32, ld int, alpha float32, add bool) {
	var c00, c01, c02, c03, c10, c11, c12, c13, c20, c21, c22, c23, c30, c31, c32, c33 float32
	for l := 0; l+4 <= len(as) && l+4 <= len(bs); l += 8 {
		a0, a1, a2, a3 := as[l], as[l+1], as[l+2], as[l+3]
		b0, b1, b2, b3 := bs[l], bs[l+1], bs[l+2], bs[l+3]
		c00 += a0 * b0
		c01 += a0 * b1
		c02 += a0 * b2
		c03 += a0 * b3
		c10 += a1 * b0
		c11 += a1 * b1
		c12 += a1 * b2
		c13 += a1 * b3
		c20 += a2 * b0
		c21 += a2 * b1
		c22 += a2 * b2
		c23 += a2 * b3
		c30 += a3 * b0
		c31 += a3 * b1
		c32 += a3 * b2
		c33 += a3 * b3
	}
	for i, v := range [16]float32{c00, c01, c02, c03, c10, c11, c12, c13, c20, c21, c22, c23, c30, c31, c32, c33} {
		at := i/4*ld + i%4
		v *= alpha
		if add {
			v += out[at]
		}
		out[at] = v
	}
}
