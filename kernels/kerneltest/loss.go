package kerneltest

import (
	"math"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// lossReferences has the losses of elements, which are element-wise operations like those of references.
var lossReferences = map[op.ID]reference{
	op.SquaredError: lossReference(nil, nil, func(x, y float64, _ [8]float64) result { return exact((x - y) * (x - y)) }),
	op.SmoothL1: lossReference(smoothScalars, nil, func(x, y float64, f [8]float64) result {
		d := math.Abs(x - y)
		if d < f[0] {
			return exact(f[1] * d * d / (2 * f[0]))
		}
		return scaled(f[1]*(d-f[0]/2), f[1]*d, f[1]*f[0])
	}),
	op.BCE: lossReference(nil, probabilities, func(x, y float64, _ [8]float64) result {
		yes, no := y*max(math.Log(x), -100), (1-y)*max(math.Log1p(-x), -100)
		return scaled(-(yes + no), yes, no, math.Log1p(-x))
	}),
	op.BCELogits: lossReference(nil, nil, func(x, y float64, _ [8]float64) result {
		return scaled(math.Log1p(math.Exp(-math.Abs(x)))+max(-x, 0)+(1-y)*x, x, (1-y)*x)
	}),
	op.KLDiv: lossReference(divergenceScalars, probabilities, func(x, y float64, f [8]float64) result {
		if f[0] != 0 {
			return scaled(math.Exp(y)*(y-x), math.Exp(y)*y, math.Exp(y)*x)
		}
		if y == 0 {
			return exact(0)
		}
		return scaled(y*(math.Log(y)-x), y*math.Log(y), y*x)
	}),

	op.SquaredErrorGrad: lossGradReference(nil, nil, func(x, y float64, _ [8]float64) float64 { return 2 * (x - y) }),
	op.SmoothL1Grad: lossGradReference(smoothScalars, nil, func(x, y float64, f [8]float64) float64 {
		if d := x - y; f[0] > 0 {
			return f[1] * max(-1, min(1, d/f[0]))
		} else if d > 0 {
			return f[1]
		} else if d < 0 {
			return -f[1]
		}
		return x - y
	}),
	op.BCEGrad: lossGradReference(nil, probabilities, func(x, y float64, _ [8]float64) float64 {
		return (x - y) / max((1-x)*x, float64(float32(1e-12)))
	}),
	op.BCELogitsGrad: lossGradReference(nil, nil, func(x, y float64, _ [8]float64) float64 { return sigmoid(x) - y }),
	op.KLDivGrad: lossGradReference(divergenceScalars, probabilities, func(_, y float64, f [8]float64) float64 {
		if f[0] != 0 {
			return -math.Exp(y)
		}
		return -y
	}),
}

func init() {
	for id, r := range lossReferences {
		references[id] = r
	}
}

var (
	smoothScalars     = []scalars{{f: floats8(0.5, 2)}, {f: floats8(0, 1)}}
	divergenceScalars = []scalars{{f: floats8(0)}, {f: floats8(1)}}
)

// probabilities gives numbers in 0..1, both ends often.
func probabilities(m *maker, _ int, d dtype.DType) func() value {
	within := m.within(d, 0, 1)
	return func() value {
		if m.rng.IntN(8) == 0 {
			return floatValue(float64(m.rng.IntN(2)))
		}
		return within()
	}
}

func lossReference(params []scalars, values func(*maker, int, dtype.DType) func() value, f func(x, y float64, s [8]float64) result) reference {
	if values == nil {
		values = (*maker).moderate
	}
	return reference{in: "kk", out: "k", ulps: 4, params: params, values: values,
		float: func(x []float64, s [8]float64) result { return f(x[0], x[1], s) }}
}

// lossGradReference is a derivative times the incoming gradient. Differences may be rounded before they are multiplied.
func lossGradReference(params []scalars, values func(*maker, int, dtype.DType) func() value, f func(x, y float64, s [8]float64) float64) reference {
	if values == nil {
		values = (*maker).moderate
	}
	return reference{in: "kkk", out: "k", ulps: 4, params: params,
		values: func(m *maker, k int, d dtype.DType) func() value {
			if k == 0 {
				return m.tame(d)
			}
			return values(m, k, d)
		},
		float: func(x []float64, s [8]float64) result {
			v := f(x[1], x[2], s)
			return scaled(x[0]*v, x[0]*v, x[0])
		}}
}
