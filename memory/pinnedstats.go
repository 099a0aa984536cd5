package memory

import (
	"cmp"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// HostStats are the statistics of pinned host memory, under PyTorch's names (torch.cuda.host_memory_stats). Sizes are those of
// blocks, after rounding.
type HostStats struct {
	Allocations    Stat `json:"allocations"`     // blocks that there are, cached ones included
	ActiveRequests Stat `json:"active_requests"` // blocks held by callers, or freed and waiting for events or captures
	AllocatedBytes Stat `json:"allocated_bytes"` // bytes of Allocations
	ActiveBytes    Stat `json:"active_bytes"`    // bytes of ActiveRequests

	NumHostAlloc  int64        `json:"num_host_alloc"`  // driver allocations and registrations
	NumHostFree   int64        `json:"num_host_free"`   // driver frees and deregistrations
	HostAllocTime DurationStat `json:"host_alloc_time"` // of the calls in NumHostAlloc
	HostFreeTime  DurationStat `json:"host_free_time"`  // of the calls in NumHostFree

	// NumFreeErrors counts the times that the driver refused to take a block back. PyTorch has no such statistic.
	NumFreeErrors int64 `json:"num_free_errors"`
}

// DurationStat are the times of calls, in whole microseconds.
type DurationStat struct {
	Total int64 `json:"total"` // since the accumulated values were reset
	Max   int64 `json:"max"`   // since the peaks were reset
	Min   int64 `json:"min"`   // since the peaks were reset; 0 if there was no call
	Count int64 `json:"count"` // calls in Total
	Avg   int64 `json:"avg"`   // Total / Count; 0 if there was no call

	seen bool // Max and Min are of calls
}

func (s *DurationStat) add(d time.Duration) {
	us := d.Microseconds()
	s.Total += us
	s.Count++
	s.Avg = s.Total / s.Count
	if !s.seen {
		s.Max, s.Min, s.seen = us, us, true
	}
	s.Max, s.Min = max(s.Max, us), min(s.Min, us)
}

func (s *DurationStat) resetAccumulated() { s.Total, s.Count, s.Avg = 0, 0, 0 }
func (s *DurationStat) resetPeak()        { s.Max, s.Min, s.seen = 0, 0, false }

// Flat yields the statistics under the keys of torch.cuda.host_memory_stats, in sorted order.
func (s HostStats) Flat() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		for _, e := range s.flatten() {
			if !yield(e.key, e.value) {
				return
			}
		}
	}
}

func (s HostStats) flatten() []flatStat {
	list := []flatStat{
		{"num_host_alloc", s.NumHostAlloc}, {"num_host_free", s.NumHostFree}, {"num_free_errors", s.NumFreeErrors},
	}
	for _, e := range []struct {
		key  string
		stat Stat
	}{
		{"allocations", s.Allocations}, {"active_requests", s.ActiveRequests},
		{"allocated_bytes", s.AllocatedBytes}, {"active_bytes", s.ActiveBytes},
	} {
		list = append(list, flatStat{e.key + ".current", e.stat.Current}, flatStat{e.key + ".peak", e.stat.Peak},
			flatStat{e.key + ".allocated", e.stat.Allocated}, flatStat{e.key + ".freed", e.stat.Freed})
	}
	for _, e := range []struct {
		key  string
		time DurationStat
	}{{"host_alloc_time", s.HostAllocTime}, {"host_free_time", s.HostFreeTime}} {
		list = append(list, flatStat{e.key + ".total", e.time.Total}, flatStat{e.key + ".max", e.time.Max},
			flatStat{e.key + ".min", e.time.Min}, flatStat{e.key + ".count", e.time.Count}, flatStat{e.key + ".avg", e.time.Avg})
	}
	slices.SortFunc(list, func(x, y flatStat) int { return cmp.Compare(x.key, y.key) })
	return list
}

// gauge is a number that all buckets move, with its peak. It is moved under the lock of a bucket; so it stands still for who
// holds the locks of all.
type gauge struct{ now, peak atomic.Int64 }

