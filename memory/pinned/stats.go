package pinned

import (
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/internal/stat"
)

// Stats are the statistics of pinned host memory, under PyTorch's names (torch.cuda.host_memory_stats). Sizes are those of
// blocks, after rounding.
type Stats struct {
	Allocations    memory.Stat `json:"allocations"`     // blocks that there are, cached ones included
	ActiveRequests memory.Stat `json:"active_requests"` // blocks held by callers, or freed and waiting for events or captures
	AllocatedBytes memory.Stat `json:"allocated_bytes"` // bytes of Allocations
	ActiveBytes    memory.Stat `json:"active_bytes"`    // bytes of ActiveRequests

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
func (s Stats) Flat() iter.Seq2[string, int64] {
	list := []stat.Flat{
		{Key: "num_host_alloc", Value: s.NumHostAlloc}, {Key: "num_host_free", Value: s.NumHostFree},
		{Key: "num_free_errors", Value: s.NumFreeErrors},
	}
	for _, e := range []struct {
		key  string
		stat memory.Stat
	}{
		{"allocations", s.Allocations}, {"active_requests", s.ActiveRequests},
		{"allocated_bytes", s.AllocatedBytes}, {"active_bytes", s.ActiveBytes},
	} {
		list = append(list, stat.Flat{Key: e.key + ".current", Value: e.stat.Current}, stat.Flat{Key: e.key + ".peak", Value: e.stat.Peak},
			stat.Flat{Key: e.key + ".allocated", Value: e.stat.Allocated}, stat.Flat{Key: e.key + ".freed", Value: e.stat.Freed})
	}
	for _, e := range []struct {
		key  string
		time DurationStat
	}{{"host_alloc_time", s.HostAllocTime}, {"host_free_time", s.HostFreeTime}} {
		list = append(list, stat.Flat{Key: e.key + ".total", Value: e.time.Total}, stat.Flat{Key: e.key + ".max", Value: e.time.Max},
			stat.Flat{Key: e.key + ".min", Value: e.time.Min}, stat.Flat{Key: e.key + ".count", Value: e.time.Count},
			stat.Flat{Key: e.key + ".avg", Value: e.time.Avg})
	}
	return stat.Sorted(list)
}

// counter is a statistic with its arithmetic.
func counter(s *memory.Stat) *stat.Counter { return (*stat.Counter)(s) }

// gauge is a number that all buckets move, with its peak. It is moved under the lock of a bucket; so it stands still for who
// holds the locks of all.
type gauge struct{ now, peak atomic.Int64 }

func (g *gauge) rise(n int64) {
	now := g.now.Add(n)
	for peak := g.peak.Load(); now > peak && !g.peak.CompareAndSwap(peak, now); peak = g.peak.Load() {
	}
}

func (g *gauge) fall(n int64) { g.now.Add(-n) }

// books counts blocks and driver calls: all that moves seldom.
type books struct {
	mu    sync.Mutex // taken last
	stats Stats      // without the active statistics, which the buckets have
}

// countBlock books a new block of n bytes, or one that is no more if n is negative. Caller holds the lock of its bucket.
func (k *books) countBlock(n int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n > 0 {
		counter(&k.stats.Allocations).Increase(1)
		counter(&k.stats.AllocatedBytes).Increase(n)
	} else {
		counter(&k.stats.Allocations).Decrease(1)
		counter(&k.stats.AllocatedBytes).Decrease(-n)
	}
}

func (k *books) countPin(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stats.NumHostAlloc++
	k.stats.HostAllocTime.add(d)
}

func (k *books) countUnpin(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stats.NumHostFree++
	k.stats.HostFreeTime.add(d)
}

func (k *books) countFreeError() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stats.NumFreeErrors++
}

// lockBuckets locks all buckets and the books, in their order: then no statistic moves.
func (p *Allocator) lockBuckets() {
	for i := range p.buckets {
		p.buckets[i].mu.Lock()
	}
	p.books.mu.Lock()
}

func (p *Allocator) unlockBuckets() {
	p.books.mu.Unlock()
	for i := range p.buckets {
		p.buckets[i].mu.Unlock()
	}
}

// Stats returns the statistics, all of one moment. It looks at no events.
func (p *Allocator) Stats() Stats {
	if p.absent() {
		return Stats{}
	}
	p.lockBuckets()
	defer p.unlockBuckets()
	s := p.books.stats
	s.ActiveRequests = memory.Stat{Current: p.requests.now.Load(), Peak: p.requests.peak.Load()}
	s.ActiveBytes = memory.Stat{Current: p.bytes.now.Load(), Peak: p.bytes.peak.Load()}
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
func (p *Allocator) ResetPeakStats() {
	if p.absent() {
		return
	}
	p.lockBuckets()
	defer p.unlockBuckets()
	p.requests.peak.Store(p.requests.now.Load())
	p.bytes.peak.Store(p.bytes.now.Load())
	s := &p.books.stats
	counter(&s.Allocations).ResetPeak()
	counter(&s.AllocatedBytes).ResetPeak()
	s.HostAllocTime.resetPeak()
	s.HostFreeTime.resetPeak()
}

// ResetAccumulatedStats sets every Allocated and Freed, the counters of calls, and the Total, Count and Avg of times to 0
// (reset_accumulated_host_memory_stats).
func (p *Allocator) ResetAccumulatedStats() {
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
	counter(&s.Allocations).ResetAccumulated()
	counter(&s.AllocatedBytes).ResetAccumulated()
	s.HostAllocTime.resetAccumulated()
	s.HostFreeTime.resetAccumulated()
	s.NumHostAlloc, s.NumHostFree, s.NumFreeErrors = 0, 0, 0
}
