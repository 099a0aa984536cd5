package parallel_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
)

// orders are the passes of one graph, of which all forward passes come first. Each leaves the sum of the gradients of its backward passes.
var orders = map[string]func(x *autograd.Variable, forward func(*autograd.Variable) *autograd.Variable) error{
	"two, one backward": func(x *autograd.Variable, f func(*autograd.Variable) *autograd.Variable) error {
		a, b := f(x), f(x.MulScalar(2))
		return a.Square().Mean(nil, false).Add(b.Square().Mean(nil, false)).Backward()
	},
	"a chain": func(x *autograd.Variable, f func(*autograd.Variable) *autograd.Variable) error {
		return f(f(x)).Square().Mean(nil, false).Backward()
	},
	"two, two backward": func(x *autograd.Variable, f func(*autograd.Variable) *autograd.Variable) error {
		a, b := f(x), f(x.MulScalar(2))
		return errors.Join(a.Square().Mean(nil, false).Backward(), b.Square().Mean(nil, false).Backward())
	},
	"two, two backward, the last first": func(x *autograd.Variable, f func(*autograd.Variable) *autograd.Variable) error {
		a, b := f(x), f(x.MulScalar(2))
		return errors.Join(b.Square().Mean(nil, false).Backward(), a.Square().Mean(nil, false).Backward())
	},
	"three, backward of one and two": func(x *autograd.Variable, f func(*autograd.Variable) *autograd.Variable) error {
		a, b, c := f(x), f(x.MulScalar(2)), f(x.MulScalar(3))
		return errors.Join(a.Square().Mean(nil, false).Backward(), b.Square().Mean(nil, false).Add(c.Square().Mean(nil, false)).Backward())
	},
	"three, backward of two and one": func(x *autograd.Variable, f func(*autograd.Variable) *autograd.Variable) error {
		a, b, c := f(x), f(x.MulScalar(2)), f(x.MulScalar(3))
		return errors.Join(b.Square().Mean(nil, false).Add(c.Square().Mean(nil, false)).Backward(), a.Square().Mean(nil, false).Backward())
	},
	"student and teacher of one model": func(x *autograd.Variable, f func(*autograd.Variable) *autograd.Variable) error {
		a, b := f(x), f(x.MulScalar(2)).Detach()
		return a.Sub(b).Square().Mean(nil, false).Backward()
	},
	"twice the same": func(x *autograd.Variable, f func(*autograd.Variable) *autograd.Variable) error {
		a := f(x).Square().Mean(nil, false)
		return errors.Join(a.Backward(autograd.RetainGraph()), a.Backward())
	},
	"two, twice the sum": func(x *autograd.Variable, f func(*autograd.Variable) *autograd.Variable) error {
		a := f(x).Square().Mean(nil, false).Add(f(x.MulScalar(2)).Square().Mean(nil, false))
		return errors.Join(a.Backward(autograd.RetainGraph()), a.Backward())
	},
}

// asking are the orders of which a backward pass has more parts of a gradient than forward passes came after the one before, which with ZeRO 3 want GradientsInParts.
var asking = map[string]bool{"three, backward of one and two": true, "two, twice the sum": true}

// Forward passes may all come before the backward passes. What cannot be known without GradientsInParts asks for it, and has the gradients of one process then.
func TestBackward_AfterAllForwardPassesIsThatOfOneProcessOrAsksForParts(t *testing.T) {
	newModel := func() *nn.SequentialModule { return nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 16)) }
	for name, order := range orders {
		one, m := ranks(t, 1)[0], newModel()
		require.NoError(t, m.To(one.dev, nn.Seed(1), nn.WithAllocator(one.alloc)))
		g, x := one.graph(2, 16)
		require.NoError(t, order(x, m.Forward))
		g.Release()
		want, err := optim.ClipGradNorm(m.Parameters(), math.Inf(1))
		require.NoError(t, err)
		m.Release()
		for _, inParts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, in parts %v", name, inParts), func(t *testing.T) {
				opts := []parallel.Option{parallel.BucketBytes(64, 64)}
				if inParts {
					opts = append(opts, parallel.GradientsInParts())
				}
				for stage := range 4 {
					all := ranks(t, 2)
					for i, err := range together(all, func(r *rank) error {
						return withModel(r, newModel(), append(opts[:len(opts):len(opts)], parallel.ZeRO(stage)), func(d *parallel.DataParallel) error {
							for range 3 {
								g, x := r.graph(2, 16)
								err := order(x, d.Forward)
								g.Release()
								if stage == 3 && asking[name] && !inParts {
									require.ErrorContains(r.t, err, "ask for GradientsInParts")
									return nil
								}
								if err != nil {
									return err
								}
								norm, err := d.ClipGradNorm(math.Inf(1))
								if err != nil {
									return err
								}
								require.InEpsilon(r.t, want, norm, 1e-5)
								d.ZeroGrad()
							}
							return nil
						})
					}) {
						require.NoError(t, err, "ZeRO %d, rank %d", stage, i)
					}
					requireNothingKept(t, all)
				}
			})
		}
	}
}
