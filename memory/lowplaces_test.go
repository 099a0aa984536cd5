package memory

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/memory/plan"
)

// Models in turn, each on a stream of its own, share the memory also where blocks of the first are in use while the second works: those lie low.
func TestPlan_WhatIsInUseLongLiesLow(t *testing.T) {
	for _, kind := range []string{
		"+1=2 +0=32 -0 +2=32@1 -2 -1",
		"+0=40 +1=10 -0 +2=30 +3=6 -2 +4=24 -4 +5=64@1 -5 +6=50@1 -6 -1 -3",
	} {
		r := newKindsProgram(t, compacting102, true)
		for i := range 40 {
			if i == 20 {
				r.a.ResetPeakStats()
			}
			r.step(kind)
		}
		r.check()
		s := r.a.Stats()
		require.LessOrEqual(t, s.ReservedBytes.All.Peak, s.ActiveBytes.All.Peak+2*mib, kind)
	}
}

// What lies lower is a placement as good as before.
func TestLower(t *testing.T) {
	lowered := 0
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 4))
		q := plan.Problem{Cycle: 2 + rng.IntN(20)}
		for i := range q.Cycle {
			q.Buffers = append(q.Buffers, plan.Buffer{Size: uint64(1 + rng.IntN(100)), From: i, To: i + 1 + rng.IntN(q.Cycle)})
		}
		k := &packing{ctx: context.Background(), q: q, improve: time.Millisecond}
		r := k.pack(nil)
		require.NoError(t, r.err)
		was := r
		k.lower(&r)
		require.NoError(t, q.Check(r.Offsets))
		require.LessOrEqual(t, r.Size, was.Size)
		if h := height(q, r.Offsets); h != height(q, was.Offsets) {
			require.Less(t, h, height(q, was.Offsets))
			lowered++
		}
	}
	require.Greater(t, lowered, 15)
}

func TestHeight(t *testing.T) {
	q := plan.Problem{Cycle: 3, Buffers: []plan.Buffer{{Size: 10, From: 0, To: 2}, {Size: 5, From: 1, To: 4}}}
	require.EqualValues(t, 15+15+15+3*15, height(q, []uint64{0, 10}))
	require.EqualValues(t, 15+15+5+3*5, height(q, []uint64{5, 0}))
	require.Zero(t, height(plan.Problem{Cycle: 1}, nil))
}
