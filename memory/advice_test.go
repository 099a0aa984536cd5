package memory

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory/internal/journal"
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
	}, setting: "large_segment_size_mb:16"},
	{name: "halves of segments", capacity: 400 * mib, run: func(r *rig) error {
		blocks := []Block{r.alloc(80*mib, 0), r.alloc(80*mib, 0), r.alloc(80*mib, 0), r.alloc(80*mib, 0)}
		r.free(blocks...)
		for range blocks {
			r.alloc(41*mib, 0)
		}
		return r.try(120*mib, 0)
	}, only: withHistory, setting: "expandable_segments:True"},
	{name: "halves of segments as they lie", capacity: 400 * mib, run: func(r *rig) error {
		blocks := []Block{r.alloc(80*mib, 0), r.alloc(80*mib, 0), r.alloc(80*mib, 0), r.alloc(80*mib, 0)}
		r.free(blocks...)
		for range blocks {
			r.alloc(41*mib, 0)
		}
		return r.try(120*mib, 0)
	}, only: withoutHistory, hint: "expandable_segments:True, from the start of the program on, may serve this request: 80.00 MiB of the free memory, which is in pieces, " +
		"would be whole pages for use elsewhere, and with the blocks as they lie now there would be room. RecordHistory, before the first allocation"},
	{name: "more padding than free pages", capacity: 12 * mib, run: func(r *rig) error { // a page of large blocks is 20 MiB
		b := r.alloc(mib, 0)
		r.alloc(10*mib, 0)
		r.free(b)
		return r.try(2*mib, 0)
	}, only: withoutHistory, hint: "Nothing that is cached would serve it"},
	{name: "the cache given back on the way", capacity: 77 * mib, run: func(r *rig) error { // without that large_segment_size_mb:11 would help
		r.free(r.alloc(16*mib, 0))
		r.empty()
		for _, n := range []uint64{8, 22, 8, 8, 1} {
			r.alloc(n*mib, 0)
		}
		return r.try(24*mib, 0)
	}, hint: "Nothing that is cached would serve it"},
	{name: "a limit for a while", capacity: 430 * mib, only: withHistory, run: func(r *rig) error {
		r.a.SetMemoryLimit(30 * mib)
		if _, err := r.tryAlloc(12*mib, 0); err != nil {
			return err
		}
		if _, err := r.tryAlloc(16*mib, 0); err != nil { // with expandable_segments:True a page of 20 MiB is reserved before
			return err
		}
		r.a.SetMemoryLimit(0)
		blocks := []Block{r.alloc(80*mib, 0), r.alloc(80*mib, 0), r.alloc(80*mib, 0), r.alloc(80*mib, 0)}
		r.free(blocks...)
		for range blocks {
			r.alloc(41*mib, 0)
		}
		return r.try(120*mib, 0)
	}, setting: "max_split_size_mb:64"},
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
	}, setting: "max_split_size_mb:40,expandable_segments_reserve:0.01"},
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
	}, only: withHistory, setting: "max_split_size_mb:40"}, // expandable_segments:True would serve it too, and leave no room
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
					require.NoError(t, c.run(newRig(t, c.capacity, oom.Setting)))
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

// Pages are what the device must have for an expandable segment: a limit is only blamed if it has them.
func TestAdvice_LimitsCountWholePages(t *testing.T) {
	for capacity, enough := range map[uint64]uint64{39 * mib: 0, 40 * mib: 22 * mib} { // two pages of 20 MiB
		r := newRig(t, capacity, "expandable_segments:True")
		r.a.SetMemoryLimit(2 * mib)
		oom := requireOOM(t, r.try(22*mib, 0), ErrLimit)
		require.Equal(t, enough, oom.EnoughLimit)
		require.EqualValues(t, 22*mib, oom.Tried)
		require.EqualValues(t, 40*mib, oom.Pages)
		require.ErrorContains(t, oom, " is free. In whole pages it takes 40.00 MiB. 2.00 MiB allowed; ")

		_, err := r.a.NewPool(PoolLimit(4*mib)).Alloc(22*mib, r.stream(0))
		require.EqualValues(t, 0, requireOOM(t, err, ErrLimit).EnoughLimit, "the allocator's own limit is too low, too")
		r.a.SetMemoryLimit(0)
		_, err = r.a.NewPool(PoolLimit(4*mib)).Alloc(22*mib, r.stream(0))
		require.Equal(t, enough, requireOOM(t, err, ErrLimit).EnoughLimit)

		r.a.SetMemoryLimit(enough)
		require.Equal(t, enough == 0, r.try(22*mib, 0) != nil)
	}
}

