package memory

import (
	"errors"
	"os"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/text"
)

// Reserve takes at least bytes from the device ahead of use and keeps them cached for a stream: how a program holds its
// share of a GPU that others use too. What is cached for the stream already counts. The bytes come in segments that later
// requests can share: one, or, with max_split_size_mb, several just below it. If the device or the limit does not allow it
// all, it fails with an *OOMError and has taken nothing.
func (a *Caching) Reserve(bytes uint64, s device.Stream) (err error) {
	if a.absent() {
		return argumentErr("Reserve", text.NilAllocator)
	}
	if err := checkOpenStream("Reserve", a.id, a.driver, s); err != nil {
		return err
	}
	sh, err := a.shardOf(s)
	if err != nil {
		return err
	}
	sh.mu.Lock()
	cached := sh.pools[largePool].bytes
	sh.mu.Unlock()
	a.spoil() // what it takes is taken whatever is cached, and the history says no more than that it is allocated and freed
	piece := a.policy.Load().maxSplit
	if piece != unlimited {
		piece = (piece - 1) / largeRounding * largeRounding
	}
	// Each piece is taken as a block, so that the pieces before are not found cached, and all are freed at the end.
	var taken []Block
	done := false
	defer func() { err = errors.Join(err, a.freeReserved(taken, done)) }() // also if an observer panics
	for cached < bytes {
		b, err := a.takeSegment(sh, max(min(bytes-cached, piece), smallLimit+minBlock))
		if err != nil {
			if len(taken) > 0 || bytes-cached > piece {
				forgetAdvice(err)
			}
			a.tellObservers(err)
			return err
		}
		taken = append(taken, b)
		cached += b.Size()
	}
	done = true
	return nil
}

// forgetAdvice is for a request that is a part of what is wanted: what would have served it may be no help to the whole.
func forgetAdvice(err error) {
	var e *OOMError
	if errors.As(err, &e) {
		e.Setting, e.EnoughLimit, e.Hint = "", 0, ""
	}
}

// freeReserved frees the pieces of Reserve: to keep them cached, or, if it could not get all, to give them back.
func (a *Caching) freeReserved(taken []Block, keep bool) error {
	var errs []error
	for _, b := range taken {
		errs = append(errs, a.Free(b))
	}
	if !keep && len(taken) > 0 {
		errs = append(errs, a.EmptyCache())
	}
	return errors.Join(errs...)
}

// takeSegment allocates a block that is a new segment, whatever is cached.
func (a *Caching) takeSegment(sh *shard, bytes uint64) (Block, error) {
	p := a.policy.Load()
	r := &request{policy: p, shard: sh, kind: largePool, bytes: bytes, size: roundUp(max(bytes, largeThreshold), largeRounding), site: a.allocSite()}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.behalf = r.site
	if err := a.refused(r); err != nil {
		return Block{}, err
	}
	b, err := a.attempt(r)
	if err != nil {
		return Block{}, err
	}
	if b == nil {
		return Block{}, a.outOfMemory(r)
	}
	b.shard.mu.Lock()
	return b.shard.finish(p, b, b.size, bytes, r.site), nil
}

// Usage divides a device's memory by who holds it, in bytes: Total = Free + Reserved + Other.
//
// Where the device can tell (device.ProcessLister; on GPUs by NVIDIA's management library), Other is divided further. In a
// container with process numbers of its own, this process is among Processes under the number that it has outside.
type Usage struct {
	Total     uint64
	Free      uint64 // nobody's
	Reserved  uint64 // this allocator's
	Allocated uint64 // the part of Reserved that blocks use, or wait to give back
	Other     uint64 // the rest: other processes, the device's context, libraries

	Own       uint64           // the part of Other that is this process's: the context, kernels, libraries. 0 if nobody can tell
	Processes []device.Process // the other processes, those with the most memory first; nil if nobody can tell
}

// Usage asks the driver and compares with the allocator's books.
func (a *Caching) Usage() (Usage, error) {
	if a.absent() {
		return Usage{}, argumentErr("Usage", text.NilAllocator)
	}
	info, err := a.driver.MemInfo()
	if err != nil {
		return Usage{}, err
	}
	s := a.Stats()
	u := Usage{Total: info.Total, Free: info.Free, Reserved: uint64(s.ReservedBytes.All.Current), Allocated: uint64(s.ActiveBytes.All.Current)}
	// The two numbers are not of the same moment: while other goroutines allocate, the sum may be off for a moment.
	if held := u.Free + u.Reserved; held < u.Total {
		u.Other = u.Total - held
	}
	a.divide(&u)
	return u, nil
}

// divide asks the device who holds Other. It is no error if it cannot tell.
func (a *Caching) divide(u *Usage) {
	l, ok := a.driver.(device.ProcessLister)
	if !ok {
		return
	}
	all, err := l.Processes()
	if err != nil {
		return
	}
	u.Processes = []device.Process{}
	for _, p := range all {
		if p.PID != os.Getpid() {
			u.Processes = append(u.Processes, p)
		} else if p.Memory > u.Reserved {
			u.Own = min(p.Memory-u.Reserved, u.Other)
		}
	}
}
