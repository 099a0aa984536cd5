package memory

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// adviceProgram is a random program, to be run under several settings: its calls are decided before it runs.
type adviceProgram struct {
	capacity, occupied uint64
	conf               string
	history            recording
	limits             []uint64 // of its private pools; 0 is none
	calls              []adviceCall
}

type adviceCall struct {
	kind   adviceKind
	bytes  uint64
	block  int // the call that allocated it
	stream int
	pool   int // -1: the default ones
}

type adviceKind int

const (
	callAlloc adviceKind = iota
	callFree
	callFreeLater
	callRecord
	callComplete
	callEmpty
	callEmptyPool
	callLimit
	callConf
	callReserve
)

// adviceSettings are tried together, each in some programs.
var adviceSettings = []string{"expandable_segments:True", "max_split_size_mb:24", "roundup_power2_divisions:4", "garbage_collection_threshold:0.6",
	"large_segment_size_mb:12", "per_process_memory_fraction:0.7", "throw_on_cudamalloc_oom:True", "release_lock_on_cudamalloc:True"}

func randomAdviceProgram(rng *rand.Rand) *adviceProgram {
	p := &adviceProgram{capacity: (4 + rng.Uint64N(100)) * mib, history: withHistory}
	if rng.IntN(3) == 0 {
		p.capacity += rng.Uint64N(2 * mib)
	}
	if rng.IntN(4) == 0 {
		p.occupied = rng.Uint64N(p.capacity / 2)
	}
	if rng.IntN(3) == 0 {
		p.history = withoutHistory
	}
	for _, s := range adviceSettings {
		if rng.IntN(7) == 0 {
			p.conf = join(p.conf, s)
		}
	}
	for range max(0, rng.IntN(6)-3) {
		p.limits = append(p.limits, rng.Uint64N(2)*(1+rng.Uint64N(40))*mib)
	}
	streams, odd := 1+max(0, rng.IntN(6)-3), rng.IntN(3) // odd: how often it does what is neither allocating nor freeing
	var live []int
	for n := range 5 + rng.IntN(100) {
		c := adviceCall{stream: rng.IntN(streams), pool: -1}
		switch k := rng.IntN(20); {
		case k < 11:
			c.bytes = adviceSize(rng)
			if len(p.limits) > 0 && rng.IntN(3) == 0 {
				c.pool = rng.IntN(len(p.limits))
			}
			live = append(live, n)
		case k < 17 && len(live) > 0:
			i := rng.IntN(len(live))
			c.kind, c.block = callFree+adviceKind(rng.IntN(6)/5), live[i]
			live = slices.Delete(live, i, i+1)
		case k < 18 && len(live) > 0:
			c.kind, c.block = callRecord, live[rng.IntN(len(live))]
		case k < 19 || odd == 0:
			c.kind = callComplete
		default:
			c.kind = callEmpty + adviceKind(rng.IntN(3))
			c.bytes = rng.Uint64N(p.capacity + 10*mib)
			if c.kind == callEmptyPool && len(p.limits) == 0 {
				c.kind = callEmpty
			}
			if odd == 1 && rng.IntN(4) == 0 {
				c.kind = callConf + adviceKind(rng.IntN(2))
			}
		}
		p.calls = append(p.calls, c)
	}
	return p
}

func adviceSize(rng *rand.Rand) uint64 {
	switch rng.IntN(6) {
	case 0:
		return 1 + rng.Uint64N(1024)
	case 1:
		return 1 + rng.Uint64N(mib)
	case 2:
		return mib + rng.Uint64N(mib)
	case 3:
		return mib + rng.Uint64N(9*mib)
	case 4:
		return 10*mib + rng.Uint64N(15*mib)
	}
	return 512 * (1 + rng.Uint64N(8192))
}

// adviceRun is a run of such a program.
type adviceRun struct {
	*rig
	pools  []*Pool
	failed int // the call that ran out of memory, or how many there are
	oom    *OOMError
	told   bool // before the last call, all that the program did could be repeated
}