// Advice on a piece of a reservation would be none on the whole.
func TestAdvice_OfReserveIsOfTheWhole(t *testing.T) {
	for conf, enough := range map[string]uint64{"": 100 * mib, "max_split_size_mb:24": 0} {
		r := newRig(t, 200*mib, conf)
		r.a.SetMemoryLimit(50 * mib)
		oom := requireOOM(t, r.a.Reserve(100*mib, r.stream(0)), ErrLimit)
		require.Equal(t, enough, oom.EnoughLimit)
		if enough != 0 {
			r.a.SetMemoryLimit(oom.EnoughLimit)
			require.NoError(t, r.a.Reserve(100*mib, r.stream(0)))
		} else {
			require.Empty(t, oom.Hint)
		}
	}
}

// What is free behind a range's last block counts.
func TestAdvice_LimitsCountPagesThatAreThere(t *testing.T) {
	r := newRig(t, 43*mib, "expandable_segments:True")
	r.alloc(10*mib, 0)
	r.a.SetMemoryLimit(20 * mib)
	oom := requireOOM(t, r.try(22*mib, 0), ErrLimit)
	require.EqualValues(t, 20*mib, oom.Pages)
	require.EqualValues(t, 42*mib, oom.EnoughLimit)
	r.a.SetMemoryLimit(oom.EnoughLimit)
	require.NoError(t, r.try(22*mib, 0))
}

// A program that needs more than ever may need more still: the advice says so, beside the setting that helps for now. One that has held as much before does
// not fail for its size.
func TestAdvice_TellsGrowthFromFragmentation(t *testing.T) {
	const growth = "The program has not held as much before, so that what follows may not fit: smaller batches"
	for _, history := range []recording{withoutHistory, withHistory} {
		r := recorded(t, 410*mib, "", history)
		big := []Block{r.alloc(80*mib, 0), r.alloc(80*mib, 0), r.alloc(80*mib, 0), r.alloc(80*mib, 0)}
		r.free(big...)
		for range big {
			r.alloc(41*mib, 0)
		}
		oom := requireOOM(t, r.try(120*mib, 0), ErrDeviceFull)
		require.Contains(t, oom.Hint, "expandable_segments:True")
		require.NotContains(t, oom.Hint, growth, "320 MiB were held, and 284 are asked for")

		r = recorded(t, 410*mib, "", history)
		a, b := r.alloc(200*mib, 0), r.alloc(130*mib, 0)
		r.free(a)
		r.alloc(110*mib, 0)
		r.free(b)
		r.alloc(70*mib, 0)
		oom = requireOOM(t, r.try(220*mib, 0), ErrDeviceFull)
		require.Contains(t, oom.Hint, "expandable_segments:True")
		require.Contains(t, oom.Hint, growth)
		if history == withHistory {
			require.Contains(t, oom.Hint, "The most is held by rig_test.go:")
		}
	}
}

// A program that has held as much before is told too if what helps it leaves no room for the next request.
func TestAdvice_SaysWhatIsTight(t *testing.T) {
	const tight = "It leaves no room for another like it, so that what follows may not fit: smaller batches"
	for _, history := range []recording{withoutHistory, withHistory} {
		for n, capacity := range map[int]uint64{4: 400 * mib, 7: 660 * mib} {
			r, want := recorded(t, capacity, "", history), n == 4
			var big []Block
			for range n {
				big = append(big, r.alloc(80*mib, 0))
			}
			r.free(big...)
			for range big {
				r.alloc(41*mib, 0)
			}
			oom := requireOOM(t, r.try(120*mib, 0), ErrDeviceFull)
			require.Contains(t, oom.Hint, "expandable_segments:True")
			require.Equal(t, want, strings.Contains(oom.Hint, tight), oom.Hint)
			require.NotContains(t, oom.Hint, "has not held as much before")
		}
	}
}

// Of a long history only the first settings are tried: the search takes no longer.
func TestRehearsal_TriesFewerSettingsOfLongPrograms(t *testing.T) {
	h := &rehearsal{}
	require.Len(t, h.tried(), len(settingsTried))
	h.entries = make([]journal.Entry, maxRehearsed/2)
	require.Len(t, h.tried(), len(settingsTried))
	h.entries = make([]journal.Entry, maxRehearsed)
	require.Len(t, h.tried(), 8)
}

