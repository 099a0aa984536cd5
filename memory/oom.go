package memory

import (
	"fmt"
	"strings"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/text"
)

// OOMError says why memory could not be had, with the numbers at that moment. All sizes are bytes. The allocator is intact:
// after freeing something the program may go on.
type OOMError struct {
	Device device.ID
	Stream device.StreamID

	Requested uint64 // what the caller asked for
	Tried     uint64 // the segment that serves it, which is what the driver was last asked for; 0 if the request is beyond all sense
	Pages     uint64 // with expandable segments, what the driver is asked for in place of that: whole pages, which are no segment. 0 without

	Allocated    uint64 // held by callers
	Pending      uint64 // freed, but waiting for work on other streams
	Cached       uint64 // free in segments that could not be given back, all streams; of a rejected request, in all segments
	CachedOthers uint64 // the part of Cached that belongs to other streams, in the request's pool or the default ones
	CachedPools  uint64 // the part of Cached that belongs to private pools, or to other ones if the request was in one
	LargestFree  uint64 // the largest cached block of the request's stream
	Planned      uint64 // free where the blocks of a plan's steps go; Plan.Close gives back what is free there
	Reserved     uint64 // held by the allocator in all: Allocated + Pending + Cached + Planned

	DeviceFree  uint64 // as the driver says; 0 if it could not be asked
	DeviceTotal uint64
	Limit       uint64 // the limit that was hit, or the allocator's; 0 without LimitHit if there is none
	LimitHit    bool   // the limit was the reason, not the device
	Rejected    bool   // refused before anything was tried (throw_on_cudamalloc_oom)

	// What would have served the request; both may be empty. Setting is all of the settings in the form of ParseConfig: those in force, and one change. It
	// is only named if the recorded program, run again with it, comes to this request and is served. It helps from the start of the program on; set later, it
	// is for new segments only.
	Setting     string
	EnoughLimit uint64 // the least limit with which the request would be served now, in bytes, if the limit was the reason: of the allocator, or of the pool

	Hint string // what would have helped, in words

	rehearsal *rehearsal // until advise is through with it
}

// Is makes errors.Is(err, ErrOutOfMemory) hold, and either ErrLimit or ErrDeviceFull.
func (e *OOMError) Is(target error) bool {
	return target == ErrOutOfMemory || target == ErrLimit && e.LimitHit || target == ErrDeviceFull && !e.LimitHit
}

// Error tells the story in one line, in the words of PyTorch's message, with what that leaves out added.
func (e *OOMError) Error() string {
	if e.Tried == 0 {
		return fmt.Sprintf("%s out of memory. Tried to allocate more than 1EB memory.", deviceWord(e.Device))
	}
	if e.Rejected {
		says := fmt.Sprintf("%s out of memory. An allocation of %s on %s was pre-emptively rejected because it would exceed the "+
			"per_process_memory_fraction limit of %s.", deviceWord(e.Device), text.Bytes(e.Requested), deviceName(e.Device), text.Bytes(e.Limit))
		if e.Hint != "" {
			says += " " + e.Hint
		}
		return says
	}
	var s strings.Builder
	fmt.Fprintf(&s, "%s out of memory. Tried to allocate %s. %s has a total capacity of %s of which %s is free. ",
		deviceWord(e.Device), text.Bytes(e.Tried), deviceName(e.Device), text.Bytes(e.DeviceTotal), text.Bytes(e.DeviceFree))
	if other := e.DeviceTotal - e.DeviceFree; e.DeviceTotal > e.DeviceFree && other > e.Reserved {
		fmt.Fprintf(&s, "%s is in use outside this allocator. ", text.Bytes(other-e.Reserved))
	}
	if e.Tried/2 >= e.Requested {
		fmt.Fprintf(&s, "The request is for %s, which takes a segment of %s. ", text.Bytes(e.Requested), text.Bytes(e.Tried))
	}
	if e.Pages != 0 && e.Pages != e.Tried {
		fmt.Fprintf(&s, "In whole pages it takes %s. ", text.Bytes(e.Pages))
	}
	if e.Limit != 0 || e.LimitHit {
		fmt.Fprintf(&s, "%s allowed; ", text.Bytes(e.Limit))
	}
	fmt.Fprintf(&s, "Of the allocated memory %s is allocated by Cistern, and %s is reserved by Cistern but unallocated.",
		text.Bytes(e.Allocated), text.Bytes(e.Reserved-e.Allocated))
	fmt.Fprintf(&s, " The largest free block of stream %d is %s", e.Stream, text.Bytes(e.LargestFree))
	if e.CachedOthers > 0 {
		fmt.Fprintf(&s, "; %s is cached for other streams", text.Bytes(e.CachedOthers))
	}
	if e.CachedPools > 0 {
		fmt.Fprintf(&s, "; %s is cached in other memory pools", text.Bytes(e.CachedPools))
	}
	if e.Planned > 0 {
		fmt.Fprintf(&s, "; %s is kept for the steps of a plan", text.Bytes(e.Planned))
	}
	if e.Pending > 0 {
		fmt.Fprintf(&s, "; %s is freed but in use by other streams", text.Bytes(e.Pending))
	}
	s.WriteString(".")
	if e.Hint != "" {
		s.WriteString(" " + e.Hint)
	}
	return s.String()
}

