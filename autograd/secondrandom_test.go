package autograd_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/gradcheck"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/tensor"
)

// randomGraph is a function of two matrices [2, 3] that goes all the ways through which second derivatives pass: changes in place, views, shared
// parts, checkpoints, Functions, hooks, and gradients within it. The same seed gives the same one.
func randomGraph(seed uint64) gradcheck.Func {
	return func(in vars) variable {
		b := &randomBuilder{Rand: rand.New(rand.NewPCG(seed, 77)), values: append(vars{}, in...)}
		for range 3 + b.IntN(5) {
			b.step(2)
		}
		return b.values[len(b.values)-1].Add(b.values[0].Mul(b.values[1]))
	}
}

type randomBuilder struct {
	*rand.Rand
	values vars // all are [2, 3] and of moderate size
}

func (b *randomBuilder) pick() variable {
	if b.IntN(2) == 0 {
		return b.values[len(b.values)-1]
	}
	return b.values[b.IntN(len(b.values))]
}

// step adds a value. Depth is how far functions may lie within each other.
func (b *randomBuilder) step(depth int) {
	v, u := b.pick(), b.pick()
	var out variable
	switch k := b.IntN(16); {
	case k == 0:
		out = v.Mul(u).Tanh()
	case k == 1:
		out = v.Sub(u).Sigmoid().Mul(v)
	case k == 2:
		out = v.T().MatMul(u).MatMul(v.T().Softmax(0)).T().Tanh()
	case k == 3: // written over, beside a view of what it was made of
		c := v.MulScalar(1.5).AddInPlace(u, 0.5)
		out = c.MulInPlace(u).TanhInPlace().Add(v.Reshape(3, 2).T().Reshape(2, 3))
	case k == 4:
		parts := v.Chunk(3, 1)
		out = autograd.Cat(vars{parts[2], parts[0].Sin(), parts[1].Mul(parts[2])}, 1)
	case k == 5:
		out = v.Square().AddScalar(1).Log().Mul(u.Sum([]int{0}, true).Tanh())
	case k == 6:
		out = v.LayerNorm([]int{3}, u.Narrow(0, 0, 1).Reshape(3), nil, 0.1)
	case k == 7:
		out = scaledProduct(b.IntN(2) == 0).Apply(0.5, v, u.Tanh())
	case k == 8:
		xy := turning.ApplyAll(struct{}{}, v, u)
		out = xy[0].Mul(xy[1].Tanh())
	case k == 9:
		out = v.GELU().Sub(u.SiLU().MulScalar(0.5))
	case k == 10:
		out = v.Mul(u.Sin())
		if out.RequiresGrad() { // a hook that changes nothing
			out.RegisterVariableHook(func(grad variable) variable { return grad.MulScalar(4).DivScalar(4) })
		}
	case k == 11 && depth > 0:
		seed := b.Uint64()
		out = autograd.Checkpoint(func(in vars) variable {
			c := &randomBuilder{Rand: rand.New(rand.NewPCG(seed, 1)), values: append(vars{}, in...)}
			c.step(depth - 1)
			c.step(depth - 1)
			return c.values[len(c.values)-1]
		}, v, u)
	case k == 12: // a gradient of a part; where nothing is recorded, what that is
		if !v.RequiresGrad() {
			out = v.MulScalar(2).Sin().Mul(u.Square()).Tanh()
			break
		}
		v = v.MulScalar(1) // on which u does not depend
		w := v.Sin().Mul(u)
		grads, err := autograd.Grad(vars{w.Square().Sum(nil, false)}, vars{v}, autograd.CreateGraph())
		if err != nil {
			v.Graph().Fail(err)
			return
		}
		out = grads[0].Tanh()
	case k == 13:
		out = autograd.Where(v.Detach().Gt(u.Detach()), v.Mul(v), u.Exp().Tanh())
	case k == 14:
		out = v.CumProd(1).Tanh().Add(u.LogSumExp([]int{1}, true))
	default:
		out = v.Mul(v).Mul(u).Tanh()
	}
	b.values = append(b.values, out)
}

