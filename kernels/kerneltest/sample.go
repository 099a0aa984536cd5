package kerneltest

import (
	"iter"
	"math"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// sampleCase is a use of resampling: sizes of images and results; the distance of results is that of the sizes, or 1/factor.
type sampleCase struct {
	n, c, h, w, oh, ow int
	factor             float64
}

var sampleCases = []sampleCase{
	{1, 1, 1, 1, 1, 1, 0}, {0, 2, 3, 3, 5, 5, 0}, {2, 3, 4, 5, 8, 10, 0}, {1, 2, 5, 7, 8, 9, 0}, {2, 2, 9, 8, 4, 3, 0},
	{1, 3, 1, 6, 4, 1, 0}, {2, 1, 5, 6, 8, 10, 1.7}, {1, 2, 7, 5, 3, 2, 0.45}, {1, 2, 3, 4, 3, 4, 0}, {1, 1, 1, 3, 1, 40, 0},
	{2, 8, 20, 30, 40, 60, 2}, {1, 2, 300, 4, 100, 9, 0},
}

// samples are the cases of resampling and its gradients.
func (m *maker) samples() iter.Seq[*testCase] {
	return list(func(emit func(*testCase)) {
		for n, s := range sampleCases {
			for k, plan := range [][4]layout{plans[0], plans[1+n%4], plans[5+n%5]} {
				emit(m.sample(&s, plan, (n+k)%2 == 1))
			}
		}
	})
}

// place is where a result is taken from: elements along one dimension with their weights, and the place's magnitude.
type place struct {
	at     [2]int
	weight [2]float64
	size   float64
}

func (m *maker) sample(s *sampleCase, plan [4]layout, aligned bool) *testCase {
	if !m.due() {
		return nil
	}
	c := m.newCase()
	c.ulps = 3
	nearest := m.id == op.UpsampleNearest2D || m.id == op.UpsampleNearest2DGrad
	if aligned = aligned && !nearest; aligned {
		c.call.I[0] = 1
	}
	c.call.F[0], c.call.F[1] = s.distance(s.h, s.oh, aligned), s.distance(s.w, s.ow, aligned)
	image, grad := newTensor(m.d, plan[1], s.n, s.c, s.h, s.w), newTensor(m.d, plan[0], s.n, s.c, s.oh, s.ow)
	backward := m.id == op.UpsampleNearest2DGrad || m.id == op.UpsampleBilinear2DGrad
	c.in, c.out = []*tensor{image}, []*tensor{grad}
	if backward {
		image, grad = newTensor(m.d, plan[0], s.n, s.c, s.h, s.w), newTensor(m.d, plan[1], s.n, s.c, s.oh, s.ow)
		c.in, c.out = []*tensor{grad}, []*tensor{image}
	}
	c.in[0].fill(m.tame(m.d))
	want := make([]result, len(c.out[0].values))
	each(grad.shape, func(p int, i []int) {
		h, w := placeOf(i[2], c.call.F[0], s.h, nearest, aligned), placeOf(i[3], c.call.F[1], s.w, nearest, aligned)
		for k := range 4 {
			y, x, weight := h.at[k/2], w.at[k%2], h.weight[k/2]*w.weight[k%2]
			at := image.position(i[0], i[1], y, x)
			if weight == 0 && nearest {
				continue
			}
			to, v := at, grad.values[p].f
			if !backward {
				to, v = p, image.values[at].f
			}
			want[to].add(weight * v)
			want[to].scale += math.Abs(v) * (h.size + w.size) // the weight is as exact as the place
		}
	})
	c.want = [][]result{want}
	return c
}

// distance is F of a dimension.
func (s *sampleCase) distance(size, results int, aligned bool) float64 {
	switch {
	case aligned && results > 1:
		return float64(size-1) / float64(results-1)
	case aligned:
		return 0
	case s.factor != 0:
		return 1 / s.factor
	}
	return float64(size) / float64(results)
}

// placeOf is where result i is taken from.
func placeOf(i int, distance float64, size int, nearest, aligned bool) place {
	if nearest {
		at := math.Floor(round(dtype.Float32, float64(i)*round(dtype.Float32, distance)))
		return place{[2]int{min(int(at), size-1)}, [2]float64{1}, 0}
	}
	at := float64(i) * distance
	if !aligned {
		at = max((float64(i)+0.5)*distance-0.5, 0)
	}
	at = min(at, float64(size-1))
	near := int(at)
	part := at - float64(near)
	return place{[2]int{near, min(near+1, size-1)}, [2]float64{1 - part, part}, 1 + at}
}
