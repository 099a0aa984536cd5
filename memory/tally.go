package memory

import "sync"

// The statistics that move with every Alloc and Free are kept by each shard, under its own lock, so that streams do not
// contend for them. Sums are easy: Stats adds the shards up. Peaks are not, as the peak of a sum is not the sum of peaks.
//
// PyTorch has no such problem: one mutex is held over each whole call. Here a common counter would be a cache line that all streams
// write with every call, which costs more than the rest of an Alloc.
//
// They are kept exactly, with leases. Every shard holds, for each statistic, a lease: a value that its current may rise to
// without anybody having to look. The leases of all shards together never exceed the recorded peak, so while each shard
// stays within its lease the sum of currents cannot be a new peak. A shard that goes beyond its lease settles: with all
// shards locked, the sum of currents is taken, the peak raised if that is higher, and the room between the two shared out
// as new leases. A program in its steady state, having reached its peak before, hardly ever settles.
//
// Example: the peak is 100 MiB, two shards hold 40 and 20. The room is 40, so they may have leases of 60 and 40. The first goes to 70:
// it settles; the sum is 90, no new peak, and the room of 10 is shared again. It goes to 85: the sum is 105, and so is the peak.
// There is no room then, and while the sum grows further each block settles.

// The hot statistics, indices into the arrays below.
const (
	hotAllocation = iota
	hotActive
	hotInactiveSplit
	hotAllocatedBytes
	hotActiveBytes
	hotInactiveSplitBytes
	hotRequestedBytes
	numHot
)

// hot returns the statistic with an index.
func (s *Stats) hot(i int) *StatArray {
	return [numHot]*StatArray{&s.Allocation, &s.Active, &s.InactiveSplit, &s.AllocatedBytes, &s.ActiveBytes,
		&s.InactiveSplitBytes, &s.RequestedBytes}[i]
}

type hotValues [numHot]int64

// A block is active from when it is handed out until nobody uses it any more. Most are free then, and the statistics of active memory move with those
// of allocated memory. What is kept in their place is the difference: released blocks that wait for streams.
const (
	hotPending      = hotActive
	hotPendingBytes = hotActiveBytes
)

// allocatedOf is the statistic to which one is the difference, or -1.
var allocatedOf = [numHot]int{-1, hotAllocation, -1, -1, hotAllocatedBytes, -1, -1}

// tally is what a shard counts for one of its pools. Decreases are not counted, as they follow from the others: a Free writes one
// number for each statistic, and no lease is looked at.
type tally struct {
	current   hotValues // of active memory: what is pending
	allocated hotValues // increases since the last reset of accumulated values; none of active memory, which are those of allocated memory
	base      hotValues // values at that reset; so decreases = allocated + base - values
	lease     hotValues // of the peak of this pool kind over all shards (peaks.pool)
}

// now is the value of a statistic.
func (t *tally) now(i int) int64 {
	if k := allocatedOf[i]; k >= 0 {
		return t.current[i] + t.current[k]
	}
	return t.current[i]
}

// values are those of all statistics.
func (t *tally) values() (v hotValues) {
	for i := range v {
		v[i] = t.now(i)
	}
	return v
}

// increases is by how much a statistic rose since the last reset.
func (t *tally) increases(i int) int64 {
	if k := allocatedOf[i]; k >= 0 {
		i = k
	}
	return t.allocated[i]
}

// tallies is a shard's part of the statistics. Guarded by the shard's lock.
type tallies struct {
	pool  [poolKinds]tally
	lease hotValues // for the sum over both pools (peaks.all): its peak is not the sum of the pools' peaks either
	over  hotSet    // what is beyond its lease: settle it before the operation returns. Most of the time empty: one test for all
}

// hotSet is a set of hot statistics: bit i is that of all pools, bit (1+k)*numHot+i that of pool k.
type hotSet uint32

const (
	everything hotSet = 1<<((1+int(poolKinds))*numHot) - 1
	ofAll      hotSet = 1
)

// ofPool is the set with the first statistic of pool k; shifted by i, with the i-th.
func ofPool(k poolKind) hotSet { return ofAll << ((1 + int(k)) * numHot) }

