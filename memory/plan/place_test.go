package plan

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPlace_RefusesWhatMakesNoSense(t *testing.T) {
	good := Buffer{Size: 512, From: 0, To: 1}
	for name, c := range map[string]struct {
		cycle  int
		bad    Buffer
		kind   Kind
		within string
	}{
		"ends when it begins":     {0, Buffer{512, 3, 3}, BadTimes, "buffer 1 of 512 bytes, live in [3, 3)"},
		"ends before it begins":   {0, Buffer{512, 3, 1}, BadTimes, "live in [3, 1)"},
		"lives too long to count": {0, Buffer{512, math.MinInt, math.MaxInt}, BadTimes, "buffer 1 of 512 bytes"},
		"begins before the cycle": {10, Buffer{512, -1, 1}, OutsideCycle, "live in [-1, 1), cycle 10"},
		"begins after the cycle":  {10, Buffer{512, 10, 11}, OutsideCycle, "live in [10, 11), cycle 10"},
		"outlives the cycle":      {10, Buffer{512, 5, 16}, OutsideCycle, "live in [5, 16), cycle 10"},
		"is too large":            {0, Buffer{math.MaxUint64, 0, 1}, TooLarge, "buffer 1 of 18446744073709551615 bytes"},
		"makes the sum too large": {0, Buffer{math.MaxInt64 - 511, 0, 1}, TooLarge, "buffer 1 of 9223372036854775296 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			p := Problem{Buffers: []Buffer{good, c.bad, good}, Cycle: c.cycle}
			got, err := Place(t.Context(), p)
			var bad *Error
			require.ErrorAs(t, err, &bad)
			require.Equal(t, c.kind, bad.Kind)
			require.Equal(t, 1, bad.Buffer)
			require.Equal(t, c.bad, bad.A)
			require.ErrorContains(t, err, c.within)
			require.Zero(t, got)
			require.Zero(t, p.Bound())
			require.ErrorAs(t, p.Check(make([]uint64, 3)), &bad)
		})
	}
	var bad *Error
	_, err := Place(t.Context(), Problem{Cycle: -1})
	require.ErrorAs(t, err, &bad)
	require.Equal(t, BadCycle, bad.Kind)
}

func TestPlace_TakesWhatIsExtreme(t *testing.T) {
	for name, p := range map[string]Problem{
		"nothing":           {},
		"nothing in cycles": {Cycle: 5},
		"no sizes":          {Buffers: []Buffer{{0, 0, 1}, {0, 0, 2}}},
		"far times":         {Buffers: []Buffer{{512, math.MinInt, -5}, {512, -6, math.MaxInt - 6}, {512, math.MaxInt - 1, math.MaxInt}}},
		"large":             {Buffers: []Buffer{{math.MaxInt64 - 1, 0, 2}, {1, 1, 3}}},
		"whole cycle":       {Buffers: []Buffer{{512, 3, 13}, {1024, 0, 10}, {512, 9, 19}}, Cycle: 10},
		"longest cycle":     {Buffers: []Buffer{{512, math.MaxInt - 1, math.MaxInt}, {512, 0, math.MaxInt}}, Cycle: math.MaxInt},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Place(t.Context(), p)
			require.NoError(t, err)
			require.NoError(t, p.Check(got.Offsets))
			require.Equal(t, p.Bound(), got.Size)
			require.True(t, got.Optimal)
			require.Equal(t, AtTarget, got.Stopped)
		})
	}
}

func TestPlace_BufferThatLivesIntoTheNextRoundMeetsTheOnesOfItsBeginning(t *testing.T) {
	p := Problem{Cycle: 10, Buffers: []Buffer{{512, 8, 12}, {512, 0, 2}, {512, 2, 8}}}
	got, err := Place(t.Context(), p)
	require.NoError(t, err)
	require.EqualValues(t, 1024, got.Size)
	require.NotEqual(t, got.Offsets[0], got.Offsets[1])

	var bad *Error
	require.ErrorAs(t, p.Check([]uint64{0, 511, 0}), &bad)
	require.Equal(t, Error{Kind: Overlap, Buffer: 0, Other: 1, A: p.Buffers[0], B: p.Buffers[1], OffsetB: 511, Cycle: 10}, *bad)
	require.ErrorContains(t, bad, "buffer 0 of 512 bytes, live in [8, 12) at offset 0, and buffer 1 of 512 bytes, live in [0, 2) at offset 511")
	require.NoError(t, p.Check([]uint64{0, 512, 511}))
}

