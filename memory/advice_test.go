package memory

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

// recording is whether history is recorded.
type recording string

const (
	withHistory    recording = "with history"
	withoutHistory recording = "without history"
)

// advised are programs that end with a request that fails, and what would have served it: a setting, or a part of the hint.
var advised = []struct {
	name, conf string
	capacity   uint64
	run        func(r *rig) error
	only       recording // where the advice is known
	setting    string
	hint       string
}{
	{name: "a large block that is free beside a small request", capacity: 20 * mib, run: func(r *rig) error {
		r.alloc(2*mib, 0)
		return r.try(512*kib, 0) // the 18 MiB behind the block are the large pool's, and share its page
	}, only: withoutHistory, hint: "A block of 18.00 MiB is free in the pool of requests of more than 1 MiB"},
	{name: "a large segment beside a small request", capacity: 20 * mib, only: withHistory, run: func(r *rig) error {
		r.alloc(2*mib, 0)
		return r.try(512*kib, 0)
	}, setting: "large_segment_size_mb:11"},
	{name: "halves of segments", capacity: 400 * mib, run: func(r *rig) error {
		blocks := []Block{r.alloc(80*mib, 0), r.alloc(80*mib, 0), r.alloc(80*mib, 0), r.alloc(80*mib, 0)}
		r.free(blocks...)
		for range blocks {
			r.alloc(41*mib, 0)
		}
		return r.try(120*mib, 0)
	}, setting: "expandable_segments:True"},
	{name: "halves without a page", capacity: 200 * mib, only: withHistory, run: func(r *rig) error {
		blocks := []Block{r.alloc(40*mib, 0), r.alloc(40*mib, 0), r.alloc(40*mib, 0), r.alloc(40*mib, 0)}
		r.free(blocks...)
		for range blocks {
			r.alloc(21*mib, 0)
		}
		return r.try(60*mib, 0)
	}, setting: "expandable_segments:True"},
	{name: "small blocks cut large ones, without virtual memory", conf: "expandable_segments_reserve:0.01", capacity: 150 * mib, only: withHistory, run: func(r *rig) error {
		for range 2 {
			big := r.alloc(50*mib, 0)
			r.free(big)
			r.alloc(11*mib, 0) // with max_split_size_mb it does not cut the large one
		}
		r.alloc(30*mib, 0)
		return r.try(52*mib, 0)
	}, setting: "max_split_size_mb:32"},
	{name: "a page on each of four streams", conf: "expandable_segments:True", capacity: 100 * mib, only: withHistory, run: func(r *rig) error {
		for s := range 4 {
			r.alloc(10*mib, s)
		}
		return r.try(56*mib, 0)
	}, hint: "On one stream, in place of 4, this request would have been served"},
	{name: "a block of another stream", capacity: 100 * mib, run: func(r *rig) error {
		b := r.alloc(60*mib, 1)
		r.free(b)
		r.alloc(12*mib, 1)
		r.alloc(20*mib, 0)
		return r.try(42*mib, 0)
	}, setting: "expandable_segments:True"},
	{name: "a block of another stream, with pages", conf: "expandable_segments:True", capacity: 120 * mib, only: withoutHistory, run: func(r *rig) error {
		a, b := r.alloc(15*mib, 1), r.alloc(15*mib, 1)
		r.alloc(10*mib, 1)
		_, _ = a, b
		r.free(a)
		r.alloc(75*mib, 0)
		return r.try(14*mib, 0)
	}, hint: "Stream 1 has a free block of 15.00 MiB"},
	{name: "a limit", conf: "per_process_memory_fraction:0.5", capacity: 100 * mib, run: func(r *rig) error {
		r.alloc(40*mib, 0)
		return r.try(20*mib, 0)
	}, hint: "a limit of 60.00 MiB would have been enough"},
	{name: "too much in use", capacity: 100 * mib, run: func(r *rig) error {
		r.alloc(90*mib, 0)
		return r.try(20*mib, 0)
	}, hint: "Nothing that is cached would serve it"},
}

func (r *rig) try(bytes uint64, s int) error {
	_, err := r.tryAlloc(bytes, s)
	return err
}

// recorded is a rig that records history if that is asked for.
func recorded(t testing.TB, capacity uint64, conf string, history recording) *rig {
	r := newRig(t, capacity, conf)
	if history == withHistory {
		require.NoError(t, r.a.RecordHistory(HistoryOptions{}))
	}
	return r
}

// Each setting that is named is applied, and seen to serve the request.
func TestAdvice_IsTrue(t *testing.T) {
	for _, c := range advised {
		for _, history := range []recording{withoutHistory, withHistory} {
			if c.only != "" && c.only != history {
				continue
			}
			t.Run(fmt.Sprintf("%s, %s", c.name, history), func(t *testing.T) {
				var oom *OOMError
				require.ErrorAs(t, c.run(recorded(t, c.capacity, c.conf, history)), &oom)
				require.Equal(t, c.setting, oom.Setting, oom.Hint)
				require.Contains(t, oom.Hint, c.hint)
				if oom.Setting != "" {
					require.Contains(t, oom.Hint, "With "+oom.Setting)
					require.NoError(t, c.run(newRig(t, c.capacity, join(c.conf, oom.Setting))))
				}
			})
		}
	}
}

func join(conf, setting string) string { return strings.TrimPrefix(conf+","+setting, ",") }

