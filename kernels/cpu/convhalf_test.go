package cpu

import (
	"fmt"
	"testing"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Convolutions of half precision are those of the same numbers in float32, rounded once more, whatever the strides: no way through the code may take
// halves for float32.
func TestConvolutions_OfHalfPrecisionAreThoseOfFloat32(t *testing.T) {
	problems := append([]convProblem{}, convProblems...)
	for _, p := range problems {
		p.stride = [2]int{2, 2}
		problems = append(problems, p)
	}
	for _, half := range []struct {
		d         dtype.DType
		to        func([]uint16, []float32)
		from      func([]float32, []uint16)
		tolerance float64
	}{{dtype.Float16, toHalf, fromHalf, 1e-2}, {dtype.BFloat16, toBrain, fromBrain, 5e-2}} {
		for _, p := range problems {
			o := p.operands(3)
			converted := map[*float32][]uint16{}
			for _, v := range [][]float32{o.image, o.gradient, o.kernel, o.bias, o.back} {
				h := make([]uint16, len(v))
				half.to(h, v)
				half.from(v, h)
				converted[&v[0]] = h
			}
			for id, want := range o.want {
				exact := make([]float32, len(want))
				c := p.call(t, o, id, exact)
				launch(t, c)
				out := make([]uint16, len(want))
				is, rs, ks := p.shapes()
				shapes := map[op.ID][3][4]int{op.Conv2D: {rs, is, ks}, op.Conv2DGradInput: {is, rs, ks}, op.Conv2DGradWeight: {ks, rs, is}}[id]
				view := func(v []uint16, shape ...int) op.View { return viewOf(t, half.d, v, shape...) }
				h := op.Call{Op: id, I: c.I, Out: []op.View{view(out, shapes[0][:]...)}}
				operands := map[op.ID][][]float32{op.Conv2D: {o.image, o.kernel, o.bias}, op.Conv2DGradInput: {o.gradient, o.kernel, o.back},
					op.Conv2DGradWeight: {o.gradient, o.image}}[id]
				for i, v := range operands {
					if i == 2 {
						h.In = append(h.In, view(converted[&v[0]], len(v)))
					} else {
						h.In = append(h.In, view(converted[&v[0]], shapes[i+1][:]...))
					}
				}
				launch(t, &h)
				got, wide := make([]float32, len(want)), make([]float64, len(want))
				half.from(got, out)
				for i, v := range exact {
					wide[i] = float64(v)
				}
				requireClose(t, wide, got, half.tolerance, fmt.Sprint(half.d, " ", id, " ", &p))
			}
		}
	}
}
