package memory

import "sync"

// The statistics that move with every Alloc and Free are kept by each shard, under its own lock, so that streams do not
// contend for them. Sums are easy: Stats adds the shards up. Peaks are not, as the peak of a sum is not the sum of peaks.
//
// They are kept exactly, with leases. Every shard holds, for each statistic, a lease: a value that its current may rise to
// without anybody having to look. The leases of all shards together never exceed the recorded peak, so while each shard
// stays within its lease the sum of currents cannot be a new peak. A shard that goes beyond its lease settles: with all
// shards locked, the sum of currents is taken, the peak raised if that is higher, and the room between the two shared out
// as new leases. A program in its steady state, having reached its peak before, hardly ever settles.

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

func (s *Stats) hot(i int) *StatArray {
	return [numHot]*StatArray{&s.Allocation, &s.Active, &s.InactiveSplit, &s.AllocatedBytes, &s.ActiveBytes,
		&s.InactiveSplitBytes, &s.RequestedBytes}[i]
}

type hotValues [numHot]int64

// tally is what a shard counts for one of its pools.
type tally struct {
	current   hotValues
	allocated hotValues // increases since the last reset of accumulated values
	base      hotValues // current at that reset; so decreases = allocated + base - current
	lease     hotValues
}

// tallies is a shard's part of the statistics. Guarded by the shard's lock.
type tallies struct {
	pool  [poolKinds]tally
	lease hotValues // for the sum over both pools
	over  bool      // some current is beyond its lease: settle before the operation returns
}

// increase moves a statistic of pool k up by n.
func (t *tallies) increase(k poolKind, i int, n int64) {
	p := &t.pool[k]
	p.allocated[i] += n
	c := p.current[i] + n
	p.current[i] = c
	if c > p.lease[i] || c+t.pool[k^1].current[i] > t.lease[i] {
		t.over = true
	}
}

// decrease moves it down.
func (t *tallies) decrease(k poolKind, i int, n int64) {
	t.pool[k].current[i] -= n
}

// peaks holds the recorded peaks of the hot statistics.
type peaks struct {
	mu   sync.Mutex // before the locks of shards; after Caching.mu
	pool [poolKinds]hotValues
	all  hotValues
}

// settlePeaks brings the peaks up to date and gives out new leases; sh is the shard that needs room. No lock is held.
func (a *Caching) settlePeaks(sh *shard) {
	a.peaks.mu.Lock()
	defer a.peaks.mu.Unlock()
	shards := a.lockShards()
	defer unlockShards(shards)
	a.settleLocked(shards, sh)
}

// settleLocked is settlePeaks for callers that hold peaks.mu and the locks of all shards.
func (a *Caching) settleLocked(shards []*shard, needy *shard) {
	for i := range numHot {
		for k := range poolKinds {
			settle(&a.peaks.pool[k][i], shards, needy,
				func(sh *shard) int64 { return sh.tally.pool[k].current[i] },
				func(sh *shard, lease int64) { sh.tally.pool[k].lease[i] = lease })
		}
		settle(&a.peaks.all[i], shards, needy,
			func(sh *shard) int64 { return sh.tally.pool[0].current[i] + sh.tally.pool[1].current[i] },
			func(sh *shard, lease int64) { sh.tally.lease[i] = lease })
	}
	for _, sh := range shards {
		sh.tally.over = false
	}
}

// settle does one statistic: half of the room below the peak goes to the needy shard, the rest is shared by the others.
func settle(peak *int64, shards []*shard, needy *shard, current func(*shard) int64, grant func(*shard, int64)) {
	var sum int64
	for _, sh := range shards {
		sum += current(sh)
	}
	*peak = max(*peak, sum)
	room := *peak - sum
	share := int64(0)
	if others := int64(len(shards) - 1); others > 0 {
		share = room / 2 / others
		room -= share * others
	}
	for _, sh := range shards {
		if sh == needy {
			grant(sh, current(sh)+room)
		} else {
			grant(sh, current(sh)+share)
		}
	}
}

// resetPeaksLocked sets every peak to the present value. Callers hold peaks.mu and all shards.
func (a *Caching) resetPeaksLocked(shards []*shard) {
	a.peaks.all = hotValues{}
	a.peaks.pool = [poolKinds]hotValues{}
	if len(shards) > 0 {
		a.settleLocked(shards, shards[0])
	}
}

// addHot writes the hot statistics into s. Callers hold peaks.mu and all shards.
func (a *Caching) addHot(s *Stats, shards []*shard) {
	for i := range numHot {
		arr := s.hot(i)
		for k := range poolKinds {
			st := arr.pool(k)
			st.Allocated = a.gone.pool[k].allocated[i]
			st.Freed = st.Allocated + a.gone.pool[k].base[i]
			for _, sh := range shards {
				t := &sh.tally.pool[k]
				st.Current += t.current[i]
				st.Allocated += t.allocated[i]
				st.Freed += t.allocated[i] + t.base[i] - t.current[i]
			}
			st.Peak = a.peaks.pool[k][i]
			arr.All.Current += st.Current
			arr.All.Allocated += st.Allocated
			arr.All.Freed += st.Freed
		}
		arr.All.Peak = a.peaks.all[i]
	}
}
