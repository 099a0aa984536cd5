package device

// VirtualMemory is a Device that can reserve addresses without memory and put memory behind them later, page by page: what
// expandable segments are made of. A range is reserved once; pages are mapped into it and unmapped in any order, and only
// mapped pages hold memory and count against the capacity. Addresses without a page must not be touched.
//
// Page sizes, offsets and sizes of ranges are multiples of Granularity; else the call is an ErrInvalidValue.
type VirtualMemory interface {
	Device
	// Granularity is the smallest page, in bytes: a power of two. It is 0 if this device, unlike others of its kind, has no
	// virtual memory; then Reserve is an ErrUnavailable.
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

// PageAliasing is a VirtualMemory that can put the memory of a page behind a second address.
type PageAliasing interface {
	VirtualMemory
	// Alias maps the page that is mapped at of, its first address, at p as well: the same memory at two addresses. p lies in a reserved
	// range, at a multiple of the page's size from its beginning, and has no page. Unmap ends one of the mappings; the memory goes back to
	// the driver with the last. It is an ErrUnavailable where the driver cannot do it. Work that writes by one of the addresses and work that reads by the other must be ordered, as by a stream.
	Alias(p, of Ptr) error
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

// AsyncCopier is a Stream that copies between the device and pinned memory without waiting: the calls return before the copy
// is done. Until then src must not change, dst must not be read, and neither may be freed. Memory that is not pinned (see
// PinnedMemory) is an ErrInvalidValue.
type AsyncCopier interface {
	Stream
	CopyToDeviceAsync(dst Ptr, src []byte) error
	CopyToHostAsync(dst []byte, src Ptr) error
}

// CloseReporter is a Stream that says whether it was closed, without asking the driver. Memory that only served its work is nobody's
// then.
type CloseReporter interface {
	Stream
	// Closed reports whether Close of the stream or of its device has ended it: all its work has finished, and no more can be put
	// there. It waits for nothing and takes no lock: allocators ask at each call.
	Closed() bool
}

// StreamOrdered is a Device whose driver has an allocator of its own in which memory is taken and given back in stream order,
// with a pool behind it: what cudaMallocAsync is. Package memory uses it as a backend.
type StreamOrdered interface {
	Device
	// StreamOrdered reports whether this device, and not only others of its kind, has it. Else the methods below are an
	// ErrUnavailable.
	StreamOrdered() bool
	// AllocAsync takes memory that work enqueued on s from now on may use. Work on other streams may use it when it is ordered
	// behind that. The pool keeps what is freed until TrimPool.
	AllocAsync(bytes uint64, s Stream) (Ptr, error)
	// FreeAsync gives it back behind the work on s.
	FreeAsync(p Ptr, s Stream) error
	// TrimPool gives memory of the pool that nobody uses back to the device, down to keep bytes.
	TrimPool(keep uint64) error
	PoolUsage() (PoolUsage, error)
	// ResetPoolPeaks sets the peaks of PoolUsage to the current values.
	ResetPoolPeaks() error
}

// PoolUsage is the state of a StreamOrdered device's pool, in bytes.
type PoolUsage struct {
	Used, UsedPeak         uint64 // held by callers
	Reserved, ReservedPeak uint64 // taken from the device
}

// ProcessLister is a Device that can say which processes hold its memory.
type ProcessLister interface {
	Device
	// Processes lists them, those with the most memory first, this process too if it holds any. It is an ErrUnavailable where the
	// device, unlike others of its kind, cannot say.
	Processes() ([]Process, error)
}

// Process is a process of the machine that holds memory of a device.
type Process struct {
	PID    int    // as the system outside of containers numbers it
	Name   string // usually a path; "" if it is not known
	Memory uint64 // bytes, all that it holds: also its context, its kernels, its libraries' memory; 0 if it is not known
}
