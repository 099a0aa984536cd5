package memory

import (
	"github.com/cistern-ml/cistern/device"
)

// Stats implements Allocator: all statistics are of one moment.
func (a *Caching) Stats() Stats {
	if a.absent() {
		return Stats{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.peaks.mu.Lock()
	defer a.peaks.mu.Unlock()
	shards := a.lockShards()
	defer unlockShards(shards)

	s := a.dev
	if len(shards) > 0 {
		a.settleLocked(shards, shards[0], everything)
	}
	a.addHot(&s, shards)
	a.oversize.mu.Lock()
	s.OversizeAllocations = a.oversize.stat
	a.oversize.mu.Unlock()
	s.NumDeferredFrees = a.deferredFrees.count()
	if len(a.pools)+len(a.deadPools) > 0 {
		s.ReservedBytesByPrivatePools = map[PoolID]StatArray{}
	}
	for _, p := range a.deadPools {
		s.ReservedBytesByPrivatePools[p.id] = p.reserved
	}
	for _, p := range a.pools {
		s.ReservedBytesByPrivatePools[p.id] = p.reserved
	}
	s.NumSyncAllStreams = a.syncs.Load()
	s.MaxSplitSize = int64(a.policy.Load().maxSplit) // unlimited becomes -1, as in PyTorch
	return s
}

// ResetPeakStats sets every Peak to its Current. The bound of compaction goes by the most that was allocated since the last call but one, so that it may be called in each step; to lower the bound
// after a part of a program that needed more, call it twice.
func (a *Caching) ResetPeakStats() {
	if a.absent() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.peaks.mu.Lock()
	defer a.peaks.mu.Unlock()
	shards := a.lockShards()
	defer unlockShards(shards)
	a.peakBefore = a.peakOf(shards)
	a.resetPeaksLocked(shards)
	a.oversize.mu.Lock()
	defer a.oversize.mu.Unlock()
	a.oversize.stat.resetPeak()
	a.dev.OversizeSegments.resetPeak()
	for _, arr := range a.dev.arrays() {
		arr.each((*Stat).resetPeak)
	}
	a.eachPoolStat((*Stat).resetPeak)
}

// eachPoolStat changes the statistics of private pools, those that are gone too. Caller holds a.mu.
func (a *Caching) eachPoolStat(f func(*Stat)) {
	for _, p := range a.pools {
		p.reserved.each(f)
	}
	for i := range a.deadPools {
		a.deadPools[i].reserved.each(f)
	}
}

// ResetAccumulatedStats sets every Allocated and Freed and the counters of calls to 0.
func (a *Caching) ResetAccumulatedStats() {
	if a.absent() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.peaks.mu.Lock()
	defer a.peaks.mu.Unlock()
	shards := a.lockShards()
	defer unlockShards(shards)
	for _, sh := range shards {
		for k := range sh.tally.pool {
			t := &sh.tally.pool[k]
			t.allocated, t.base = hotValues{}, t.values()
		}
	}
	a.oversize.mu.Lock()
	defer a.oversize.mu.Unlock()
	a.oversize.stat.resetAccumulated()
	a.dev.OversizeSegments.resetAccumulated()
	a.gone = tallies{}
	for _, arr := range a.dev.arrays() {
		arr.each((*Stat).resetAccumulated)
	}
	a.eachPoolStat((*Stat).resetAccumulated)
	a.dev.NumAllocRetries, a.dev.NumOOMs, a.dev.NumOOMRejections, a.dev.NumDeviceAlloc, a.dev.NumDeviceFree = 0, 0, 0, 0, 0
	a.syncs.Store(0)
	a.deferredFrees.resetCount()
}

// Summary returns PyTorch's table of the device's statistics, "" if the device has no allocator yet. Its heading names the device;
// with AsPyTorch it is PyTorch's, too.
func Summary(dev device.Device, opts ...SummaryOption) string {
	a := lookup(dev)
	if a == nil {
		return ""
	}
	return a.Stats().Summary(a.Device(), false, opts...)
}
