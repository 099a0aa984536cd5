package autograd_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

var errNthCall = errors.New("injected failure")

// nthCalls fails calls of a simulated device whose allocator has no cache, so that each allocation is a call too. Leaves are on a stream of
// their own, graphs on another.
type nthCalls struct {
	*rig
	dev   *sim.Device
	fail  int // which call fails; 0 for none
	calls int
	kind  sim.CallKind // of the call that failed
}

func newNthCalls(t *testing.T) *nthCalls {
	t.Helper()
	n := &nthCalls{dev: sim.New(1 << 30)}
	alloc := memory.NewDirect(n.dev)
	s, err := n.dev.NewStream()
	require.NoError(t, err)
	e, err := tensor.On(n.dev, tensor.WithAllocator(alloc), tensor.WithStream(s))
	require.NoError(t, err)
	n.rig = &rig{t: t, dev: n.dev, alloc: alloc, exec: e}
	t.Cleanup(func() {
		require.Zero(t, n.allocated(), "bytes still allocated at the end of the test")
		require.NoError(t, n.dev.Close())
	})
	return n
}

// during has the nth call fail that f makes, and reports whether it made as many.
func (n *nthCalls) during(nth int, f func()) bool {
	n.fail, n.calls = nth, 0
	n.dev.Inject(func(c sim.Call) error {
		if n.calls++; n.calls == n.fail {
			n.kind = c.Kind
			return errNthCall
		}
		return nil
	})
	f()
	n.dev.Inject(nil)
	return n.calls >= nth
}

// parameters makes parameters of the inputs that can have gradients; the others stay as they are, and are nil here.
func (n *nthCalls) parameters(inputs []*tensor.Tensor) (ps []*autograd.Parameter) {
	for _, x := range inputs {
		var p *autograd.Parameter
		if x.DType().IsFloat() {
			p = autograd.NewParameter("p", must(x.Clone()))
			n.t.Cleanup(p.Release)
		}
		ps = append(ps, p)
	}
	return ps
}

// leaves gives inputs to a graph.
func leaves(g *autograd.Graph, inputs []*tensor.Tensor, ps []*autograd.Parameter) (in vars) {
	for i, x := range inputs {
		if ps[i] != nil {
			in = append(in, g.Param(ps[i]))
		} else {
			in = append(in, g.Input(x))
		}
	}
	return in
}

// silent are the kinds of calls that only frees make, whose failure has nobody to tell: the allocator tries again.
var silent = []sim.CallKind{sim.CallFree, sim.CallStreamSync, sim.CallEventQuery, sim.CallEventSync}

func (n *nthCalls) expect(what string, err error) {
	n.t.Helper()
	if slices.Contains(silent, n.kind) {
		require.NoError(n.t, n.alloc.EmptyCache(), what)
		return
	}
	require.ErrorIs(n.t, err, errNthCall, "%s: %s", what, n.kind)
}

// What an operation took for itself must be back when it fails, and not only when its graph is released.
func TestOperations_FailAtEveryCallAndKeepNothing(t *testing.T) {
	n := newNthCalls(t)
	for i, c := range slices.Concat(gradientCases, composedCases) {
		if testing.Short() && i%4 != 0 {
			continue
		}
		if strings.HasPrefix(c.op, "batch_norm") {
			continue // its cases make their running statistics, and cannot tell that they failed
		}
		inputs := c.make(n.rig)
		ps := n.parameters(inputs)
		for nth, more := 1, true; more; nth++ {
			what := fmt.Sprintf("%s %s, call %d", c.op, c.note, nth)
			g := n.graph(autograd.WithGenerator(tensor.NewGenerator(1)))
			in := leaves(g, inputs, ps)
			base := n.allocated()
			if more = n.during(nth, func() {
				g.NoGrad(func() *autograd.Variable { return g.Scope(func() *autograd.Variable { c.f(in); return nil }) })
			}); more {
				n.expect(what, g.Err())
			}
			require.Equal(t, base, n.allocated(), "%s: %s", what, n.kind)
			g.Release()
		}
	}
}

// A pass that keeps its graph, and fails, leaves what was there before, but for gradients.
func TestBackward_FailsAtEveryCallAndKeepsNothing(t *testing.T) {
	n := newNthCalls(t)
	for _, c := range gradientCases {
		inputs := c.make(n.rig)
		ps := n.parameters(inputs)
		start := n.allocated()
		for nth, more := 1, true; more; nth++ {
			what := fmt.Sprintf("%s %s, call %d", c.op, c.note, nth)
			g := n.graph(autograd.WithGenerator(tensor.NewGenerator(1)))
			in := leaves(g, inputs, ps)
			loss := c.f(in).Sum(nil, false)
			base := n.allocated()
			var err error
			if more = n.during(nth, func() { err = loss.Backward(autograd.RetainGraph()) }); more {
				n.expect(what, err)
			}
			for _, p := range ps {
				p.ZeroGrad()
			}
			require.Equal(t, base, n.allocated(), "%s: %s", what, n.kind)
			g.Release()
			require.Equal(t, start, n.allocated(), "%s: %s, after Release", what, n.kind)
		}
	}
}
