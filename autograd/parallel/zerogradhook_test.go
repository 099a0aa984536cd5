package parallel_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/tensor"
)

// hookedPass is a pass over two layers in which clear is called once by a gradient hook: of the result, before any gradient of a parameter has come, of the weight of the first layer itself, of what is between the
// layers, when those of the second have come, or of the input, when all have.
func hookedPass(r *rank, m *nn.SequentialModule, run func(g *autograd.Graph, f func() *autograd.Variable) *autograd.Variable, place string, clear func()) error {
	g := autograd.NewGraph(r.dev, autograd.WithAllocator(r.alloc))
	defer g.Release()
	ones, err := tensor.Ones(r.exec, tensor.Float32, 2, 16)
	if err != nil {
		return err
	}
	defer ones.Release()
	hook := func(*tensor.Tensor) (*tensor.Tensor, error) { clear(); return nil, nil }
	x := g.Input(ones, autograd.RequiresGrad())
	var between *autograd.Variable
	y := run(g, func() *autograd.Variable {
		between = m.At(0).Forward(x)
		return m.At(1).Forward(between)
	})
	switch place {
	case "result":
		y.RegisterHook(hook)
	case "weight":
		defer m.Parameters()[0].RegisterHook(hook).Remove()
	case "between":
		between.RegisterHook(hook)
	case "input":
		x.RegisterHook(hook)
	}
	return y.Square().Mean(nil, false).Backward()
}

// cleared is what hooks release: of the model, or of what an optimizer has for its parameters.
var cleared = map[string]func(m *nn.SequentialModule, of func(*autograd.Parameter) []*autograd.Parameter){
	"model": func(m *nn.SequentialModule, _ func(*autograd.Parameter) []*autograd.Parameter) { m.ZeroGrad() },
	"weight": func(m *nn.SequentialModule, _ func(*autograd.Parameter) []*autograd.Parameter) {
		m.Parameters()[0].ZeroGrad()
	},
	"optimizer": func(m *nn.SequentialModule, of func(*autograd.Parameter) []*autograd.Parameter) {
		zeroed(m.Parameters(), of)
	},
	"first layer's optimizer": func(m *nn.SequentialModule, of func(*autograd.Parameter) []*autograd.Parameter) {
		zeroed(m.Parameters()[:2], of)
	},
	"optimizer, then the model": func(m *nn.SequentialModule, of func(*autograd.Parameter) []*autograd.Parameter) {
		zeroed(m.Parameters(), of)
		m.ZeroGrad()
	},
}

func zeroed(ps []*autograd.Parameter, of func(*autograd.Parameter) []*autograd.Parameter) {
	for _, p := range ps {
		for _, part := range of(p) {
			part.ZeroGrad()
		}
	}
}

// A gradient hook that releases gradients does what it does in one process, or is an error of all ranks: where a gradient is in what the ranks sum, or an optimizer has the rank's parts of it alone. A pass without communication, or one that sums, comes before.
func TestZeroGrad_InAHookIsAsInOneProcessOrTold(t *testing.T) {
	newModel := func() *nn.SequentialModule { return nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 4)) }
	groups := []int{2}
	if fulltests.Enabled() {
		groups = []int{2, 4}
	}
	plain := func(_ *autograd.Graph, f func() *autograd.Variable) *autograd.Variable { return f() }
	for what, clear := range cleared {
		for _, place := range []string{"result", "weight", "between", "input"} {
			one := ranks(t, 1)[0]
			m := newModel()
			require.NoError(t, m.To(one.dev, nn.Seed(1), nn.WithAllocator(one.alloc)))
			opt := optim.SGD(m.Parameters(), optim.LR(0.1))
			require.NoError(t, hookedPass(one, m, plain, "", nil))
			require.NoError(t, hookedPass(one, m, plain, place, func() {
				clear(m, func(p *autograd.Parameter) []*autograd.Parameter { return []*autograd.Parameter{p} })
			}))
			require.NoError(t, opt.Step())
			want, err := valuesOf(m)
			require.NoError(t, err)
			m.Release()
			for _, how := range []string{"NoSync first", "NoSync both", "sum first"} {
				for _, n := range groups {
					t.Run(fmt.Sprintf("%s, by %s, %s, %d ranks", what, place, how, n), func(t *testing.T) {
						sharedOutOver(t, n, []int{0, 1, 2, 3}, func(r *rank, stage int, m *nn.SequentialModule, d *parallel.DataParallel) error {
							opt := optim.SGD(d.Parameters(), optim.LR(0.1))
							err := passesOf(r, m, d, how, place, func() { clear(m, d.ParametersOf) })
							if told := mayNotClear(what, place, how, stage); told != "" {
								if err == nil { // it has not needed the other
									_, err = d.Gather(1)
								}
								require.Regexp(r.t, told, err)
								d.ZeroGrad()
								return nil
							}
							if err := errorsInTurn(func() error { return err }, opt.Step); err != nil {
								return err
							}
							d.ZeroGrad()
							have, err := wholeValues(d, m)
							for name, v := range want {
								require.InDeltaSlice(r.t, v, have[name], 1e-5, name)
							}
							return err
						})
					})
				}
			}
		}
	}
}

