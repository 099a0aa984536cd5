package memory

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// strayProgram takes steps in which blocks are kept for longer, or lie on another stream, at random.
type strayProgram struct {
	*rig
	plan *Plan
	rng  *rand.Rand
	kept []strayBlock
	took int
}

// strayBlock goes in a step, before its request of a number.
type strayBlock struct {
	Block
	step, at int
}

// strayOp is a request, before which later one its block is freed, and how often, of a hundred times, it is kept for a step or two.
type strayOp struct {
	size     uint64
	end      int
	kept     int
	anywhere bool // it is on either of two streams
}

func newStrayProgram(t *testing.T, seed uint64, planned bool) *strayProgram {
	r := &strayProgram{rig: newRig(t, 4096*mib, compacting102), rng: rand.New(rand.NewPCG(seed, 7))}
	if planned {
		var err error
		r.plan, err = r.a.NewPlan(PlanWait(longWait))
		require.NoError(t, err)
	}
	return r
}

func (r *strayProgram) step(ops []strayOp) {
	if r.plan != nil {
		require.NoError(r.t, r.plan.Step())
	}
	for i := range len(ops) + 1 {
		left := r.kept[:0]
		for _, b := range r.kept {
			if b.step < r.took || b.step == r.took && b.at <= i {
				require.NoError(r.t, r.a.Free(b.Block))
			} else {
				left = append(left, b)
			}
		}
		if r.kept = left; i == len(ops) {
			break
		}
		op, stream := ops[i], 0
		if op.anywhere {
			stream = r.rng.IntN(2)
		}
		b, err := r.a.Alloc(op.size, r.stream(stream)) // without a check of all that there is, which takes long
		require.NoError(r.t, err)
		x := strayBlock{b, r.took, op.end}
		if r.rng.IntN(100) < op.kept {
			x.step, x.at = r.took+1+r.rng.IntN(2), r.rng.IntN(len(ops)+1)
		}
		r.kept = append(r.kept, x)
	}
	r.took++
}

// strayKinds are kinds of steps with random sizes, of which a request has blocks that are kept in some of a hundred steps.
func strayKinds(rng *rand.Rand, kinds, kept int, anywhere bool) [][]strayOp {
	list := make([][]strayOp, kinds)
	for k := range list {
		n := 3 + rng.IntN(5)
		for i := range n {
			list[k] = append(list[k], strayOp{size: uint64(256*kib + rng.IntN(12*mib)), end: i + 1 + rng.IntN(n-i), anywhere: anywhere})
		}
		list[k][rng.IntN(n)].kept = kept
	}
	return list
}

// Where blocks outlive their steps at random, or lie on one stream or another, the plan takes hardly more memory than the program without it, and no more calls of the driver: if nothing else helps,
// it stands aside.
func TestPlan_StandsAsideWhereStepsGoNoWay(t *testing.T) {
	for _, c := range []struct {
		kinds, kept int
		anywhere    bool
		seed        uint64
	}{{1, 5, false, 1}, {1, 20, false, 2}, {2, 10, false, 23}, {2, 20, false, 4}, {1, 0, true, 5}, {1, 0, true, 6}} {
		kinds := strayKinds(rand.New(rand.NewPCG(c.seed, 8)), c.kinds, c.kept, c.anywhere)
		var calls, reserved [2]int64
		active := int64(0)
		for with := range calls {
			r := newStrayProgram(t, c.seed, with == 1)
			for i := range 400 {
				if i == 200 {
					r.a.ResetPeakStats()
					s := r.a.Stats()
					calls[with] -= s.NumDeviceAlloc + s.NumDeviceFree
				}
				r.step(kinds[i%len(kinds)])
			}
			r.check()
			s := r.a.Stats()
			calls[with] += s.NumDeviceAlloc + s.NumDeviceFree
			reserved[with], active = s.ReservedBytes.All.Peak, s.ActiveBytes.All.Peak
			require.NoError(t, r.plan.Close())
		}
		require.LessOrEqual(t, reserved[1], max(reserved[0], active+active/50+2*mib), "%+v", c)
		require.LessOrEqual(t, calls[1], calls[0]+10, "%+v", c)
	}
}

// A program that has come to rest meanwhile has its places again, and keeps them.
func TestPlan_ComesBackAfterItHasStoodAside(t *testing.T) {
	r := newStrayProgram(t, 1, true)
	ops := []strayOp{{size: 5 * mib, end: 4}, {size: 3 * mib, end: 3}, {size: 9 * mib, end: 4}, {size: 2 * mib, end: 4, kept: 30}}
	for range 200 {
		r.step(ops)
	}
	require.Equal(t, aside, r.plan.unrest.stand)
	before := r.plan.Stats().Served
	stood := r.plan.Stats().Aside
	require.Positive(t, stood)
	r.step(ops)
	require.Equal(t, stood+1, r.plan.Stats().Aside)
	ops[3].kept = 0
	for range firstAside {
		r.step(ops)
	}
	require.Equal(t, serving, r.plan.unrest.stand)
	require.Greater(t, r.plan.Stats().Served, before)
	stood = r.plan.Stats().Aside
	for range learning + mostBad*watched {
		r.step(ops)
	}
	now := r.plan.Stats()
	require.Equal(t, stood, now.Aside)
	r.step(ops)
	require.EqualValues(t, len(ops), r.plan.Stats().Served+r.plan.Stats().Outside-now.Served-now.Outside)
	require.Equal(t, serving, r.plan.unrest.stand)
	require.NoError(t, r.plan.Close())
}

// A program near its limit keeps its places: it would perhaps not fit without them.
func TestPlan_DoesNotStandAsideNearTheLimit(t *testing.T) {
	for _, near := range []bool{false, true} {
		r := newStrayProgram(t, 5, true)
		if near {
			r.a.SetMemoryLimit(40 * mib)
		}
		kinds := strayKinds(rand.New(rand.NewPCG(5, 8)), 1, 0, true)
		for range 200 {
			r.step(kinds[0])
		}
		require.Equal(t, near, r.plan.unrest.stand == serving)
		require.NoError(t, r.plan.Close())
	}
}

func TestUnrest_WaitsLongerEachTime(t *testing.T) {
	u := unrest{}
	for _, pause := range []int{firstAside, 2 * firstAside, 4 * firstAside} {
		u.stand, u.keeps = serving, 0
		require.False(t, u.judge(course{events: 1}, false, 10, false))
		require.False(t, u.judge(course{events: 1}, false, 10, true), "streams in turn")
		require.False(t, u.judge(course{events: 1}, false, 10, false))
		require.False(t, u.judge(course{reserved: 11}, true, 10, false), "something new")
		require.True(t, u.judge(course{reserved: 11}, false, 10, false))
		require.Equal(t, pause, u.keeps)
		require.False(t, u.judge(course{reserved: 11}, false, 10, false))
	}
}

func TestCourse_Worse(t *testing.T) {
	for _, c := range []struct {
		without, with course
		worse         bool
	}{
		{course{reserved: 100 * mib}, course{reserved: 90 * mib, calls: 100}, true},
		{course{reserved: 90 * mib, calls: 100}, course{reserved: 100 * mib}, false},
		{course{reserved: 80 * mib}, course{reserved: 50 * mib, calls: 1}, false}, // within the bound
		{course{reserved: 80 * mib, calls: 11}, course{reserved: 80 * mib, calls: 1}, true},
		{course{reserved: 80 * mib, calls: 8}, course{reserved: 80 * mib}, false},
	} {
		require.Equal(t, c.worse, c.without.worse(c.with, 80*mib), "%+v", c)
	}
}
