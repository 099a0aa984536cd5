package device

// VirtualMemory is a Device that can reserve addresses without memory and put memory behind them later, page by page: what
// expandable segments are made of. A range is reserved once; pages are mapped into it and unmapped in any order, and only
// mapped pages hold memory and count against the capacity. Addresses without a page must not be touched.
//
// Page sizes, offsets and sizes of ranges are multiples of Granularity; else the call is an ErrInvalidValue.
type VirtualMemory interface {
	Device
	// Granularity is the smallest page, in bytes: a power of two.
	Granularity() uint64
	// Reserve takes a range of addresses. It holds no memory.
	Reserve(bytes uint64) (Ptr, error)
	// Unreserve gives back a range that Reserve returned and in which no page is mapped.
	Unreserve(p Ptr) error
	// Map puts bytes/page new pages behind the addresses from p on, which lie in one reserved range and have none. It takes
	// all pages from the driver before it maps the first; if one of them cannot be had it gives the others back, maps
	// nothing, and fails with ErrOutOfMemory. bytes is a multiple of page. The memory's content is undefined.
	Map(p Ptr, bytes, page uint64) error
	// Unmap gives the pages of [p, p+bytes) back to the driver, one by one in the order of their addresses. The range
	// consists of whole pages as Map made them. Like Free, it is safe while work that uses the pages is in flight.
	Unmap(p Ptr, bytes uint64) error
}

// PinnedMemory is a Device that hands out host memory which the operating system does not move, so that copies to and from
// the device can run at full speed and without a staging copy.
type PinnedMemory interface {
	Device
	// AllocPinned returns bytes bytes of zeroed host memory. Zero bytes are an ErrInvalidValue.
	AllocPinned(bytes uint64) ([]byte, error)
	// FreePinned gives back what AllocPinned returned; any slice that starts at its first byte will do. A slice that
	// AllocPinned did not return, or that was freed, is an ErrInvalidValue. The memory must not be touched afterwards.
	FreePinned(b []byte) error
}