// A device without virtual memory has no pages to leave room in.
func TestRehearsal_OfADeviceWithoutVirtualMemory(t *testing.T) {
	h := &rehearsal{bytes: 3 * mib, limit: unlimited, device: ledgerDevice{id: sim.New(1).ID(), capacity: 100 * mib, total: 100 * mib}}
	h.config = Config{ExpandableSegments: true}
	setting, tight := h.setting()
	require.NotEmpty(t, setting)
	require.False(t, tight)
}

// The setting that is named is whole: what is in force stays.
func TestAdvice_NamesTheSettingsInForceToo(t *testing.T) {
	r := recorded(t, 410*mib, "roundup_power2_divisions:16", withHistory)
	big := []Block{r.alloc(80*mib, 0), r.alloc(80*mib, 0), r.alloc(80*mib, 0), r.alloc(80*mib, 0)}
	r.free(big...)
	for range big {
		r.alloc(41*mib, 0)
	}
	oom := requireOOM(t, r.try(120*mib, 0), ErrDeviceFull)
	c, err := ParseConfig(oom.Setting)
	require.NoError(t, err)
	require.True(t, c.ExpandableSegments)
	c.ExpandableSegments = false
	require.Equal(t, r.a.config, c)
}

// Of settings that serve the request the one is named that leaves the most room.
func TestAdvice_PrefersTheSettingThatLeavesRoom(t *testing.T) {
	r := recorded(t, 150*mib, "expandable_segments_reserve:0.01", withHistory)
	for range 2 {
		r.free(r.alloc(50*mib, 0))
		r.alloc(11*mib, 0)
	}
	r.alloc(30*mib, 0)
	oom := requireOOM(t, r.try(52*mib, 0), ErrDeviceFull)
	rooms := map[string]uint64{}
	h := r.rehearsalOf(oom)
	for _, change := range settingsTried {
		c := h.config
		change(&c)
		if s, err := h.play(c); s != nil && err == nil {
			rooms[c.String()] = s.room(0)
		}
	}
	require.Greater(t, len(rooms), 1)
	for setting, room := range rooms {
		require.LessOrEqual(t, room, rooms[oom.Setting]+h.device.capacity/16, setting)
	}
}

// A limit that is not the only one is not said to be enough.
func TestAdvice_OfTwoLimitsNamesNone(t *testing.T) {
	r := newRig(t, 100*mib, "per_process_memory_fraction:0.5,throw_on_cudamalloc_oom:True")
	r.a.SetMemoryLimit(20 * mib)
	require.EqualValues(t, 40*mib, requireOOM(t, r.try(40*mib, 0), ErrLimit).EnoughLimit)
	r.alloc(20*mib, 0)
	r.a.SetMemoryLimit(10 * mib)
	oom := requireOOM(t, r.try(40*mib, 0), ErrLimit)
	require.True(t, oom.Rejected || oom.EnoughLimit == 0)
}

// A pool's limit and the allocator's, both in the way, are both named: neither is enough alone.
func TestAdvice_NamesTheLimitsOfAPoolAndTheAllocator(t *testing.T) {
	r := newRig(t, 100*mib, "")
	r.alloc(12*mib, 0)
	r.a.SetMemoryLimit(30 * mib)
	pool := r.a.NewPool(PoolLimit(10 * mib))
	_, err := pool.Alloc(20*mib, r.stream(0))
	oom := requireOOM(t, err, ErrLimit)
	require.Zero(t, oom.EnoughLimit)
	require.Contains(t, oom.Hint, "Two limits are in the way: a PoolLimit of 20.00 MiB and a limit of 32.00 MiB (SetMemoryLimit), both,")
	r.a.SetMemoryLimit(32 * mib)
	_, err = pool.Alloc(20*mib, r.stream(0))
	require.EqualValues(t, 20*mib, requireOOM(t, err, ErrLimit).EnoughLimit)
	require.NoError(t, pool.Close())
	enough := r.a.NewPool(PoolLimit(20 * mib))
	b, err := enough.Alloc(20*mib, r.stream(0))
	require.NoError(t, err)
	require.NoError(t, enough.Free(b))
	require.NoError(t, enough.Close())
}

// The end of another stream's expandable segment is free memory of that stream, as a block is.
func TestAdvice_NamesTheStreamWhoseSegmentGrows(t *testing.T) {
	r := newRig(t, 100*mib, "expandable_segments:True")
	r.alloc(30*mib, 1) // two pages, of which 10 MiB are free
	r.alloc(20*mib, 2)
	_, err := r.tryAlloc(50*mib, 0)
	require.Contains(t, requireOOM(t, err, ErrDeviceFull).Hint, "Stream 1 has free memory at the end of its expandable segment")
	r.alloc(50*mib, 1)

	r = newRig(t, 100*mib, "expandable_segments:True")
	r.alloc(30*mib, 1)
	r.alloc(20*mib, 2)
	_, err = r.tryAlloc(51*mib, 0)
	require.NotContains(t, requireOOM(t, err, ErrDeviceFull).Hint, "Stream")
	_, err = r.tryAlloc(51*mib, 1)
	require.Error(t, err)
}