func TestCheck_RefusesOffsetsThatAreNoPlacement(t *testing.T) {
	p := Problem{Buffers: []Buffer{{512, 0, 2}, {512, 1, 3}}}
	var bad *Error
	require.ErrorAs(t, p.Check(nil), &bad)
	require.Equal(t, WrongCount, bad.Kind)
	require.ErrorContains(t, bad, "0 offsets, 2 buffers")
	require.ErrorAs(t, p.Check([]uint64{0, math.MaxUint64 - 100}), &bad)
	require.Equal(t, PastEnd, bad.Kind)
	require.Equal(t, 1, bad.Buffer)
	require.ErrorAs(t, p.Check([]uint64{0, 0}), &bad)
	require.Equal(t, Overlap, bad.Kind)
}

func TestPlace_WithoutAnyAnswerGivesTheErrorOfItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Place(ctx, Problem{Buffers: []Buffer{{512, 0, 1}}})
	require.ErrorIs(t, err, context.Canceled)
}

// countdown is a context that ends when it has been looked at a number of times.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestPlace_GivesTheBestSoFarWhenItsContextEnds(t *testing.T) {
	p := readInstance(t, "testdata/minimalloc/G.1048576.csv")
	got, err := Place(&countdown{t.Context(), 20}, p)
	require.NoError(t, err)
	require.Equal(t, Cancelled, got.Stopped)
	require.NoError(t, p.Check(got.Offsets))

	_, err = Place(&countdown{t.Context(), 2}, p)
	require.ErrorIs(t, err, context.Canceled)
}

func TestPlace_StopsWhereItsOptionsSay(t *testing.T) {
	p := readInstance(t, "testdata/minimalloc/G.1048576.csv")
	place := func(opts ...Option) Placement {
		got, err := Place(t.Context(), p, opts...)
		require.NoError(t, err)
		require.NoError(t, p.Check(got.Offsets))
		return got
	}
	first := place(Effort(1))
	require.Equal(t, NoEffort, first.Stopped)
	more := place(Effort(20_000))
	require.Equal(t, NoEffort, more.Stopped)
	require.Less(t, more.Size, first.Size)
	require.Equal(t, more, place(Effort(20_000)), "the same again")

	require.Equal(t, NoTime, place(Budget(time.Nanosecond)).Stopped)
	enough := place(Target(1.3))
	require.Equal(t, AtTarget, enough.Stopped)
	require.LessOrEqual(t, float64(enough.Size), 1.3*float64(enough.Bound))
	for _, ratio := range []float64{0, math.NaN(), -1} {
		require.Equal(t, more, place(Effort(20_000), Target(ratio)))
	}
	require.Equal(t, AtTarget, place(Target(math.Inf(1))).Stopped)
}

// random returns a problem whose buffers are mostly short-lived.
func random(r *rand.Rand, n, cycle int) (p Problem) {
	p.Cycle = cycle
	for i := range n {
		life := 1 + r.IntN(200)
		if r.IntN(20) == 0 {
			life = 1 + r.IntN(max(n/10, 1))
		}
		if cycle > 0 {
			life = min(life, cycle)
		}
		p.Buffers = append(p.Buffers, Buffer{Size: 512 * uint64(r.IntN(1<<r.IntN(14))), From: i, To: i + life})
	}
	return p
}

func TestPlace_EveryMethodGivesAPlacement(t *testing.T) {
	for _, cycle := range []int{0, 600} {
		p := random(rand.New(rand.NewPCG(1, 2)), 600, cycle)
		large := method{"large", hybrid(byHand, true)}
		for _, task := range p.tasks() {
			for _, m := range append(task.methods(), large) {
				task.best = layout{}
				require.True(t, task.try(m, func(int) bool { return true }))
				offsets := make([]uint64, len(p.Buffers))
				for i, j := range task.jobs {
					offsets[j.id] = task.best.offsets[i]
				}
				only := Problem{Cycle: cycle, Buffers: make([]Buffer, len(p.Buffers))}
				for i := range only.Buffers {
					only.Buffers[i] = Buffer{0, p.Buffers[i].From, p.Buffers[i].To}
				}
				for _, j := range task.jobs {
					only.Buffers[j.id].Size = j.size
				}
				require.NoError(t, only.Check(offsets), m.name)
			}
		}
	}
}

func TestPlace_DividesWhereNothingCrosses(t *testing.T) {
	line := Problem{Buffers: []Buffer{{512, 0, 2}, {512, 1, 4}, {1024, 4, 6}, {512, 9, 10}}}
	require.Len(t, line.tasks(), 3)
	line.Cycle = 10
	require.Len(t, line.tasks(), 3)
	line.Buffers = append(line.Buffers, Buffer{512, 9, 11})
	tasks := line.tasks()
	require.Len(t, tasks, 2, "the last goes on as the first")
	for _, task := range tasks {
		require.Zero(t, task.wrapped, "the rounds can begin where nothing crosses")
	}
}
