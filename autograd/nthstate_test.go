package autograd_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Running statistics are the caller's: an operation that fails keeps no handle on them, also where one of the two is not there.
func TestBatchNorm_FailsAtEveryCallAndKeepsNothing(t *testing.T) {
	n := newNthCalls(t)
	x := n.random(1, 4, 3)
	for _, training := range []bool{false, true} {
		for _, missing := range []bool{false, true} {
			for nth, more := 1, true; more; nth++ {
				what := fmt.Sprintf("training %v, one missing %v, call %d", training, missing, nth)
				g := n.graph()
				in := g.Input(x)
				base := n.allocated()
				mean, variance := n.statistic(0.5), n.statistic(2)
				if missing {
					variance.Release()
				}
				more = n.during(nth, func() {
					g.Scope(func() *autograd.Variable {
						in.BatchNorm(mean, variance, nil, nil, training, 0.1, 1e-5)
						return nil
					})
				})
				switch {
				case more:
					n.expect(what, g.Err())
				case missing:
					var wrong *autograd.ParameterError
					require.ErrorAs(t, g.Err(), &wrong, what)
				}
				mean.Release()
				variance.Release()
				require.NoError(t, n.alloc.EmptyCache())
				if missing || more {
					require.Equal(t, base, n.allocated(), "%s: %s", what, n.kind)
				}
				g.Release()
			}
		}
	}
}

func (n *nthCalls) statistic(value float64) *autograd.Parameter {
	n.t.Helper()
	x, err := tensor.Full(n.exec, value, tensor.Float64, 3)
	require.NoError(n.t, err)
	p := autograd.NewParameter("running", x)
	p.SetRequiresGrad(false)
	return p
}

// A parameter that cannot move with its gradient stays where it is.
func TestMove_FailsAtEveryCallAndKeepsNothing(t *testing.T) {
	n, far := newNthCalls(t), newNthCalls(t)
	p := autograd.NewParameter("p", must(tensor.Ones(n.exec, tensor.Float64, 3)))
	defer p.Release()
	require.NoError(t, p.SetGrad(must(tensor.Ones(n.exec, tensor.Float64, 3))))
	base := n.allocated()
	for _, to := range []struct {
		exec tensor.Exec
		dt   tensor.DType
	}{{n.exec, tensor.Float32}, {far.exec, 0}, {far.exec, tensor.Float32}} {
		for _, at := range []*nthCalls{n, far} {
			for nth, more := 1, true; more; nth++ {
				what := fmt.Sprintf("%v, call %d", to.dt, nth)
				var m *autograd.Move
				var err error
				if more = at.during(nth, func() { m, err = p.Move(to.exec, to.dt) }); more {
					at.expect(what, err)
				} else {
					require.NoError(t, err)
				}
				if err == nil {
					m.Release()
				}
				require.Equal(t, base, n.allocated(), what)
				require.Zero(t, far.allocated(), what)
			}
		}
	}
}
