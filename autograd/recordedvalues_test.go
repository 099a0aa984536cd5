package autograd_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/tensor"
)

// specials are the numbers at which formulas that are equal elsewhere part.
var specials = []float64{0, math.Copysign(0, -1), 1, -1, 0.5, -2, 3, math.Inf(1), math.Inf(-1), math.NaN(), 1e-300, -1e-30, 6e-8, 1e-5, 60000, -1e30, 1e300, 1e-160, 1e160}

// recordedCase is what both passes run.
type recordedCase struct {
	r      *rig
	c      gradientCase
	inputs []*tensor.Tensor
	seed   float64 // a factor of the incoming gradient
}

// gradients are those of one pass: those of inputs on which nothing depends are nil.
func (rc recordedCase) gradients(opts ...autograd.BackwardOption) (grads [][]float64, err error) {
	g := rc.r.graph(autograd.WithGenerator(tensor.NewGenerator(7)))
	defer g.Release()
	var in, wanted vars
	for _, x := range rc.inputs {
		if x.DType().IsFloat() {
			in = append(in, g.Input(x, autograd.RequiresGrad()))
			wanted = append(wanted, in[len(in)-1])
		} else {
			in = append(in, g.Input(x))
		}
	}
	out := rc.c.f(in)
	if err := g.Err(); err != nil {
		return nil, err
	}
	n := out.Len()
	start := make([]float64, n)
	for i := range start {
		start[i] = math.Cos(float64(i)) * rc.seed
	}
	seed, err := tensor.FromSlice(rc.r.exec, start, out.Shape()...)
	if err != nil {
		return nil, err
	}
	defer seed.Release()
	typed, err := seed.To(out.DType())
	if err != nil {
		return nil, err
	}
	defer typed.Release()
	list, err := autograd.Grad(vars{out}, wanted, append(opts, autograd.WithGradient(typed))...)
	if err != nil {
		return nil, err
	}
	for _, v := range list {
		var x []float64
		if v != nil {
			if x, err = v.Float64s(); err != nil {
				return nil, err
			}
		}
		grads = append(grads, x)
	}
	return grads, nil
}

// sameNumbers counts NaN as NaN. Signs of zeros depend on whether gradients are added to zeros.
func sameNumbers(want, have []float64) bool {
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if want[i] != have[i] && !(math.IsNaN(want[i]) && math.IsNaN(have[i])) {
			return false
		}
	}
	return true
}

// inputs are the case's own ones in another type; with a seed other than 0 some elements of floating-point ones are special.
func (c gradientCase) typed(r *rig, dt tensor.DType, seed uint64) []*tensor.Tensor {
	list := c.make(r)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for i, x := range list {
		if !x.DType().IsFloat() {
			continue
		}
		v := values(r.t, x)
		share := []float64{0, 0.15, 0.6, 1}[min(seed, 3)]
		for j := range v {
			if rnd.Float64() < share {
				v[j] = specials[rnd.IntN(len(specials))]
			}
		}
		list[i] = keep(r.t)(r.tensor(v, x.Shape().Clone()...).To(dt))
	}
	return list
}

// What CreateGraph records has the values of the pass without it, at zeros, infinities and NaN too.
func TestCreateGraph_GivesTheGradientsOfAnOrdinaryPass(t *testing.T) {
	seeds := uint64(fulltests.Or(12, 4))
	for _, c := range append(gradientCases[:len(gradientCases):len(gradientCases)], composedCases...) {
		t.Run(strings.TrimSpace(c.op+" "+c.note), func(t *testing.T) {
			r := onHost(t)
			for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32, tensor.Float16, tensor.BFloat16} {
				for seed := range seeds {
					rc := recordedCase{r, c, c.typed(r, dt, seed), []float64{1, 0, math.Inf(1), 1e-3}[seed%4]}
					want, err := rc.gradients()
					have, again := rc.gradients(autograd.CreateGraph())
					if err != nil {
						require.Error(t, again, "%s: an ordinary pass fails: %v", dt, err)
						continue
					}
					require.NoError(t, again, dt)
					for i := range want {
						what := fmt.Sprintf("input %d of %s, seed %d", i, dt, seed)
						if want[i] == nil || have[i] == nil {
							assert.Equal(t, want[i] == nil, have[i] == nil, "%s: only one pass has a gradient", what)
						} else if !assert.True(t, sameNumbers(want[i], have[i]), "%s\n%v\nordinary %v\nrecorded %v", what, values(t, rc.inputs[i]), want[i], have[i]) {
							return
						}
					}
				}
			}
		})
	}
}