// increase moves a statistic of pool k up by n. Caller holds the shard's lock, under which nothing can be settled, because that
// takes peaks.mu, which comes before: so it only notes what is to be settled, and the caller does that when it has unlocked.
func (t *tallies) increase(k poolKind, i int, n int64) {
	p, other := &t.pool[k&1], &t.pool[k&1^1].current // there are two kinds
	if t.rise(p, other, i, n) < 0 {
		t.noteOver(k)
	}
}

// handOut moves the statistics of a block that a caller gets, all of them at once: one test says whether each is within its leases. A lease of allocated memory is never
// more than active memory has, so that nobody looks at those of active memory.
func (t *tallies) handOut(k poolKind, size, requested int64) {
	p, other := &t.pool[k&1], &t.pool[k&1^1].current
	room := t.rise(p, other, hotAllocation, 1)
	room |= t.rise(p, other, hotAllocatedBytes, size)
	room |= t.rise(p, other, hotRequestedBytes, requested)
	if room < 0 {
		t.noteOver(k)
	}
}

// rise moves a statistic up, and returns a number below zero if that is beyond a lease.
func (t *tallies) rise(p *tally, other *hotValues, i int, n int64) int64 {
	p.allocated[i] += n
	c := p.current[i] + n
	p.current[i] = c
	return (p.lease[i] - c) | (t.lease[i] - other[i] - c)
}

// noteOver notes all statistics of a pool that are beyond a lease.
func (t *tallies) noteOver(k poolKind) {
	p, other := &t.pool[k], &t.pool[k^1]
	for i := range numHot {
		if p.now(i) > p.lease[i] {
			t.over |= ofPool(k) << i
		}
		if p.now(i)+other.now(i) > t.lease[i] {
			t.over |= ofAll << i
		}
	}
}

// now is the value of a statistic of all pools.
func (t *tallies) now(i int) int64 { return t.pool[smallPool].now(i) + t.pool[largePool].now(i) }

// suspend counts a block that was released and is active still. Active memory stays what it was, and the leases of allocated memory, which falls, must not let it
// rise higher than before.
func (t *tallies) suspend(k poolKind, size int64) {
	c := t.of(k)
	c[hotPending]++
	c[hotPendingBytes] += size
	t.tie()
}

// tie lowers the leases of allocated memory to what those of active memory are, less what is pending.
func (t *tallies) tie() {
	for i, k := range allocatedOf {
		if k < 0 {
			continue
		}
		pending := int64(0)
		for kind := range poolKinds {
			p := &t.pool[kind]
			p.lease[k] = min(p.lease[k], p.lease[i]-p.current[i])
			pending += p.current[i]
		}
		t.lease[k] = min(t.lease[k], t.lease[i]-pending)
	}
}

// decrease moves it down. A lease stays as it is, above current: room that this shard may use again without asking.
func (t *tallies) decrease(k poolKind, i int, n int64) { t.of(k)[i] -= n }

// of are the present values of a pool, for those who lower several.
func (t *tallies) of(k poolKind) *hotValues { return &t.pool[k&1].current }

// peaks holds the recorded peaks of the hot statistics.
type peaks struct {
	mu   sync.Mutex // before the locks of shards; after Caching.mu. Also keeps shards from being added: the leases are divided among them
	pool [poolKinds]hotValues
	all  hotValues
}

// settlePeaks brings the peaks up to date of what is beyond its lease in sh, and gives out new leases. No lock is held.
//
// All shards are locked meanwhile, so it is quick: only the statistics in question are looked at.
func (a *Caching) settlePeaks(sh *shard) {
	a.peaks.mu.Lock()
	defer a.peaks.mu.Unlock()
	shards := a.lockShards()
	a.settleLocked(shards, sh, sh.tally.over) // by now perhaps empty: another goroutine has settled it too
	unlockShards(shards)
}

// allocatedPeak is the most that was allocated at once since the peaks were reset the last time but one: a program may do that in each step, to see that of each, and would have a bound
// of what it keeps from one to the next. Caller holds a.mu and no shard.
func (a *Caching) allocatedPeak() uint64 {
	a.peaks.mu.Lock()
	defer a.peaks.mu.Unlock()
	shards := a.lockShards()
	defer unlockShards(shards)
	return max(a.peakBefore, a.peakOf(shards))
}