// What a rehearsal does not know, or cannot repeat, keeps it from naming a setting.
func TestAdvice_NamesNoSettingForWhatItCannotRepeat(t *testing.T) {
	nothing := func(*rig) {}
	for name, c := range map[string]struct {
		before, within func(*rig)
		named          bool
	}{
		"nothing":        {nothing, nothing, true},
		"the cache":      {nothing, (*rig).empty, true},
		"a limit":        {nothing, func(r *rig) { r.a.SetMemoryLimit(gib) }, true},
		"settings first": {func(r *rig) { r.conf("roundup_power2_divisions:4") }, nothing, true},
		"emptied first":  {func(r *rig) { r.a.StopHistory(); r.free(r.alloc(1, 0)); r.empty(); r.historyOf(HistoryOptions{}) }, nothing, true},
		"a late history": {func(r *rig) { r.a.StopHistory(); r.free(r.alloc(1, 0)); r.historyOf(HistoryOptions{}) }, nothing, false},
		"a report first": {func(r *rig) {
			r.a.StopHistory()
			_, err := r.a.ShareHistory(HistoryOptions{Enabled: HistoryState})
			require.NoError(r.t, err)
			r.historyOf(HistoryOptions{})
		}, nothing, true},
		"a report, and a block": {func(r *rig) {
			r.a.StopHistory()
			_, err := r.a.ShareHistory(HistoryOptions{Enabled: HistoryState})
			require.NoError(r.t, err)
			r.free(r.alloc(1, 0))
			r.historyOf(HistoryOptions{})
		}, nothing, false},
		"all actions after some": {func(r *rig) {
			r.historyOf(HistoryOptions{SkipActions: []Action{ActionSegmentFree}})
			r.historyOf(HistoryOptions{})
		}, nothing, true},
		"actions left out": {func(r *rig) { r.historyOf(HistoryOptions{SkipActions: []Action{ActionSegmentFree}}) }, nothing, false},
		"settings":         {nothing, func(r *rig) { r.conf("roundup_power2_divisions:4") }, false},
		"a failure":        {nothing, func(r *rig) { require.Error(r.t, r.try(gib, 0)) }, false},
		"a callback":       {func(r *rig) { r.a.OnLowMemory(func() bool { return false }) }, nothing, false},
		"a reservation":    {nothing, func(r *rig) { require.NoError(r.t, r.a.Reserve(1, r.stream(0))) }, false},
		"a pool":           {nothing, func(r *rig) { require.NoError(r.t, r.a.NewPool().Close()) }, false},
		"a closed stream": {nothing, func(r *rig) {
			for range 2 {
				s, err := r.dev.NewStream()
				require.NoError(r.t, err)
				b, err := r.a.Alloc(1, s)
				require.NoError(r.t, err)
				r.free(b)
				require.NoError(r.t, s.Close())
			}
		}, false},
		"an address": {nothing, func(r *rig) {
			b := r.alloc(1, 0)
			r.free(b)
			at, err := r.a.AllocAt(1, r.stream(0), b.Ptr())
			require.NoError(r.t, err)
			r.free(at)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := recorded(t, 410*mib, "", withHistory)
			c.before(r)
			blocks := []Block{r.alloc(80*mib, 0), r.alloc(80*mib, 0), r.alloc(80*mib, 0), r.alloc(80*mib, 0)}
			r.free(blocks...)
			for range blocks {
				r.alloc(41*mib, 0)
			}
			c.within(r)
			oom := requireOOM(t, r.try(120*mib, 0), ErrDeviceFull)
			require.Equal(t, c.named, strings.Contains(oom.Setting, "expandable_segments:True"), oom.Hint)
			require.NotContains(t, oom.Hint, "RecordHistory", "there is a history")
			if !c.named {
				require.Contains(t, oom.Hint, "expandable_segments:True, from the start of the program on, may serve this request")
			}
		})
	}
}

func (r *rig) historyOf(o HistoryOptions) { require.NoError(r.t, r.a.RecordHistory(o)) }

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

// FuzzAdvice runs random programs until a request fails, and does what is advised.
func FuzzAdvice(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		randomAdviceProgram(rand.New(rand.NewPCG(seed, 1))).follow(t)
	})
}

