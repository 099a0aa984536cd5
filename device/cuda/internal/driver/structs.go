package driver

// AllocationProp is CUmemAllocationProp: what MemCreate makes a page of. Its layout is the driver's, 32 bytes.
type AllocationProp struct {
	Type         int32 // AllocationPinned
	HandleTypes  int32
	LocationType int32 // LocationDevice
	LocationID   int32 // ordinal of the device
	Win32Meta    uintptr
	Flags        [8]byte
}

// AccessDesc is CUmemAccessDesc: which device may do what. Its layout is the driver's, 12 bytes.
type AccessDesc struct {
	LocationType int32 // LocationDevice
	LocationID   int32
	Flags        int32 // AccessReadWrite
}

// Numbers of the driver's enumerations.
const (
	AllocationPinned = 1
	LocationDevice   = 1
	AccessReadWrite  = 3

	StreamNonBlocking = 1

	EventDisableTiming = 2

	HostAllocPortable    = 1 // pinned for all contexts
	HostRegisterPortable = 1

	CaptureRelaxed = 2

	GraphAutoFree = 1 // on launch

	GranularityMinimum = 0

	PoolReleaseThreshold = 4 // attributes of memory pools, 64 bits each
	PoolReservedCurrent  = 5
	PoolReservedHigh     = 6
	PoolUsedCurrent      = 7
	PoolUsedHigh         = 8
)
