package replay

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/trace"
)

func TestCompile_UsesSlotsAgainAndFreesWhatIsLeft(t *testing.T) {
	p, err := Compile(parse(t, "m x\na 0 10 5\na 1 20 0\ns 1 7\nf 0\nc 5\na 2 30 7\ne\nf 1\n"))
	require.NoError(t, err)
	require.Equal(t, &Program{
		Ops: []Op{
			{Kind: trace.Mark},
			{Kind: trace.Alloc, Bytes: 10, Slot: 0, Stream: 0},
			{Kind: trace.Alloc, Bytes: 20, Slot: 1, Stream: 1},
			{Kind: trace.Record, Slot: 1, Stream: 2},
			{Kind: trace.Free, Slot: 0},
			{Kind: trace.Complete, Stream: 0},
			{Kind: trace.Alloc, Bytes: 30, Slot: 0, Stream: 2},
			{Kind: trace.Empty},
			{Kind: trace.Free, Slot: 1},
			{Kind: trace.Free, Slot: 0},
		},
		Slots: 2, Streams: []uint64{5, 0, 7}, Pairs: 3, Steps: []int{3},
	}, p)
}

func TestCompile_NeedsAsManySlotsAsBlocksAlive(t *testing.T) {
	tr := testTrace(t, "gpt_prefetch")
	p, err := Compile(tr)
	require.NoError(t, err)
	r, err := Run(tr, Options{Capacity: capacity})
	require.NoError(t, err)
	require.Equal(t, r.LivePeak, p.Slots)
	require.Equal(t, r.Allocs, p.Pairs)
	require.Equal(t, r.Events+len(r.Marks)-1, len(p.Ops)) // the last of the marks is the end
}

func TestCompile_RefusesMoreStreamsThanItCanNumber(t *testing.T) {
	tr := &trace.Trace{}
	for i := range uint64(1<<16 + 1) {
		tr.Events = append(tr.Events, trace.Event{Kind: trace.Complete, Stream: i})
	}
	_, err := Compile(tr)
	require.ErrorContains(t, err, "65,536 streams")
}

func TestTime_GivesATimeForEveryKindOfReplay(t *testing.T) {
	for _, o := range []Options{
		{Capacity: capacity}, {Capacity: capacity, Direct: true}, {Capacity: capacity, Device: device.Host},
		{Capacity: capacity, Planned: true}, {Capacity: 64 * device.MiB, Config: config(t, "expandable_segments:True")},
	} {
		ns, steady, err := Time(testTrace(t, "gpt_prefetch"), o)
		require.NoError(t, err)
		require.Positive(t, ns)
		require.Positive(t, steady)
	}
}

func TestProgram_TheMedianStepOfTheSteadyState(t *testing.T) {
	p := &Program{Steps: []int{1, 1, 2, 0, 10, 1}}
	var marks []time.Time
	for _, at := range []int64{0, 1000, 2000, 2400, 2900, 3000, 9000} {
		marks = append(marks, time.Unix(0, at))
	}
	require.InDelta(t, 200.0, p.median(marks), 0) // of 200, 10 and 6000
	require.Zero(t, (&Program{Steps: []int{1, 1}}).median(marks[:3]))
}

func TestTime_OfATraceWithoutAllocationsIsZero(t *testing.T) {
	ns, steady, err := Time(parse(t, "m nothing\ne\n"), Options{Capacity: capacity})
	require.NoError(t, err)
	require.Zero(t, ns)
	require.Zero(t, steady)
}
