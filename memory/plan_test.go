package memory

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// longWait is for tests: every placement is in force when the next step begins.
const longWait = time.Minute

// A program that repeats itself is served from the second step on, in as much memory as is alive at once.
func TestPlan_ServesAStepThatRepeats(t *testing.T) {
	r := newRig(t, 1024*mib, "")
	p, err := r.a.NewPlan(PlanWait(longWait))
	require.NoError(t, err)
	for range 4 {
		require.NoError(t, p.Step())
		x := r.alloc(30*mib, 0)
		y := r.alloc(50*mib, 0)
		r.free(x)
		z := r.alloc(70*mib, 0)
		r.free(y)
		w := r.alloc(40*mib, 0)
		r.free(z, w)
	}
	s := p.Stats()
	require.EqualValues(t, 12, s.Served)
	require.EqualValues(t, 0, s.Refused)
	require.EqualValues(t, 120*mib, s.Bound) // 50 and 70
	require.EqualValues(t, 120*mib, s.Size)
	require.EqualValues(t, 120*mib, r.reserved())
	require.NoError(t, p.Close())
	require.EqualValues(t, 0, r.reserved())
}