// A limit that is said to be enough is, and one byte less is not.
func TestAdvice_NamesTheLeastLimit(t *testing.T) {
	r := newRig(t, 100*mib, "")
	r.a.SetMemoryLimit(50 * mib)
	r.alloc(40*mib, 0)
	oom := requireOOM(t, r.try(20*mib, 0), ErrLimit)
	require.EqualValues(t, 60*mib, oom.EnoughLimit)
	r.a.SetMemoryLimit(oom.EnoughLimit - 1)
	requireOOM(t, r.try(20*mib, 0), ErrLimit)
	r.a.SetMemoryLimit(oom.EnoughLimit)
	require.NoError(t, r.try(20*mib, 0))
}

// The lines that hold the most are named if their stacks are recorded.
func TestAdvice_NamesWhoHoldsTheMost(t *testing.T) {
	r := recorded(t, 100*mib, "", withHistory)
	for range 2 {
		r.alloc(20*mib, 0)
	}
	r.alloc(50*mib, 0)
	oom := requireOOM(t, r.try(20*mib, 0), ErrDeviceFull)
	require.Regexp(t, `The most is held by rig_test\.go:\d+ \(90\.00 MiB in 3 blocks\)\.$`, oom.Hint)
}

// What other streams used, and what lies in a segment in use, is looked for again when their work has been waited for.
func TestAlloc_LooksAgainAfterWaitingForEvents(t *testing.T) {
	r := newRig(t, 40*mib, "")
	used, held := r.alloc(8*mib, 0), r.alloc(9*mib, 0) // of one segment
	full := r.alloc(20*mib, 0)
	r.record(used, 1)
	r.free(used)
	again := r.alloc(8*mib, 0) // the segment stays, because of held, and the device is full
	require.Equal(t, used.Ptr(), again.Ptr())
	r.free(held, full, again)
}

// FuzzAdvice runs random programs until a request fails, and the same program again with what is advised.
func FuzzAdvice(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, uint16(100+10*seed))
	}
	f.Fuzz(func(t *testing.T, seed uint64, megabytes uint16) {
		followAdvice(t, seed, uint64(megabytes%1000+24)*mib)
	})
}

// Of random programs that run out of memory some are told of a setting, each of which helps.
func TestAdvice_IsTrueOfRandomPrograms(t *testing.T) {
	told := 0
	for seed := range uint64(60) {
		if followAdvice(t, seed, uint64(60+seed)*mib) {
			told++
		}
	}
	require.Greater(t, told, 10)
}

// followAdvice reports whether a setting was advised. Without a history advice is of the blocks as they lie, and not of the program.
func followAdvice(t *testing.T, seed, capacity uint64) bool {
	run := func(r *rig) (int, error) { return randomUntilFull(r, rand.New(rand.NewPCG(seed, 1))) }
	n, err := run(recorded(t, capacity, "", withHistory))
	if err == nil {
		return false
	}
	oom := requireOOM(t, err, ErrDeviceFull)
	require.NotEmpty(t, oom.Hint)
	if oom.Setting == "" {
		return false
	}
	m, err := run(newRig(t, capacity, oom.Setting))
	require.True(t, err == nil || m > n, "request %d of seed %d fails with %s too: %v", n, seed, oom.Setting, err)
	return true
}

// randomUntilFull allocates and frees on two streams until a request fails, and returns how many calls it made.
func randomUntilFull(r *rig, rng *rand.Rand) (int, error) {
	var live []Block
	for n := range 300 {
		if len(live) > 0 && rng.IntN(5) < 2 {
			i := rng.IntN(len(live))
			if rng.IntN(8) == 0 {
				r.record(live[i], rng.IntN(2))
			}
			r.free(live[i])
			live[i] = live[len(live)-1]
			live = live[:len(live)-1]
			continue
		}
		bytes := uint64(rng.IntN(1<<rng.IntN(26)) + 1)
		b, err := r.tryAlloc(bytes, rng.IntN(2))
		if err != nil {
			return n, err
		}
		live = append(live, b)
	}
	return 300, nil
}

// A second run of a recorded program makes the first one's segments: what is advised by it is of this allocator.
func TestRehearsal_RepeatsWhatHappened(t *testing.T) {
	for _, conf := range []string{"", "expandable_segments:True", "max_split_size_mb:64", "roundup_power2_divisions:4"} {
		for seed := range uint64(30) {
			r := recorded(t, 100*mib, conf, withHistory)
			_, err := randomUntilFull(r, rand.New(rand.NewPCG(seed, 2)))
			if err == nil {
				continue
			}
			oom := requireOOM(t, err, ErrDeviceFull)
			r.a.mu.Lock()
			h := r.a.rehearsal(oom, &request{policy: r.a.policy.Load(), shard: (*r.a.shards.Load())[0], bytes: oom.Requested})
			r.a.mu.Unlock()
			h.stream = oom.Stream
			require.True(t, h.repeats(), "%s, seed %d", conf, seed)
		}
	}
}

// The device that only keeps accounts has as much as it is told.
func TestLedgerDevice_KeepsAccounts(t *testing.T) {
	d := newLedgerDevice(sim.New(1).ID(), 10*mib, 20*mib, 2*mib)
	p, err := d.Malloc(6 * mib)
	require.NoError(t, err)
	_, err = d.Malloc(5 * mib)
	require.ErrorIs(t, err, device.ErrOutOfMemory)
	require.NoError(t, d.Map(0, 4*mib, 2*mib))
	info, err := d.MemInfo()
	require.NoError(t, err)
	require.Zero(t, info.Free)
	require.EqualValues(t, 20*mib, info.Total)
	require.NoError(t, d.Free(p))
	require.NoError(t, d.Unmap(0, 4*mib))
	info, err = d.MemInfo()
	require.NoError(t, err)
	require.EqualValues(t, 10*mib, info.Free)
}