// peakOf is the most that was allocated at once since the peaks were reset. Callers hold peaks.mu and all shards.
func (a *Caching) peakOf(shards []*shard) uint64 {
	if len(shards) > 0 {
		a.settleLocked(shards, shards[0], ofAll<<hotAllocatedBytes)
	}
	return uint64(a.peaks.all[hotAllocatedBytes])
}

// settleLocked is settlePeaks of a set of statistics, for callers that hold peaks.mu and the locks of all shards.
func (a *Caching) settleLocked(shards []*shard, needy *shard, set hotSet) {
	set = withTied(set)
	for i := range numHot {
		for k := range poolKinds {
			if set&(ofPool(k)<<i) != 0 {
				a.settlePool(shards, needy, k, i)
			}
		}
		if set&(ofAll<<i) != 0 {
			a.settleAll(shards, needy, i)
		}
	}
	for _, sh := range shards {
		sh.tally.tie()
	}
	// In all shards, not only the needy one: each has a lease for what it has now.
	for _, sh := range shards {
		sh.tally.over &^= set
	}
}

// withTied adds to a set of statistics those of active memory for those of allocated memory, and the other way round: one's leases are part of the other's.
func withTied(set hotSet) hotSet {
	for i, k := range allocatedOf {
		if k < 0 {
			continue
		}
		both := (ofAll | ofPool(smallPool) | ofPool(largePool)) << i
		set |= set & both >> i << k
		set |= set & (both >> i << k) >> k << i
	}
	return set
}

// settlePool does one statistic of one pool.
func (a *Caching) settlePool(shards []*shard, needy *shard, k poolKind, i int) {
	var sum int64
	for _, sh := range shards {
		sum += sh.tally.pool[k].now(i)
	}
	// All leases are given out anew, those of shards that did not ask too: only then do they add up to no more than the peak.
	own, share := divide(&a.peaks.pool[k][i], sum, len(shards))
	for _, sh := range shards {
		t := &sh.tally.pool[k]
		t.lease[i] = t.now(i) + share
	}
	needy.tally.pool[k].lease[i] += own - share
}

// settleAll does one statistic of all pools.
func (a *Caching) settleAll(shards []*shard, needy *shard, i int) {
	var sum int64
	for _, sh := range shards {
		sum += sh.tally.now(i)
	}
	own, share := divide(&a.peaks.all[i], sum, len(shards))
	for _, sh := range shards {
		t := &sh.tally
		t.lease[i] = t.now(i) + share
	}
	needy.tally.lease[i] += own - share
}

// divide raises the peak to the sum, and divides the room between the two: half goes to the needy shard, the rest is shared
// by the others. Who asked will probably ask again; but if it got all, the next increase of any other would settle.
func divide(peak *int64, sum int64, shards int) (own, share int64) {
	*peak = max(*peak, sum)
	room := *peak - sum
	if others := int64(shards - 1); others > 0 {
		share = room / 2 / others
		return room - share*others, share // what the division leaves over is used, too
	}
	return room, 0
}

// resetPeaksLocked sets every peak to the present value. Callers hold peaks.mu and all shards.
func (a *Caching) resetPeaksLocked(shards []*shard) {
	a.peaks.all = hotValues{}
	a.peaks.pool = [poolKinds]hotValues{}
	if len(shards) > 0 {
		a.settleLocked(shards, shards[0], everything) // raises them to the sums, and takes the leases back, which were of the old peaks
	}
}

// addHot writes the hot statistics into s. Callers hold peaks.mu and all shards, and have settled everything if peaks matter: a
// shard that another call has unlocked, and not yet settled, may be beyond its lease.
func (a *Caching) addHot(s *Stats, shards []*shard) {
	for i := range numHot {
		arr := s.hot(i)
		for k := range poolKinds {
			st := arr.pool(k)
			// Shards that are gone hold nothing, so all that they ever counted was freed.
			st.Allocated = a.gone.pool[k].allocated[i]
			st.Freed = st.Allocated + a.gone.pool[k].base[i]
			for _, sh := range shards {
				t := &sh.tally.pool[k]
				n, now := t.increases(i), t.now(i)
				st.Current += now
				st.Allocated += n
				st.Freed += n + t.base[i] - now
			}
			st.Peak = a.peaks.pool[k][i]
			arr.All.Current += st.Current
			arr.All.Allocated += st.Allocated
			arr.All.Freed += st.Freed
		}
		arr.All.Peak = a.peaks.all[i]
	}
}
