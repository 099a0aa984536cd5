package memory

import (
	"github.com/cistern-ml/cistern/device"
)

// Release is cached memory that went back to the driver.
type Release struct {
	Device device.ID
	Cause  ReleaseCause
	Bytes  uint64 // that went back
	Calls  int64  // of the driver that freed or unmapped them

	// Of the request that needed the room; zero for ReleaseAsked.
	Requested uint64 // bytes that its caller asked for
	Stream    device.StreamID
	Served    bool // it has its memory; else its error is told to the observers of OnOOM, if it is an *OOMError
}

// ReleaseCause is why cached memory went back to the driver.
type ReleaseCause string

// The causes, from the cheapest to the dearest for a program that meets them at every step.
const (
	ReleaseAsked    ReleaseCause = "EmptyCache"         // the program called EmptyCache, of the allocator or of a pool
	ReleaseGarbage  ReleaseCause = "garbage collection" // garbage_collection_threshold was passed
	ReleaseOversize ReleaseCause = "oversize"           // blocks above max_split_size_mb made room for a request
	ReleaseRetry    ReleaseCause = "retry"              // the driver had no memory, so the whole cache went, and it was asked again
)

// OnRelease registers a function to be told when cached memory went back to the driver, and of every retry, also if there was nothing to
// give back: to log, or to find out why a program is slow. It is called by the goroutine whose call it was, when that call is through and
// before it returns, in the order of registration and without a lock, so it may call the allocator as it likes. What Close gives back is
// not told. If it panics, the functions after it are not called, and the panic reaches who called; a request that it was called for
// takes nothing. A nil function changes nothing.
func (a *Caching) OnRelease(f func(Release)) {
	if a.absent() || f == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.releaseObservers = append(a.releaseObservers, f)
}

// releases are those of one call, until its locks are released.
type releases struct {
	list      []Release
	observers []func(Release)
}

// note runs free, which gives cached memory back, and notes what went. Caller holds a.mu.
func (l *releases) note(a *Caching, cause ReleaseCause, free func() error) error {
	if len(a.releaseObservers) == 0 {
		return free()
	}
	reserved, calls := a.dev.ReservedBytes.All.Current, a.dev.NumDeviceFree
	err := free()
	r := Release{Device: a.id, Cause: cause, Bytes: uint64(reserved - a.dev.ReservedBytes.All.Current), Calls: a.dev.NumDeviceFree - calls}
	if r.Bytes > 0 || cause == ReleaseRetry {
		l.list = append(l.list, r)
		l.observers = a.releaseObservers[:len(a.releaseObservers):len(a.releaseObservers)]
	}
	return err
}

// tell calls what OnRelease registered. No lock is held.
func (l *releases) tell() {
	for _, r := range l.list {
		for _, f := range l.observers {
			f(r)
		}
	}
}

// tellReleases tells what went back on the way of a request, whose block is h if it was served.
func (a *Caching) tellReleases(r *request, h Block, err error) {
	if len(r.releases.list) == 0 {
		return
	}
	told := false
	defer func() {
		if !told && err == nil { // an observer panics, and nobody gets the block
			_ = a.Free(h)
		}
	}()
	for i := range r.releases.list {
		e := &r.releases.list[i]
		e.Requested, e.Stream, e.Served = r.bytes, r.shard.id(), err == nil
	}
	r.releases.tell()
	told = true
}