// Random programs that run out of memory are given advice of every kind, and all of it is true.
func TestAdvice_IsTrueOfRandomPrograms(t *testing.T) {
	advised := map[string]int{}
	for seed := range uint64(400) {
		advised[randomAdviceProgram(rand.New(rand.NewPCG(seed, 2))).follow(t)]++
	}
	for kind, least := range map[string]int{"a setting": 20, "a limit": 20, "pages": 5, "pools": 2, "a stream": 2, "one stream": 1, "a segment": 1} {
		require.GreaterOrEqual(t, advised[kind], least, "%s in %v", kind, advised)
	}
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
	seeds := uint64(30)
	if testing.Short() {
		seeds = 5
	}
	for _, conf := range []string{"", "expandable_segments:True", "max_split_size_mb:64", "roundup_power2_divisions:4"} {
		for seed := range seeds {
			r := recorded(t, 100*mib, conf, withHistory)
			_, err := randomUntilFull(r, rand.New(rand.NewPCG(seed, 2)))
			if err == nil {
				continue
			}
			oom := requireOOM(t, err, ErrDeviceFull)
			require.True(t, r.rehearsalOf(oom).repeats(), "%s, seed %d", conf, seed)
		}
	}
	repeated := uint64(0)
	for seed := range 7 * seeds {
		p := randomAdviceProgram(rand.New(rand.NewPCG(seed, 3)))
		if r := p.run(t, ""); r.oom != nil && r.told && !r.oom.Rejected && p.calls[r.failed].kind == callAlloc {
			require.True(t, r.rehearsalOf(r.oom).repeats(), "%+v\ncall %d: %v", *p, r.failed, r.oom)
			repeated++
		}
	}
	require.Greater(t, repeated, seeds)
}

// A history that begins when the allocator is empty tells the whole program from there on, whatever was before.
func TestRehearsal_OfAnAllocatorThatWasEmptied(t *testing.T) {
	repeated, seeds := uint64(0), uint64(30)
	if testing.Short() {
		seeds = 5
	}
	for _, conf := range []string{"", "expandable_segments:True"} {
		for seed := range seeds {
			r := recorded(t, 100*mib, "max_split_size_mb:32", withoutHistory)
			before := r.alloc(3*mib, 0)
			c, err := ParseConfig(conf)
			require.NoError(t, errors.Join(err, r.a.SetConfig(c)))
			require.Error(t, r.try(gib, 0))
			require.NoError(t, r.a.RecordHistory(HistoryOptions{}))
			require.True(t, r.a.deeds.spoiled.Load(), "a block is there")
			r.free(before)
			r.empty()
			require.NoError(t, r.a.RecordHistory(HistoryOptions{Clear: true}))
			require.False(t, r.a.deeds.spoiled.Load())
			if _, err := randomUntilFull(r, rand.New(rand.NewPCG(seed, 2))); err != nil {
				require.True(t, r.rehearsalOf(requireOOM(t, err, ErrDeviceFull)).repeats(), "%s, seed %d", conf, seed)
				repeated++
			}
		}
	}
	require.Greater(t, repeated, seeds*2/3)
}

// When a free would have been complete for which the program waited nobody knows, unless the rehearsal waits for it too.
func TestRehearsal_DoesNotKnowWhatWasWaitedFor(t *testing.T) {
	r := recorded(t, 70*mib, "", withHistory)
	used := r.alloc(30*mib, 0)
	r.alloc(30*mib, 0)
	r.record(used, 1)
	r.free(used)
	r.alloc(24*mib, 0) // waits for stream 1
	h := r.rehearsalOf(requireOOM(t, r.try(40*mib, 0), ErrDeviceFull))
	require.True(t, h.repeats())
	h.held++
	require.False(t, h.repeats(), "it fails with less than was held")
	require.Len(t, h.deeds, 1)
	enough := h.device
	enough.capacity = gib // nothing waits
	h.device = enough
	require.False(t, h.serves(h.config))
	h.deeds[0].after-- // the free, too, was asked for during the wait
	require.False(t, h.serves(h.config))
	h.deeds = nil
	require.True(t, h.serves(h.config))
}

// rehearsalOf is the rehearsal of the failure that has just been.
func (r *rig) rehearsalOf(oom *OOMError) *rehearsal {
	r.a.mu.Lock()
	defer r.a.mu.Unlock()
	r.a.deeds.spoiled.Store(false) // by the failure itself
	h := r.a.rehearsal(oom, &request{policy: r.a.policy.Load(), shard: (*r.a.shards.Load())[0], bytes: oom.Requested})
	h.stream = oom.Stream
	return h
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
