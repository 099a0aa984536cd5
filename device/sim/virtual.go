package sim

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/internal/extent"
)

// Granularity is 2 MiB, as on NVIDIA GPUs.
func (d *Device) Granularity() uint64 { return alignment }

// Reserve takes a segment number and addresses, and no memory.
func (d *Device) Reserve(bytes uint64) (device.Ptr, error) {
	d = d.orAbsent()
	d.mu.Lock()
	defer d.mu.Unlock()
	c := Call{Kind: CallReserve, Segment: none, Bytes: bytes}
	if err := d.open(c.Kind); err != nil {
		return 0, err
	}
	if !d.begin(&c) {
		return 0, d.end(&c)
	}
	switch {
	case bytes == 0 || bytes%alignment != 0:
		c.Err = d.fail(c.Kind, device.ErrInvalidValue, "%d bytes are not whole pages of %d", bytes, alignment)
		return 0, d.end(&c)
	case bytes > lastAddress-d.mu.next:
		c.Err = d.fail(c.Kind, device.ErrOutOfMemory, "no addresses left for %d bytes", bytes)
		return 0, d.end(&c)
	}
	addr, segment := d.newSegment(bytes)
	d.mu.ranges.Insert(extent.Extent{Addr: addr, Size: bytes, Owner: addr, Tag: segment})
	c.Segment = segment
	return device.Ptr(addr), d.end(&c)
}

// Unreserve gives an empty range back.
func (d *Device) Unreserve(p device.Ptr) error {
	d = d.orAbsent()
	d.mu.Lock()
	defer d.mu.Unlock()
	c := Call{Kind: CallUnreserve, Segment: none}
	if err := d.open(c.Kind); err != nil {
		return err
	}
	e, found := d.mu.ranges.Get(uint64(p))
	if found {
		c.Segment, c.Bytes = e.Tag, e.Size
	}
	if !d.begin(&c) {
		return d.end(&c)
	}
	switch {
	case !found:
		c.Err = d.fail(c.Kind, device.ErrInvalidValue, "address %#x was not returned by Reserve or is given back", uintptr(p))
	case d.mu.memory.Overlaps(e.Addr, e.Size):
		c.Err = d.fail(c.Kind, device.ErrInvalidValue, "the range at address %#x still has pages", uintptr(p))
	default:
		d.mu.ranges.Remove(e.Addr)
	}
	return d.end(&c)
}

// Map creates all pages, then maps them one by one. If a call fails, what was done so far is undone and the range is as it
// was.
func (d *Device) Map(p device.Ptr, bytes, page uint64) error {
	d = d.orAbsent()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.open(CallPageMap); err != nil {
		return err
	}
	if bytes == 0 || page == 0 || page%alignment != 0 || bytes%page != 0 || uint64(p)%alignment != 0 {
		return d.fail(CallPageMap, device.ErrInvalidValue, "%d bytes at address %#x are not whole pages of %d", bytes, uintptr(p), page)
	}
	in, found := d.mu.ranges.Find(uint64(p))
	if !found || bytes > in.End()-uint64(p) || d.mu.memory.Overlaps(uint64(p), bytes) {
		return d.fail(CallPageMap, device.ErrInvalidValue,
			"%d bytes at address %#x are not in a reserved range or have pages", bytes, uintptr(p))
	}
	pages := int(bytes / page)
	for i := range pages {
		if err := d.createPage(in.Tag, page); err != nil {
			d.releasePages(in.Tag, page, i)
			return err
		}
	}
	for i := range pages {
		at := uint64(p) + uint64(i)*page
		if err := d.mapPage(in, at, page); err != nil {
			d.undoMap(in, uint64(p), page, i)
			d.releasePages(in.Tag, page, pages)
			return err
		}
	}
	return nil
}

