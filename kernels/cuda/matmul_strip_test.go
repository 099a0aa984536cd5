package cuda_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/internal/fakecuda"
	"github.com/cistern-ml/cistern/kernels"
	"github.com/cistern-ml/cistern/kernels/cuda"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Strips: fewer than a block has warps, so many that a warp has several, one that is cut short; one part that is kept and several; one square
// for each sum and several. On the device's single processor there is one block for each part.
func TestMatMul_InStrips(t *testing.T) {
	everyway(t, func(t *testing.T, dev device.Device, r *cudatest.Rig) {
		rng := rand.New(rand.NewPCG(31, 32))
		for i, size := range [][3]int{{72, 64, 64}, {600, 128, 64}, {328, 64, 192}, {16, 192, 64}} { // the side that is cut, the other one, and k
			for way := range 4 {
				t.Run(fmt.Sprint(size, way), func(t *testing.T) {
					cuda.PreferTile(t, "strip")
					d := []dtype.DType{dtype.Float16, dtype.BFloat16}[(i+way)%2]
					r.Greedy(i%2 == 1)
					m, n, k := size[0], size[1], size[2]
					added := []*bias{nil, {columns: true}}
					transposes := [2]bool{false, way%2 == 1} // nn, nt
					if way >= 2 {
						m, n, transposes = n, m, [2]bool{way%2 == 1, false} // nn, tn
						added[1] = &bias{rows: true}
					}
					for _, with := range append(added, &bias{rows: true, columns: true}) {
						a, b := newMatrix(rng, m, k, 8*(i%2), transposes[0]), newMatrix(rng, k, n, 8*(way%2), transposes[1])
						require.Zero(t, multiplyPlain(t, dev, d, a, b, newMatrix(rng, m, n, 8*(i/2), false), with))
					}
				})
			}
		}
	})
}

// Convolutions of one tap have strips of all images' places, or of each image's.
func TestConv2D_OfOneTapInStrips(t *testing.T) {
	everyway(t, func(t *testing.T, dev device.Device, r *cudatest.Rig) {
		for _, c := range [][2]int{{64, 64}, {128, 64}, {64, 192}} {
			for _, last := range []bool{false, true} {
				for i, id := range []op.ID{op.Conv2D, op.Conv2D, op.Conv2DGradInput} {
					o := &oneTap{id: id, d: dtype.BFloat16, n: 3, channels: c[0], outputs: c[1], places: 168, lastImage: last, lastResult: last, biased: i == 1}
					t.Run(fmt.Sprint(o, c), func(t *testing.T) {
						cuda.PreferTile(t, "strip")
						o.run(t, dev)
					})
				}
			}
		}
	})
}

// launchedStrips is how many launches of strips there were.
func launchedStrips(r *cudatest.Rig) (n int) {
	for _, line := range r.Counts() {
		if name := strings.Fields(line)[0]; !strings.HasPrefix(name, "matmul_down") && !strings.HasPrefix(name, "matmul_across") {
			continue
		}
		for _, f := range strings.Fields(line) {
			var launches int
			if _, err := fmt.Sscanf(f, "launches=%d", &launches); err == nil {
				n += launches
			}
		}
	}
	return n
}

// What is not for strips: factors, sums and sides that are no multiple of 64, ends of strips within a piece, a bias along the side that strips
// cut or with gaps, columns whose sums are long, and a result without room for pieces.
func TestMatMul_InStripsOnlyWhereTheyServe(t *testing.T) {
	dev, r := onPTX(t, func(l *fakecuda.Library) { l.Set("counts", "1") })
	cuda.PreferTile(t, "strip")
	rng := rand.New(rand.NewPCG(33, 34))
	for _, c := range []struct {
		m, n, k    int
		gap        int // behind the result's rows
		transposes [2]bool
		with       *bias
		strips     int
	}{
		{200, 64, 64, 0, [2]bool{}, nil, 1},
		{200, 64, 64, 0, [2]bool{}, &bias{columns: true}, 1},
		{96, 64, 64, 0, [2]bool{}, &bias{rows: true}, 0},
		{96, 64, 64, 0, [2]bool{}, &bias{rows: true, columns: true}, 0},
		{96, 64, 64, 0, [2]bool{}, &bias{columns: true, pitch: 3}, 0},
		{96, 64, 72, 0, [2]bool{}, nil, 0},
		{96, 72, 64, 0, [2]bool{}, nil, 0},
		{96, 64, 64, 4, [2]bool{}, nil, 0},
		{96, 128, 128, 0, [2]bool{}, nil, 0},
		{64, 96, 64, 0, [2]bool{true, false}, nil, 1},
		{64, 96, 64, 0, [2]bool{true, false}, &bias{rows: true}, 1},
		{64, 96, 64, 0, [2]bool{true, false}, &bias{columns: true}, 0},
		{64, 96, 64, 0, [2]bool{true, false}, &bias{rows: true, columns: true}, 0},
		{64, 96, 64, 0, [2]bool{true, true}, nil, 0},
		{72, 96, 64, 0, [2]bool{true, false}, nil, 0},
		{128, 96, 128, 0, [2]bool{true, false}, nil, 0},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			before := launchedStrips(r)
			a, b := newMatrix(rng, c.m, c.k, 0, c.transposes[0]), newMatrix(rng, c.k, c.n, 0, c.transposes[1])
			multiplyPlain(t, dev, dtype.Float16, a, b, newMatrix(rng, c.m, c.n, c.gap, false), c.with)
			require.Equal(t, c.strips, launchedStrips(r)-before)
		})
	}
	before := launchedStrips(r)
	a, b := newMatrix(rng, 128, 64, 0, false), newMatrix(rng, 64, 64, 0, false)
	multiply(t, dev, dtype.Float16, a, b, newMatrix(rng, 128, 64, 0, false), newMatrix(rng, 128, 64, 0, false))
	require.Equal(t, before, launchedStrips(r), "factors")
}

// The gradient of weights in float32 is sums that a tile leaves as those of a slice: nothing for strips, though its sides would be.
func TestLinearWeightGrad_OfHalfTypesIsNotInStrips(t *testing.T) {
	dev, r := onPTX(t, func(l *fakecuda.Library) { l.Set("counts", "1") })
	cuda.PreferTile(t, "strip")
	m := memory{t, dev}
	a, b, want := make([]float64, 64*64), make([]float64, 64*96), make([]float64, 64*96)
	for i := range b {
		b[i] = float64(i*7%5 - 2)
	}
	for i := range a {
		a[i] = float64(i*11%3 - 1)
		for j := range 96 {
			want[i%64*96+j] += a[i] * b[i/64*96+j]
		}
	}
	c := op.Call{Op: op.LinearWeightGrad, Stream: dev.DefaultStream(), Out: []op.View{m.put(dtype.Float32, make([]float64, len(want)), []int{64, 96})},
		In: []op.View{m.put(dtype.BFloat16, a, []int{64, 64}), m.put(dtype.BFloat16, b, []int{64, 96})}}
	require.NoError(t, op.Check(&c))
	if n := int(kernels.Workspace(&c)); n > 0 {
		c.Work = m.put(dtype.Uint8, make([]float64, n), []int{n})
	}
	require.NoError(t, kernels.Launch(&c))
	require.NoError(t, c.Stream.Synchronize(context.Background()))
	require.Zero(t, launchedStrips(r))
	require.Equal(t, encode(dtype.Float32, want), m.get(c.Out[0]))
}
