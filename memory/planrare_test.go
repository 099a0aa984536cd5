package memory

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// training and rare are kinds of steps, of which the second needs more.
const (
	trainingKind = "+0=24 +1=48 -1 -0"
	rareKind     = "+0=24 +1=16 +2=40 -2 -1 -0"
)

// An evaluation that comes back after many steps finds its memory in the arena: the driver is not called.
func TestPlan_RareKindsFindTheirMemory(t *testing.T) {
	for _, every := range []int{20, 100, 300} {
		r := newKindsProgram(t, compacting102, true)
		before := int64(0)
		for i := range 8 * every {
			if i == 4*every {
				before = r.calls()
			}
			if i%every == every-1 {
				r.step(rareKind)
			} else {
				r.step(trainingKind)
			}
		}
		require.Equal(t, before, r.calls(), fmt.Sprint("every ", every))
	}
}

// For a kind that does not come back the arena is not held larger: it has that for 16 steps, or twice as long as it ever stayed away, up to 1,024.
func TestPlan_KindsThatStayAwayLoseTheirMemory(t *testing.T) {
	for _, c := range []struct {
		came []int // in which steps, after the first few of the kind
		kept int   // for how many after the last one
	}{
		{[]int{10}, recentSteps},
		{[]int{10, 15}, recentSteps},
		{[]int{10, 60}, 100},
		{[]int{10, 60, 61, 62}, 100},
		{[]int{10, 710}, longestAway},
	} {
		r := newKindsProgram(t, compacting102, true)
		last := c.came[len(c.came)-1]
		for i := range last + c.kept + 1 {
			if i > last {
				require.EqualValues(t, 80*mib, r.plan.Stats().Arena, "%v step %d", c.came, i)
			}
			if i < 4 || slices.Contains(c.came, i) {
				r.step(rareKind)
			} else {
				r.step(trainingKind)
			}
		}
		require.NoError(t, r.plan.Step())
		require.EqualValues(t, 72*mib, r.plan.Stats().Arena, "%v", c.came)
	}
}