func TestSecondDerivatives_OfRandomGraphsAgreeWithFiniteDifferences(t *testing.T) {
	n := uint64(60)
	if testing.Short() {
		n = 20
	}
	for seed := range n {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := onHost(t)
			inputs := []*tensor.Tensor{r.random(2*seed, 2, 3), r.random(2*seed+1, 2, 3)}
			options := gradcheck.Graph(func() []autograd.Option { return []autograd.Option{autograd.WithAllocator(r.alloc)} })
			require.NoError(t, gradcheck.Check(r.dev, randomGraph(seed), inputs, options))
			require.NoError(t, gradcheck.CheckGradGrad(r.dev, randomGraph(seed), inputs, options))
		})
	}
}

// A call of the device that fails in the middle of a first, second or third pass leaves nothing but the leaves.
func TestSecondDerivatives_OfRandomGraphsFailAtCallsAndKeepNothing(t *testing.T) {
	n := newNthCalls(t)
	ps := n.parameters([]*tensor.Tensor{n.random(1, 2, 3), n.random(2, 2, 3)})
	start := n.allocated()
	for seed := range uint64(12) {
		step := func() error {
			g := n.graph()
			defer g.Release()
			in := vars{g.Param(ps[0]), g.Param(ps[1])}
			loss := randomGraph(seed)(in).Sum(nil, false)
			if seed%3 == 0 {
				if err := loss.Backward(autograd.CreateGraph()); err != nil {
					return err
				}
				return wavy(g, vars{in[0].GradVariable(), in[1].GradVariable()}).Backward(autograd.RetainGraph())
			}
			grads, err := autograd.Grad(vars{loss}, in, autograd.CreateGraph())
			if err != nil {
				return err
			}
			again, err := autograd.Grad(vars{wavy(g, grads)}, in, autograd.CreateGraph())
			if err != nil {
				return err
			}
			return wavy(g, again).Backward()
		}
		for nth, more := int(1+seed), true; more; nth += fulltests.Or(23, 89) {
			what := fmt.Sprintf("seed %d, call %d", seed, nth)
			var err error
			if more = n.during(nth, func() { err = step() }); more && err != nil {
				n.expect(what, err)
			}
			for _, p := range ps {
				p.ZeroGrad()
			}
			if n.allocated() != start {
				require.NoError(t, n.alloc.EmptyCache())
			}
			require.Equal(t, start, n.allocated(), "%s: %s", what, n.kind)
		}
	}
}

// A second pass over the same recorded gradients gives the same as the first, as long as the graph is retained, and an error afterwards.
func TestSecondDerivatives_OfRetainedGraphs(t *testing.T) {
	r := onHost(t)
	for seed := range uint64(10) {
		g := r.graph()
		in := vars{g.Input(r.random(seed, 2, 3), autograd.RequiresGrad()), g.Input(r.random(seed+50, 2, 3), autograd.RequiresGrad())}
		grads, err := autograd.Grad(vars{randomGraph(seed)(in).Sum(nil, false)}, in, autograd.CreateGraph())
		require.NoError(t, err)
		total := wavy(g, grads)
		first, err := autograd.Grad(vars{total}, in, autograd.RetainGraph())
		require.NoError(t, err)
		want := [][]float64{valuesOf(t, first[0]), valuesOf(t, first[1])}
		recorded, err := autograd.Grad(vars{total}, in, autograd.CreateGraph())
		require.NoError(t, err)
		again, err := autograd.Grad(vars{total}, in)
		require.NoError(t, err)
		for i := range want {
			near(t, "recorded", want[i], valuesOf(t, recorded[i]), 1e-12)
			require.Equal(t, want[i], valuesOf(t, again[i]))
		}
		_, err = autograd.Grad(vars{total}, in)
		require.ErrorIs(t, err, autograd.ErrSecondBackward)
		g.Release()
		require.Error(t, total.Backward())
	}
}

// Where a gradient does not depend on a result, none flows there: through an infinite score it would be NaN.
func TestSecondDerivatives_FlowToNoResultThatTheyDoNotRead(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	inf := r.tensor([]float64{1, 0, math.Inf(1), 0}, 2, 2)
	q, k := g.Input(inf), g.Input(r.random(1, 3, 2))
	v := g.Input(r.random(2, 3, 2), autograd.RequiresGrad())
	out := autograd.ScaledDotProductAttention(q, k, v)
	grads, err := autograd.Grad(vars{out.Sum(nil, false)}, vars{v}, autograd.CreateGraph())
	require.NoError(t, err)
	again, err := autograd.Grad(vars{grads[0].Sum(nil, false)}, vars{v})
	require.NoError(t, err)
	require.Equal(t, make([]float64, 6), valuesOf(t, again[0]))
}