// passesOf are the passes before the step, in the last but the zeros of which the hook is called.
func passesOf(r *rank, m *nn.SequentialModule, d *parallel.DataParallel, how, place string, clear func()) error {
	sum := func(place string) func() error {
		return func() error { return hookedPass(r, m, d.Run, place, clear) }
	}
	alone := func(place string) func() error { return func() error { return d.NoSync(sum(place)) } }
	switch how {
	case "NoSync first":
		return errorsInTurn(alone(""), sum(place))
	case "NoSync both": // then zeros, with which they are summed
		return errorsInTurn(alone(""), alone(place), func() error { return zeroPass(r, d) })
	default:
		return errorsInTurn(sum(""), sum(place))
	}
}

// mayNotClear is what the error says, "" if there is none.
func mayNotClear(what, place, how string, stage int) string {
	const (
		late  = "after its gradient had come to those that are summed over the ranks"
		parts = "call DataParallel.ZeroGrad or the model's"
	)
	ofParts := stage > 0 && strings.HasSuffix(what, "optimizer")
	come := place != "result"                                  // something of what is released has come
	if what == "weight" || what == "first layer's optimizer" { // nor has its bias when that of its weight comes
		come = place == "input"
	}
	switch {
	case how == "NoSync both" && ofParts:
		return parts
	case how == "NoSync both":
		return ""
	case come && ofParts: // a rank's parts may be of what has come, or not
		return late + "|" + parts
	case come:
		return late
	case how == "NoSync first" && ofParts:
		return parts
	}
	return ""
}

// zeroPass is a pass whose gradients are zero.
func zeroPass(r *rank, d *parallel.DataParallel) error {
	g, x := r.graph(2, 16)
	defer g.Release()
	return d.Forward(x).Square().Mean(nil, false).MulScalar(0).Backward()
}

// errorsInTurn calls functions until one fails.
func errorsInTurn(fs ...func() error) error {
	for _, f := range fs {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// Hooks that are called with the sum may release it, and what is not given yet stays: of no earlier pass, which would be in the sum, is anything lost.
func TestZeroGrad_InAPostAccumulateHook(t *testing.T) {
	for _, how := range []string{"the last one", "each, nothing before", "each, NoSync before"} {
		t.Run(how, func(t *testing.T) {
			sharedOut(t, []int{0, 1, 2, 3}, func(r *rank, _ int, m *nn.SequentialModule, d *parallel.DataParallel) error {
				opt := optim.SGD(d.Parameters(), optim.LR(0.1))
				before, err := wholeValues(d, m)
				if err != nil {
					return err
				}
				if how != "each, nothing before" {
					if err := d.NoSync(func() error { return r.backward(d, 16) }); err != nil {
						return err
					}
				}
				calls := 0
				for _, p := range d.Parameters() {
					p.RegisterPostAccumulateGradHook(func(*autograd.Parameter) error {
						calls++
						if how == "the last one" && calls < len(d.Parameters()) {
							return nil
						}
						if err := opt.Step(); err != nil {
							return err
						}
						opt.ZeroGrad()
						if how == "the last one" {
							d.ZeroGrad()
						}
						return nil
					})
				}
				err = r.backward(d, 16)
				if how == "each, NoSync before" {
					if err == nil {
						_, err = d.Gather(1)
					}
					require.ErrorContains(r.t, err, "after its gradient had come to those that are summed over the ranks")
					d.ZeroGrad()
					return nil
				}
				if err != nil {
					return err
				}
				requireNoGradients(r.t, d)
				after, err := wholeValues(d, m)
				for name := range before {
					require.NotEqual(r.t, before[name], after[name], name)
				}
				return err
			})
		})
	}
}