// run runs the program with its settings, or with others if there are any.
func (p *adviceProgram) run(t testing.TB, settings string) *adviceRun {
	r := &adviceRun{rig: newRig(t, p.capacity, cmp.Or(settings, p.conf))}
	r.dev.Occupy(p.occupied)
	if p.history == withHistory {
		require.NoError(t, r.a.RecordHistory(HistoryOptions{}))
	}
	for _, limit := range p.limits {
		if limit == 0 {
			limit = unlimited
		}
		r.pools = append(r.pools, r.a.NewPool(PoolLimit(limit)))
	}
	blocks := map[int]Block{}
	for n, c := range p.calls {
		r.failed, r.told = n, p.history == withHistory && !r.a.deeds.spoiled.Load()
		if err := r.do(c, n, blocks); errors.As(err, &r.oom) {
			return r
		} else {
			require.NoError(t, err)
		}
	}
	r.failed = len(p.calls)
	return r
}

func (r *adviceRun) do(c adviceCall, n int, blocks map[int]Block) error {
	switch c.kind {
	case callAlloc:
		b, err := r.allocator(c.pool).Alloc(c.bytes, r.stream(c.stream))
		blocks[n] = b
		return err
	case callFree:
		return r.a.Free(blocks[c.block])
	case callFreeLater:
		r.a.FreeLater(blocks[c.block])
	case callRecord:
		return r.a.RecordStream(blocks[c.block], r.stream(c.stream))
	case callComplete:
		r.complete(c.stream)
	case callEmpty:
		return r.a.EmptyCache()
	case callEmptyPool:
		return r.pools[c.stream%len(r.pools)].EmptyCache()
	case callLimit:
		r.a.SetMemoryLimit(c.bytes)
	case callConf:
		conf := r.a.Config()
		conf.RoundupDivisions[0] = 4 - conf.RoundupDivisions[0]
		return r.a.SetConfig(conf)
	case callReserve:
		return r.a.Reserve(c.bytes/4, r.stream(c.stream))
	}
	return nil
}

func (r *adviceRun) allocator(pool int) Allocator {
	if pool < 0 {
		return r.a
	}
	return r.pools[pool]
}

// follow runs the program until a request fails, and does what is advised: each must be seen to serve the request. It returns what was advised.
func (p *adviceProgram) follow(t testing.TB) (advised string) {
	r := p.run(t, "")
	if r.oom == nil || r.oom.Rejected {
		return "nothing"
	}
	say := fmt.Sprintf("%+v\ncall %d: %v", *p, r.failed, r.oom)
	require.NotContains(t, r.oom.Error(), " 0 bytes of the free memory", say)
	require.False(t, p.history == withHistory && strings.Contains(r.oom.Hint, "RecordHistory"), say)
	if r.oom.Pages != 0 && !r.oom.LimitHit {
		require.Greater(t, r.oom.Pages, r.oom.DeviceFree, say)
	}
	c, on := p.calls[r.failed], 0
	_, elsewhere := fmt.Sscanf(r.oom.Hint, "Stream %d has", &on)
	switch {
	case r.oom.Setting != "":
		again := p.run(t, r.oom.Setting)
		require.Greater(t, again.failed, r.failed, "%s\nwith %s: %v", say, r.oom.Setting, again.oom)
		return "a setting"
	case strings.HasPrefix(r.oom.Hint, "On one stream"):
		q := *p
		q.calls = slices.Clone(p.calls)
		for i := range q.calls {
			q.calls[i].stream = 0
		}
		again := q.run(t, "")
		require.Greater(t, again.failed, r.failed, "%s\non one stream: %v", say, again.oom)
		return "one stream"
	case strings.Contains(r.oom.Hint, "Pool.EmptyCache gives"):
		require.NoError(t, p.run(t, "").emptied(c), say)
		if r.oom.EnoughLimit != 0 {
			r.requireLimit(c, say)
			return "pools or a limit"
		}
		return "pools"
	case r.oom.EnoughLimit != 0:
		r.requireLimit(c, say)
		return "a limit"
	case strings.HasPrefix(r.oom.Hint, "There is room for a smaller segment"):
		conf := r.a.Config()
		conf.LargeSegmentBytes = 11 * mib
		require.NoError(t, r.a.SetConfig(conf))
		require.NoError(t, r.again(c), say)
		return "a segment"
	case strings.Contains(r.oom.Hint, "Nothing that is cached"):
		require.ErrorIs(t, r.emptied(c), ErrOutOfMemory, say)
	case strings.HasPrefix(r.oom.Hint, "expandable_segments:True"):
		r.requireRoomInPages(p, c, say)
		return "pages"
	case elsewhere == nil:
		c.stream = on
		require.NoError(t, r.again(c), say)
		return "a stream"
	}
	return "nothing"
}