// Unmap unmaps and releases pages one by one. A call that fails leaves the pages from that one on mapped.
func (d *Device) Unmap(p device.Ptr, bytes uint64) error {
	d = d.orAbsent()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.open(CallPageUnmap); err != nil {
		return err
	}
	in, found := d.mu.ranges.Find(uint64(p))
	pages := d.mu.memory.Within(uint64(p), bytes)
	if !found || pages == nil {
		return d.fail(CallPageUnmap, device.ErrInvalidValue,
			"%d bytes at address %#x are not whole pages that were mapped", bytes, uintptr(p))
	}
	for range len(pages) {
		e, _ := d.mu.memory.Get(uint64(p)) // the slice pages moves with each removal
		if err := d.unmapPage(in, e); err != nil {
			return err
		}
		if !d.forgetAlias(e.Addr) {
			d.releasePages(in.Tag, e.Size, 1)
		}
		p = p.Add(e.Size)
	}
	return nil
}

// Alias is one call, as of CUDA's cuMemMap.
func (d *Device) Alias(p, of device.Ptr) error {
	d = d.orAbsent()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.open(CallPageMap); err != nil {
		return err
	}
	e, found := d.mu.memory.Get(uint64(of))
	if !found || !d.isPage(e) {
		return d.fail(CallPageMap, device.ErrInvalidValue, "no page is mapped at address %#x", uintptr(of))
	}
	in, found := d.mu.ranges.Find(uint64(p))
	if !found || uint64(p)%alignment != 0 || e.Size > in.End()-uint64(p) || d.mu.memory.Overlaps(uint64(p), e.Size) {
		return d.fail(CallPageMap, device.ErrInvalidValue,
			"%d bytes at address %#x are not in a reserved range or have pages", e.Size, uintptr(p))
	}
	if err := d.mapPage(in, uint64(p), e.Size); err != nil {
		return err
	}
	count := d.mu.aliases[e.Addr]
	if count == nil {
		count = new(int)
		*count = 1
		d.mu.aliases[e.Addr] = count
	}
	*count++
	d.mu.aliases[uint64(p)] = count
	return nil
}

// forgetAlias ends one of several mappings of a page. It reports false if that was the last, whose memory goes. The caller holds d.mu.
func (d *Device) forgetAlias(at uint64) bool {
	count := d.mu.aliases[at]
	if count == nil {
		return false
	}
	delete(d.mu.aliases, at)
	*count--
	return *count > 0
}

// createPage takes physical memory. The caller holds d.mu.
func (d *Device) createPage(segment int, page uint64) error {
	c := Call{Kind: CallPageCreate, Segment: segment, Bytes: page}
	if d.begin(&c) {
		c.Err = d.take(c.Kind, page)
	}
	return d.end(&c)
}

// releasePages gives the physical memory of n pages back. The caller holds d.mu.
func (d *Device) releasePages(segment int, page uint64, n int) {
	for range n {
		c := Call{Kind: CallPageRelease, Segment: segment, Bytes: page}
		d.give(page)
		_ = d.end(&c) // no fault is injected here: nobody could undo an undoing
	}
}

// mapPage puts a page behind the address at. The caller holds d.mu.
func (d *Device) mapPage(in extent.Extent, at, page uint64) error {
	c := Call{Kind: CallPageMap, Segment: in.Tag, Offset: at - in.Addr, Bytes: page}
	if d.begin(&c) {
		d.mu.memory.Insert(extent.Extent{Addr: at, Size: page, Owner: in.Addr, Tag: in.Tag})
	}
	return d.end(&c)
}

// unmapPage takes a page from behind its address. The caller holds d.mu.
func (d *Device) unmapPage(in, e extent.Extent) error {
	c := Call{Kind: CallPageUnmap, Segment: in.Tag, Offset: e.Addr - in.Addr, Bytes: e.Size}
	if d.begin(&c) {
		d.mu.memory.Remove(e.Addr)
	}
	return d.end(&c)
}

// undoMap unmaps the first n pages of a Map that failed, without faults. The caller holds d.mu.
func (d *Device) undoMap(in extent.Extent, at, page uint64, n int) {
	for i := range n {
		e, _ := d.mu.memory.Remove(at + uint64(i)*page)
		c := Call{Kind: CallPageUnmap, Segment: in.Tag, Offset: e.Addr - in.Addr, Bytes: e.Size}
		_ = d.end(&c)
	}
}