func (g *gauge) rise(n int64) {
	now := g.now.Add(n)
	for peak := g.peak.Load(); now > peak && !g.peak.CompareAndSwap(peak, now); peak = g.peak.Load() {
	}
}

func (g *gauge) fall(n int64) { g.now.Add(-n) }

// pinnedBooks counts blocks and driver calls: all that moves seldom.
type pinnedBooks struct {
	mu    sync.Mutex // taken last
	stats HostStats  // without the active statistics, which the buckets have
}

// countBlock books a new block of n bytes, or one that is no more if n is negative. Caller holds the lock of its bucket.
func (k *pinnedBooks) countBlock(n int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n > 0 {
		k.stats.Allocations.increase(1)
		k.stats.AllocatedBytes.increase(n)
	} else {
		k.stats.Allocations.decrease(1)
		k.stats.AllocatedBytes.decrease(-n)
	}
}

func (k *pinnedBooks) countPin(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stats.NumHostAlloc++
	k.stats.HostAllocTime.add(d)
}

func (k *pinnedBooks) countUnpin(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stats.NumHostFree++
	k.stats.HostFreeTime.add(d)
}

func (k *pinnedBooks) countFreeError() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stats.NumFreeErrors++
}

// lockBuckets locks all buckets and the books, in their order: then no statistic moves.
func (p *Pinned) lockBuckets() {
	for i := range p.buckets {
		p.buckets[i].mu.Lock()
	}
	p.books.mu.Lock()
}

func (p *Pinned) unlockBuckets() {
	p.books.mu.Unlock()
	for i := range p.buckets {
		p.buckets[i].mu.Unlock()
	}
}

// Stats returns the statistics, all of one moment. It looks at no events.
func (p *Pinned) Stats() HostStats {
	if p.absent() {
		return HostStats{}
	}
	p.lockBuckets()
	defer p.unlockBuckets()
	s := p.books.stats
	s.ActiveRequests = Stat{Current: p.requests.now.Load(), Peak: p.requests.peak.Load()}
	s.ActiveBytes = Stat{Current: p.bytes.now.Load(), Peak: p.bytes.peak.Load()}
	for i := range p.buckets {
		t := &p.buckets[i].tally
		s.ActiveRequests.Allocated += t.requested
		s.ActiveRequests.Freed += t.returned
		s.ActiveBytes.Allocated += t.requestedBytes
		s.ActiveBytes.Freed += t.returnedBytes
	}
	return s
}

// ResetPeakStats sets every Peak to its Current, and the Max and Min of times to 0 (reset_peak_host_memory_stats).
func (p *Pinned) ResetPeakStats() {
	if p.absent() {
		return
	}
	p.lockBuckets()
	defer p.unlockBuckets()
	p.requests.peak.Store(p.requests.now.Load())
	p.bytes.peak.Store(p.bytes.now.Load())
	s := &p.books.stats
	s.Allocations.resetPeak()
	s.AllocatedBytes.resetPeak()
	s.HostAllocTime.resetPeak()
	s.HostFreeTime.resetPeak()
}

// ResetAccumulatedStats sets every Allocated and Freed, the counters of calls, and the Total, Count and Avg of times to 0
// (reset_accumulated_host_memory_stats).
func (p *Pinned) ResetAccumulatedStats() {
	if p.absent() {
		return
	}
	p.lockBuckets()
	defer p.unlockBuckets()
	for i := range p.buckets {
		t := &p.buckets[i].tally
		t.requested, t.requestedBytes, t.returned, t.returnedBytes = 0, 0, 0, 0
	}
	s := &p.books.stats
	s.Allocations.resetAccumulated()
	s.AllocatedBytes.resetAccumulated()
	s.HostAllocTime.resetAccumulated()
	s.HostFreeTime.resetAccumulated()
	s.NumHostAlloc, s.NumHostFree, s.NumFreeErrors = 0, 0, 0
}