// emptied empties the pools and asks once more for what was refused.
func (r *adviceRun) emptied(c adviceCall) error {
	for _, pool := range r.pools {
		require.NoError(r.t, pool.EmptyCache())
	}
	return r.again(c)
}

// again asks once more for what was refused.
func (r *adviceRun) again(c adviceCall) error {
	if c.kind == callReserve {
		return r.do(c, 0, nil)
	}
	b, err := r.allocator(c.pool).Alloc(c.bytes, r.stream(c.stream))
	if err == nil {
		r.free(b)
	}
	return err
}

// requireLimit asserts that the limit named is enough, and one byte less is not.
func (r *adviceRun) requireLimit(c adviceCall, say string) {
	set := r.a.SetMemoryLimit
	if strings.Contains(r.oom.Hint, "The pool has a limit") {
		set = func(bytes uint64) { r.pools[c.pool].limit = bytes }
	}
	set(r.oom.EnoughLimit - 1)
	require.ErrorIs(r.t, r.again(c), ErrOutOfMemory, say)
	set(r.oom.EnoughLimit)
	require.NoError(r.t, r.again(c), say)
	if _, fraction, ok := strings.Cut(r.oom.Hint, "SetMemoryFraction: "); ok {
		f, err := strconv.ParseFloat(fraction[:strings.IndexByte(fraction, ')')], 64)
		require.NoError(r.t, err, say)
		require.NoError(r.t, r.a.SetMemoryFraction(f))
		require.NoError(r.t, r.again(c), say)
	}
}

// requireRoomInPages lays the blocks of each stream and pool one behind the other into an expandable segment, and asks for what was refused.
func (r *adviceRun) requireRoomInPages(p *adviceProgram, c adviceCall, say string) {
	r.a.mu.Lock()
	ranges, limit := r.a.ranges(), r.a.limit.Load()
	r.a.mu.Unlock()
	for _, seg := range r.a.segments {
		require.Nil(r.t, seg.vm, say)
	}
	const much = gib
	q := *p
	q.capacity, q.occupied, q.calls, q.limits = much, 0, nil, make([]uint64, len(p.limits))
	to := q.run(r.t, join(p.conf, "expandable_segments:True"))
	to.a.SetMemoryLimit(0)
	var fill []Block
	for _, from := range ranges {
		sh, err := to.a.shardIn(to.poolLike(r, from.shard.pool), to.stream(int(from.shard.id())))
		require.NoError(r.t, err)
		for _, seg := range from.segments {
			for b := seg.head; b != nil; b = b.next {
				policy := *to.a.policy.Load()
				policy.maxSplit, policy.rejectAbove = unlimited, 1
				h, err := to.a.allocNew(&request{policy: &policy, shard: sh, kind: from.kind, bytes: b.size, size: b.size})
				require.NoError(r.t, err, say)
				if b.state == stateCached {
					fill = append(fill, h)
				}
			}
		}
	}
	to.free(fill...)
	to.empty()
	all, held := r.oom.Reserved+r.oom.DeviceFree, to.reserved()
	require.LessOrEqual(r.t, held, all, say)
	to.dev.Occupy(much - all)
	to.a.limit.Store(limit)
	for i, pool := range to.pools {
		pool.limit = r.pools[i].limit
	}
	require.NoError(r.t, to.again(c), say)
}

// poolLike is the pool in the place of another run's.
func (r *adviceRun) poolLike(other *adviceRun, pool *Pool) *Pool {
	if i := slices.Index(other.pools, pool); i >= 0 {
		return r.pools[i]
	}
	return nil
}
