package sim

// Live is what a device handed out and nobody gave back.
type Live struct {
	Allocations int
	Ranges      int // reserved
	Pages       int // mapped
	Streams     int // without the default stream; those of Device.Stream included
	Events      int
	Pinned      int    // pieces of pinned host memory
	Bytes       uint64 // of allocations and pages, as they count against the capacity
}

// Live counts what was not given back yet: the zero Live is a program without a leak.
func (d *Device) Live() Live {
	d = d.orAbsent()
	d.mu.Lock()
	defer d.mu.Unlock()
	live := Live{
		Ranges:  d.mu.ranges.Len(),
		Streams: max(len(d.mu.streams)-1, 0),
		Events:  d.mu.events,
		Pinned:  len(d.mu.pinned),
		Bytes:   d.mu.calls.BytesNow,
	}
	for _, e := range d.mu.memory.All() {
		if d.isPage(e) {
			live.Pages++
		} else {
			live.Allocations++
		}
	}
	return live
}