func deviceWord(id device.ID) string {
	switch id.Kind {
	case device.CUDA:
		return "CUDA"
	case device.Host:
		return "Host"
	}
	return "Simulated device"
}

func deviceName(id device.ID) string {
	if id.Kind == device.CUDA {
		return fmt.Sprintf("GPU %d", id.Index)
	}
	return fmt.Sprintf("Device %s", id)
}

// outOfMemory counts a failed request and explains it. Caller holds a.mu.
func (a *Caching) outOfMemory(r *request) error {
	a.dev.NumOOMs++
	e := &OOMError{
		Device: a.id, Stream: r.shard.id(), Requested: r.bytes, Tried: r.policy.segmentSize(r.size),
		Reserved: uint64(a.dev.ReservedBytes.All.Current), LimitHit: r.overLimit,
	}
	if limit := a.limit.Load(); limit != unlimited {
		e.Limit = limit
	}
	pool := r.shard.pool
	if pool != nil && r.overLimit && pool.overLimit(e.Tried) {
		e.Limit = pool.limit
	}
	if info, err := a.driver.MemInfo(); err == nil {
		e.DeviceFree, e.DeviceTotal = info.Free, info.Total
	}
	a.noteOOM(r, e.DeviceFree)
	a.fill(e, r)
	a.advise(e, r)
	return e
}

// fill enters what the books say of a failed request, and what the device must have for it. Caller holds a.mu and no shard.
func (a *Caching) fill(e *OOMError, r *request) {
	r.wanted = e.Tried
	if d, ok := a.expands(r); ok {
		if e.Pages, ok = a.pagesFor(d, r, e.DeviceTotal); ok {
			r.wanted = e.Pages
		} else {
			r.wanted = unlimited
		}
	}
	plans := false
	for _, sh := range *a.shards.Load() {
		sh.mu.Lock()
		plans = plans || sh.steps != nil
		for k := range poolKinds {
			t := &sh.tally.pool[k]
			e.Allocated += uint64(t.current[hotAllocatedBytes])
			e.Pending += uint64(t.current[hotPendingBytes])
			e.Cached += sh.pools[k].bytes
			if sh.pool != r.shard.pool {
				e.CachedPools += sh.pools[k].bytes
			} else if sh != r.shard {
				e.CachedOthers += sh.pools[k].bytes
			} else if b := sh.pools[k].last(); b != nil {
				e.LargestFree = max(e.LargestFree, b.size)
			}
		}
		sh.mu.Unlock()
	}
	if plans {
		e.Planned = e.Reserved - min(e.Reserved, e.Allocated+e.Pending+e.Cached)
	}
}

// rejectedAbove is how many reserved bytes throw_on_cudamalloc_oom allows on a device with total bytes.
func (p *policy) rejectedAbove(total uint64) uint64 {
	if p.rejectAbove == 1 {
		return unlimited
	}
	return uint64(p.rejectAbove * float64(total))
}

// rejectEarly refuses a request that would pass the configured fraction of the device's memory, if the settings say so:
// before the driver is asked and without giving anything back. It is no OOM in the statistics. Caller holds a.mu.
func (a *Caching) rejectEarly(r *request) error {
	if r.policy.rejectAbove == 1 {
		return nil
	}
	info, err := a.driver.MemInfo()
	if err != nil {
		return err
	}
	limit := r.policy.rejectedAbove(info.Total)
	size := r.policy.segmentSize(r.size)
	if uint64(a.dev.ReservedBytes.All.Current)+size <= limit {
		return nil
	}
	a.dev.NumOOMRejections++
	e := &OOMError{Device: a.id, Stream: r.shard.id(), Requested: r.bytes, Tried: size, Rejected: true, LimitHit: true, Limit: limit,
		Reserved: uint64(a.dev.ReservedBytes.All.Current), DeviceFree: info.Free, DeviceTotal: info.Total}
	a.fill(e, r)
	e.Hint = a.adviceOnRejection(e, r)
	return e
}

// tooLarge is the answer to requests that no device could serve.
func (a *Caching) tooLarge(bytes uint64) error {
	a.mu.Lock()
	a.dev.NumOOMs++
	a.mu.Unlock()
	e := &OOMError{Device: a.id, Requested: bytes}
	a.tellObservers(e)
	return e
}
