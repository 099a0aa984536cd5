package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Gradients that are made anew in even steps, and added to in odd ones by blocks that go at once, are as the plan expects in both, and it takes no more
// than what is alive.
func TestPlan_GradientsThatAreKeptInEveryOtherStep(t *testing.T) {
	r, p := newMovingRig(t)
	var gradient, state Block
	for step := range 2 * recentSteps {
		odd := step%2 == 1
		require.NoError(t, p.Step())
		batch := r.alloc(4*mib, 0)
		if !odd && step != 0 {
			r.free(gradient)
		}
		x := r.alloc(30*mib, 0)
		if g := r.alloc(16*mib, 0); odd {
			r.free(g)
		} else {
			gradient = g
		}
		r.free(x)
		r.free(r.alloc(46*mib, 0), batch)
		if step == 0 { // which makes it another program
			state = r.alloc(2*mib, 0)
		}
		r.check()
	}
	require.Zero(t, p.Stats().Deviations())
	require.EqualValues(t, recentSteps, p.Stats().Outside)
	require.EqualValues(t, 68*mib, r.reserved()) // the state, the batch, and 46 and 16
	r.free(gradient, state)
	require.NoError(t, p.Close())
	r.empty()
	require.Zero(t, r.reserved())
}

func TestRenewals_Has(t *testing.T) {
	r := renewals{3: 4 * mib, 5: 2048}
	for _, c := range []struct {
		request int
		size    uint64
		want    bool
	}{
		{3, 4 * mib, true}, {3, 3 * mib, true}, // what is left of it would not be split
		{3, 3*mib - minBlock, false}, {3, 5 * mib, false}, {4, 4 * mib, false},
		{5, 2048, true}, {5, 1024, false},
	} {
		require.Equal(t, c.want, r.has(c.request, c.size), "request %d of %d bytes", c.request, c.size)
	}
	require.False(t, renewals(nil).has(0, 512))
}