// pairs are operations of two inputs that take each type.
var pairs = map[string]func(v vars) *autograd.Variable{
	"add":           func(v vars) *autograd.Variable { return v[0].Add(v[1]) },
	"mul":           func(v vars) *autograd.Variable { return v[0].Mul(v[1]) },
	"div":           func(v vars) *autograd.Variable { return v[0].Div(v[1]) },
	"pow":           func(v vars) *autograd.Variable { return v[0].Pow(v[1]) },
	"maximum":       func(v vars) *autograd.Variable { return v[0].Maximum(v[1]) },
	"fmod":          func(v vars) *autograd.Variable { return v[0].Fmod(v[1]) },
	"remainder":     func(v vars) *autograd.Variable { return v[0].Remainder(v[1]) },
	"floor_divide":  func(v vars) *autograd.Variable { return v[0].FloorDivide(v[1]) },
	"xlogy":         func(v vars) *autograd.Variable { return v[0].Xlogy(v[1]) },
	"atan2":         func(v vars) *autograd.Variable { return v[0].Atan2(v[1]) },
	"logaddexp":     func(v vars) *autograd.Variable { return v[0].LogAddExp(v[1]) },
	"where":         func(v vars) *autograd.Variable { return autograd.Where(v[1].NeScalar(0), v[0], v[1]) },
	"lerp":          func(v vars) *autograd.Variable { return v[0].Lerp(v[1], v[0]) },
	"addcmul":       func(v vars) *autograd.Variable { return v[0].AddCMul(v[0], v[1], 3) },
	"addcdiv":       func(v vars) *autograd.Variable { return v[0].AddCDiv(v[0], v[1], 3) },
	"mse":           func(v vars) *autograd.Variable { return v[0].MSELoss(v[1], autograd.MeanReduction) },
	"l1":            func(v vars) *autograd.Variable { return v[0].L1Loss(v[1], autograd.NoReduction) },
	"smooth_l1":     func(v vars) *autograd.Variable { return v[0].SmoothL1Loss(v[1], 0.7, autograd.MeanReduction) },
	"smooth_l1 0":   func(v vars) *autograd.Variable { return v[0].SmoothL1Loss(v[1], 0, autograd.SumReduction) },
	"huber":         func(v vars) *autograd.Variable { return v[0].HuberLoss(v[1], 0.7, autograd.MeanReduction) },
	"kl_div":        func(v vars) *autograd.Variable { return v[0].KLDivLoss(v[1], false, autograd.SumReduction) },
	"kl_div log":    func(v vars) *autograd.Variable { return v[0].KLDivLoss(v[1], true, autograd.SumReduction) },
	"bce":           func(v vars) *autograd.Variable { return v[0].Sigmoid().BCELoss(v[1], autograd.MeanReduction) },
	"bce_logits":    func(v vars) *autograd.Variable { return v[0].BCEWithLogitsLoss(v[1], autograd.MeanReduction) },
	"scatter_other": func(v vars) *autograd.Variable { return v[0].Mul(v[1]).CumProd(0) },
}

// second are the derivatives of a weighted sum of first gradients, of one operand as it is and the other in a type of its own.
func second(r *rig, f func(v vars) *autograd.Variable, swap bool, x, other *tensor.Tensor) (first, again []float64, err error) {
	g := r.graph()
	defer g.Release()
	v := g.Input(x, autograd.RequiresGrad())
	in := vars{v, g.Input(other)}
	if swap {
		in[0], in[1] = in[1], in[0]
	}
	out := f(in)
	if err := g.Err(); err != nil {
		return nil, nil, err
	}
	if !out.RequiresGrad() {
		return nil, nil, nil
	}
	grads, err := autograd.Grad(vars{out.Mul(out).Sum(nil, false)}, vars{v}, autograd.CreateGraph())
	if err != nil {
		return nil, nil, err
	}
	first = valuesOf(r.t, grads[0])
	total := wavy(g, grads)
	if !total.RequiresGrad() {
		return first, make([]float64, v.Len()), nil
	}
	if err := total.Backward(); err != nil {
		return nil, nil, err
	}
	return first, values(r.t, v.Grad()), nil
}

func TestCreateGraph_TakesOperandsOfOtherTypes(t *testing.T) {
	for name, f := range pairs {
		t.Run(name, func(t *testing.T) {
			r := onHost(t)
			x := r.tensor([]float64{0.5, 1.5, 0.25, 2})
			numbers := r.tensor([]float64{1, 0, 1, 1})
			for _, dt := range []tensor.DType{tensor.Bool, tensor.Int64, tensor.Int32, tensor.Uint8, tensor.Float16, tensor.Float32} {
				other := keep(t)(numbers.To(dt))
				for _, swap := range []bool{false, true} {
					_, wantAgain, err := second(r, f, swap, x, numbers)
					require.NoError(t, err)
					_, again, err := second(r, f, swap, x, other)
					if r.refuses(f, swap, x, other) {
						require.Error(t, err, "%s %v", dt, swap)
						continue
					}
					require.NoError(t, err, "%s %v", dt, swap)
					tolerance := 1e-6
					if dt == tensor.Float16 {
						tolerance = 5e-3
					}
					near(t, fmt.Sprint(dt, swap), wantAgain, again, tolerance)
				}
			}
		})
	}
}

// refuses reports whether an ordinary pass refuses the types.
func (r *rig) refuses(f func(v vars) *autograd.Variable, swap bool, x, other *tensor.Tensor) bool {
	g := r.graph()
	defer g.Release()
	in := vars{g.Input(x, autograd.RequiresGrad()), g.Input(other)}
	if swap {
		in[0], in[1] = in[1], in[0]
	}
	out := f(in).Sum(nil, false)
	return g.Err() != nil || out.RequiresGrad() && out.Backward() != nil
}
