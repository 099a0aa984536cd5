package replay

import (
	"cmp"
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
)

// recorder stands between an allocator and any device with virtual memory, and keeps the same books of its driver calls as
// a simulated device does: each call is counted and logged, and its memory numbered in the order of success. The memory is
// real, and nobody touches it.
//
// What it cannot see is the inside of a Map that fails: that counts as one page refused.
type recorder struct {
	*books
	device.VirtualMemory
	open func(number uint64) (device.Stream, error)

	streams  map[uint64]*numberedStream
	segments []segment // by address
	made     int       // segments so far
	counts   sim.Calls
}

// segment is one driver allocation or reserved range.
type segment struct {
	ptr    device.Ptr
	bytes  uint64
	number int
	page   uint64 // of a range: the size of its pages
}

var _ memory.VirtualDriver = (*recorder)(nil)

// newRecorder makes a recorder, which owns dev. open makes the stream that a trace gives a number to.
func newRecorder(dev device.VirtualMemory, b *books, open func(number uint64) (device.Stream, error)) *recorder {
	return &recorder{books: b, VirtualMemory: dev, open: open, streams: map[uint64]*numberedStream{}}
}

func (r *recorder) driver() memory.Driver { return r }
func (r *recorder) calls() Driver         { return driverCounts(r.counts, r.granulesPeak) }
func (r *recorder) close() error          { return r.Close() }

// enter counts a call, notes it in the books, and returns its error.
func (r *recorder) enter(c sim.Call, err error) error {
	c.Err = err
	r.counts.Count[c.Kind]++
	if err != nil {
		r.counts.Failed[c.Kind]++
	}
	r.note(c)
	return err
}

// Malloc implements memory.Driver.
func (r *recorder) Malloc(bytes uint64) (device.Ptr, error) {
	p, err := r.VirtualMemory.Malloc(bytes)
	c := sim.Call{Kind: sim.CallMalloc, Bytes: bytes}
	if err == nil {
		c.Segment = r.add(p, bytes)
		r.take(bytes)
	}
	return p, r.enter(c, err)
}

// Free implements memory.Driver.
func (r *recorder) Free(p device.Ptr) error {
	err := r.VirtualMemory.Free(p)
	c := sim.Call{Kind: sim.CallFree}
	if err == nil {
		c.Segment, c.Bytes = r.remove(p)
		r.give(c.Bytes)
	}
	return r.enter(c, err)
}

// Reserve implements memory.VirtualDriver.
func (r *recorder) Reserve(bytes uint64) (device.Ptr, error) {
	p, err := r.VirtualMemory.Reserve(bytes)
	c := sim.Call{Kind: sim.CallReserve, Bytes: bytes}
	if err == nil {
		c.Segment = r.add(p, bytes)
	}
	return p, r.enter(c, err)
}

// Unreserve implements memory.VirtualDriver.
func (r *recorder) Unreserve(p device.Ptr) error {
	err := r.VirtualMemory.Unreserve(p)
	c := sim.Call{Kind: sim.CallUnreserve}
	if err == nil {
		c.Segment, c.Bytes = r.remove(p)
	}
	return r.enter(c, err)
}

// Map implements memory.VirtualDriver. It stands for the calls of CUDA: all pages are created, then mapped one by one.
func (r *recorder) Map(p device.Ptr, bytes, page uint64) error {
	if err := r.VirtualMemory.Map(p, bytes, page); err != nil {
		return r.enter(sim.Call{Kind: sim.CallPageCreate, Bytes: page}, err)
	}
	s := r.find(p)
	s.page = page
	for range bytes / page {
		_ = r.enter(sim.Call{Kind: sim.CallPageCreate, Segment: s.number, Bytes: page}, nil)
		r.take(page)
	}
	for at := p; at < p.Add(bytes); at = at.Add(page) {
		_ = r.enter(sim.Call{Kind: sim.CallPageMap, Segment: s.number, Offset: uint64(at - s.ptr), Bytes: page}, nil)
	}
	return nil
}

// Unmap implements memory.VirtualDriver.
func (r *recorder) Unmap(p device.Ptr, bytes uint64) error {
	if err := r.VirtualMemory.Unmap(p, bytes); err != nil {
		return r.enter(sim.Call{Kind: sim.CallPageUnmap, Bytes: bytes}, err)
	}
	s := r.find(p)
	for at := p; at < p.Add(bytes); at = at.Add(s.page) {
		_ = r.enter(sim.Call{Kind: sim.CallPageUnmap, Segment: s.number, Offset: uint64(at - s.ptr), Bytes: s.page}, nil)
		_ = r.enter(sim.Call{Kind: sim.CallPageRelease, Segment: s.number, Bytes: s.page}, nil)
		r.give(s.page)
	}
	return nil
}

// take and give count memory as a simulated device does.
func (r *recorder) take(bytes uint64) {
	r.counts.BytesNow += roundUp(bytes, 512)
	r.counts.BytesPeak = max(r.counts.BytesPeak, r.counts.BytesNow)
}

func (r *recorder) give(bytes uint64) { r.counts.BytesNow -= roundUp(bytes, 512) }

// add numbers a new segment.
func (r *recorder) add(p device.Ptr, bytes uint64) (number int) {
	number = r.made
	r.made++
	i, _ := r.search(p)
	r.segments = slices.Insert(r.segments, i, segment{ptr: p, bytes: bytes, number: number})
	return number
}

// remove forgets the segment at p, which the driver has taken back.
func (r *recorder) remove(p device.Ptr) (number int, bytes uint64) {
	i, _ := r.search(p)
	gone := r.segments[i]
	r.segments = slices.Delete(r.segments, i, i+1)
	return gone.number, gone.bytes
}

func (r *recorder) search(p device.Ptr) (int, bool) {
	return slices.BinarySearchFunc(r.segments, p, func(s segment, p device.Ptr) int { return cmp.Compare(s.ptr, p) })
}

// find returns the segment in which p lies, or nil. It is valid until segments come or go.
func (r *recorder) find(p device.Ptr) *segment {
	i, exact := r.search(p)
	if !exact {
		i--
	}
	if i < 0 || p >= r.segments[i].ptr.Add(r.segments[i].bytes) {
		return nil
	}
	return &r.segments[i]
}

func (r *recorder) segment(p device.Ptr) (int, uint64) {
	s := r.find(p)
	if s == nil {
		return -1, 0
	}
	return s.number, uint64(p - s.ptr)
}
