package memory

import "github.com/cistern-ml/cistern/memory/internal/stat"

// Stat is one statistic, with PyTorch's arithmetic: an increase adds to Current and Allocated and may lift Peak, a decrease
// takes from Current and adds to Freed.
type Stat struct {
	Current   int64 `json:"current"`
	Peak      int64 `json:"peak"`      // highest Current since the peaks were reset
	Allocated int64 `json:"allocated"` // sum of the increases since the accumulated values were reset
	Freed     int64 `json:"freed"`     // sum of the decreases
}

func (s *Stat) increase(n int64)  { (*stat.Counter)(s).Increase(n) }
func (s *Stat) decrease(n int64)  { (*stat.Counter)(s).Decrease(n) }
func (s *Stat) resetAccumulated() { (*stat.Counter)(s).ResetAccumulated() }
func (s *Stat) resetPeak()        { (*stat.Counter)(s).ResetPeak() }

// StatArray is a statistic over all blocks and by pool. The peaks are independent: that of All is at most the sum of the
// others.
type StatArray struct {
	All       Stat `json:"all"`
	SmallPool Stat `json:"small_pool"`
	LargePool Stat `json:"large_pool"`
}

func (s *StatArray) pool(k poolKind) *Stat {
	if k == smallPool {
		return &s.SmallPool
	}
	return &s.LargePool
}

// move changes the statistic of a pool, and that of all, by n.
func (s *StatArray) move(k poolKind, n int64) {
	for _, st := range [...]*Stat{&s.All, s.pool(k)} {
		if n > 0 {
			st.increase(n)
		} else {
			st.decrease(-n)
		}
	}
}

// Divided reports whether SmallPool and LargePool add up to All: not so in Direct and Async, once they have been used.
func (s StatArray) Divided() bool {
	return s.All == Stat{} || s.SmallPool != Stat{} || s.LargePool != Stat{}
}

func (s *StatArray) each(f func(*Stat)) {
	f(&s.All)
	f(&s.SmallPool)
	f(&s.LargePool)
}

// Stats are the statistics of an allocator, under PyTorch's names (torch.cuda.memory_stats).
type Stats struct {
	Allocation         StatArray `json:"allocation"`           // blocks held by callers
	Segment            StatArray `json:"segment"`              // driver allocations; expandable segments are not counted
	Active             StatArray `json:"active"`               // blocks held by callers, or freed and waiting for events
	InactiveSplit      StatArray `json:"inactive_split"`       // cached blocks that are pieces of a segment
	AllocatedBytes     StatArray `json:"allocated_bytes"`      // rounded sizes of the blocks held by callers
	ReservedBytes      StatArray `json:"reserved_bytes"`       // bytes got from the driver
	ActiveBytes        StatArray `json:"active_bytes"`         // rounded sizes of the active blocks
	InactiveSplitBytes StatArray `json:"inactive_split_bytes"` // sizes of the inactive split blocks
	RequestedBytes     StatArray `json:"requested_bytes"`      // what callers asked for, of the active blocks

	OversizeAllocations Stat `json:"oversize_allocations"` // blocks held by callers of at least max_split_size
	OversizeSegments    Stat `json:"oversize_segments"`    // segments of at least max_split_size

	NumAllocRetries   int64 `json:"num_alloc_retries"`    // driver attempts after the whole cache was given back
	NumOOMs           int64 `json:"num_ooms"`             // out-of-memory errors returned
	NumOOMRejections  int64 `json:"num_oom_rejections"`   // requests refused before anything was tried
	NumSyncAllStreams int64 `json:"num_sync_all_streams"` // times all outstanding events were waited for
	NumDeviceAlloc    int64 `json:"num_device_alloc"`     // driver allocations, and mappings of expandable segments
	NumDeviceFree     int64 `json:"num_device_free"`      // driver frees, and unmappings
	MaxSplitSize      int64 `json:"max_split_size"`       // the setting in bytes; -1 is unlimited

	// ReservedBytesByPrivatePools is ReservedBytes for each private pool, also for the 64 that were the last to go.
	ReservedBytesByPrivatePools map[PoolID]StatArray `json:"reserved_bytes_by_private_pools,omitempty"`

	// NumDeferredFrees counts blocks freed by FreeLater: memory that the garbage collector had to find because nobody
	// released it. PyTorch has no such statistic.
	NumDeferredFrees int64 `json:"num_deferred_frees"`
}

// arrays lists the statistics that are kept by pool.
func (s *Stats) arrays() []*StatArray {
	return []*StatArray{&s.Allocation, &s.Segment, &s.Active, &s.InactiveSplit, &s.AllocatedBytes, &s.ReservedBytes,
		&s.ActiveBytes, &s.InactiveSplitBytes, &s.RequestedBytes}
}
