package cpu

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// eachWinograd runs f with the loops of this processor, and with those of plain Go.
func eachWinograd(t *testing.T, f func(t *testing.T, k *winogradKernels)) {
	vector, portable := winogradLoops, goWinograd()
	t.Run("portable", func(t *testing.T) { f(t, &portable) })
	for _, tiles := range winogradTiles {
		both, narrow := vector, vector
		both.wide, both.narrow = tiles[0], tiles[1]
		narrow.wide, narrow.narrow = tiles[1], tiles[1]
		t.Run(tiles[0].name, func(t *testing.T) { f(t, &both) })
		t.Run(tiles[1].name, func(t *testing.T) { f(t, &narrow) })
	}
}

func randomFloats(seed uint64, n int) []float32 {
	rng, v := rand.New(rand.NewPCG(seed, 1)), make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}

// A convolution of one 6x6 patch with one kernel of 3x3 or 5x5 is that by definition.
func TestWinogradTransforms_ConvolveTiles(t *testing.T) {
	eachWinograd(t, func(t *testing.T, k *winogradKernels) {
		const position, row = 48, 11
		var work winogradWork
		lanes := [winogradLanes]int{70, 0, 140, 210, 280, 490, 420, 350}
		for _, form := range []*winogradForm{&k.three, &k.five} {
			n, count := form.taps, form.taps*form.taps
			require.Equal(t, 6, form.taps+form.size-1)
			images, kernels := randomFloats(1, 600), randomFloats(2, 8*count)
			var taps [winogradLanes]int
			for i, at := range []int{1, 0, 2, 3, 4, 5, 7, 6} {
				taps[i] = at * count
			}
			for _, turned := range []bool{false, true} {
				filter := form.filter
				if turned {
					filter = form.turned
				}
				u, v := make([]float32, 36*position), make([]float32, 36*position)
				k.image(&v[0], position, &images[0], &lanes, row, &work)
				filter(&u[0], position, &kernels[0], &taps, n, &work)
				for i := range u {
					u[i] *= v[i]
				}
				out := make([]float32, 600)
				form.result(&out[0], &lanes, row, &u[0], position, 0.5, &work)
				written := 0
				for _, value := range out {
					if value != 0 {
						written++
					}
				}
				require.Equal(t, winogradLanes*form.size*form.size, written)
				for lane := range lanes {
					for y := range form.size {
						for x := range form.size {
							want := 0.5
							for tap := range count {
								w := tap
								if turned {
									w = count - 1 - tap
								}
								want += float64(kernels[taps[lane]+w]) * float64(images[lanes[lane]+(y+tap/n)*row+x+tap%n])
							}
							require.InDelta(t, want, out[lanes[lane]+y*row+x], 3e-5)
						}
					}
				}
			}
		}
	})
}

// The gradient of a 3x3 kernel from one patch and one tile is that by definition.
func TestWinogradTransforms_CorrelateTiles(t *testing.T) {
	eachWinograd(t, func(t *testing.T, k *winogradKernels) {
		const position, row = 48, 11
		var work winogradWork
		lanes := [winogradLanes]int{70, 0, 140, 210, 280, 490, 420, 350}
		taps := [winogradLanes]int{9, 0, 18, 27, 36, 45, 63, 54}
		images, gradients := randomFloats(1, 600), randomFloats(3, 600)
		u, v := make([]float32, 36*position), make([]float32, 36*position)
		k.image(&v[0], position, &images[0], &lanes, row, &work)
		k.gradient(&u[0], position, &gradients[0], &lanes, row, &work)
		for i := range u {
			u[i] *= v[i]
		}
		out := make([]float32, 72)
		k.taps(&out[0], &taps, &u[0], position, &work)
		for lane := range lanes {
			for tap := range 9 {
				var want float64
				for p := range 16 {
					y, x := p/4, p%4
					want += float64(gradients[lanes[lane]+y*row+x]) * float64(images[lanes[lane]+(y+tap/3)*row+x+tap%3])
				}
				require.InDelta(t, want, out[taps[lane]+tap], 1e-4)
			}
		}
	})
}

// The micro-kernels of panels of 8 rows compute what tile says.
func TestWinogradTiles_Multiply(t *testing.T) {
	eachWinograd(t, func(t *testing.T, k *winogradKernels) {
		for _, kernel := range []microkernel[float32]{k.wide, k.narrow} {
			for _, steps := range []int{1, 2, 3, 4, 5, 31} {
				ld := kernel.nr + 3
				a, b, c := randomFloats(1, steps*kernel.mr), randomFloats(2, steps*kernel.nr), randomFloats(3, kernel.mr*ld)
				got := append([]float32(nil), c...)
				for _, add := range []bool{false, true} {
					kernel.tile(steps, &a[0], &b[0], &got[0], ld, 2, add)
					for i := range kernel.mr {
						for j := range kernel.nr {
							var sum float32
							for l := range steps {
								sum += a[l*kernel.mr+i] * b[l*kernel.nr+j]
							}
							if !add {
								c[i*ld+j] = 0
							}
							c[i*ld+j] += 2 * sum
						}
					}
					require.InDeltaSlice(t, c, got, 1e-4, "%s, %d steps", kernel.name, steps)
				}
			}
		}
	})
}
