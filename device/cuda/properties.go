package cuda

import (
	"bytes"
	"strconv"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
)

// Attribute is a number that the driver knows of a device, CUdevice_attribute.
type Attribute int32

// Attributes. The driver has many more, which can be asked for by number.
const (
	MaxThreadsPerBlock      Attribute = 1
	MaxSharedMemoryPerBlock Attribute = 8 // bytes, without opting in to more
	WarpSize                Attribute = 10
	ClockRate               Attribute = 13 // kHz
	ProcessorCount          Attribute = 16
	MemoryClockRate         Attribute = 36 // kHz
	MemoryBusWidth          Attribute = 37 // bits
	L2CacheSize             Attribute = 38 // bytes
	MaxThreadsPerProcessor  Attribute = 39
	ComputeCapabilityMajor  Attribute = 75
	ComputeCapabilityMinor  Attribute = 76
	MaxSharedMemoryOptIn    Attribute = 97 // bytes a block can have after Kernel.SetMaxShared
	VirtualMemorySupported  Attribute = 102
	MemoryPoolsSupported    Attribute = 115
)

const (
	alignment = 256 // bytes, of what cuMemAlloc returns: CUDA C++ Programming Guide, "Device Memory Accesses"
	maxName   = 256
)

// Attribute asks the driver for a number. It makes no context.
func (d *Device) Attribute(a Attribute) (int, error) {
	d = d.orAbsent()
	if d == absent {
		return 0, noDevice("Attribute")
	}
	b := d.library.Batch()
	defer b.Release()
	b.Add(driver.DeviceGetAttribute, b.Out(0), uintptr(uint32(a)), d.ordinal)
	if f, r := b.Run(); r != driver.Success {
		return 0, d.failed(f, r, "attribute %d", int32(a))
	}
	return int(int32(b.Value(0))), nil
}

// newDevice asks for what does not change.
func (s *system) newDevice(index int) (*Device, error) {
	d := &Device{system: s, library: s.library, id: device.ID{Kind: device.CUDA, Index: index}, gate: driver.NewGate()}
	d.stream.device = d
	d.mu.open = map[*Stream]struct{}{&d.stream: {}}
	d.mu.events = map[*Event]struct{}{}
	d.mu.memory = map[device.Ptr]uint64{}
	d.mu.async = map[device.Ptr]*graphMemory{}
	d.mu.ranges = map[uint64]uint64{}
	d.mu.code = map[*atomic.Bool]loaded{}
	name := make([]byte, maxName)
	b := d.library.Batch()
	defer b.Release()
	b.Add(driver.DeviceGet, b.Out(0), uintptr(index))
	if f, r := b.Run(); r != driver.Success {
		return nil, d.failed(f, r, "index %d", index)
	}
	d.ordinal = uintptr(uint32(b.Value(0)))
	b.Reset()                                                        // none of these calls needs a context
	b.Add(driver.DeviceGetName, b.Bytes(name), maxName-1, d.ordinal) // a zero stays behind it, however long it is
	b.Add(driver.DeviceTotalMem, b.Out(1), d.ordinal)
	if f, r := b.Run(); r != driver.Success {
		return nil, d.failed(f, r, "index %d", index)
	}
	name, _, _ = bytes.Cut(name, []byte{0})
	d.properties = device.Properties{Name: string(name), TotalMemory: b.Value(1), Alignment: alignment}
	return d, d.numbers()
}

// numbers asks for the attributes among the properties, and for what the device can do.
func (d *Device) numbers() error {
	var virtual, pools int
	for _, want := range []struct {
		attribute Attribute
		to        *int
	}{
		{ProcessorCount, &d.properties.Processors}, {ComputeCapabilityMajor, &d.properties.Major},
		{ComputeCapabilityMinor, &d.properties.Minor}, {MaxSharedMemoryOptIn, &d.properties.SharedMemory},
		{VirtualMemorySupported, &virtual}, {MemoryPoolsSupported, &pools},
	} {
		n, err := d.Attribute(want.attribute)
		if err != nil && (want.to == &virtual || want.to == &pools) {
			n, err = 0, nil // drivers older than the feature do not know its attribute
		}
		if err != nil {
			return err
		}
		*want.to = n
	}
	// The device may be able to and the driver's library too old, or the other way round: both must have it.
	d.pools = pools != 0 && d.library.Has(driver.MemAllocAsync, driver.MemFreeAsync, driver.DeviceGetDefaultMemPool,
		driver.MemPoolSetAttribute, driver.MemPoolGetAttribute, driver.MemPoolTrimTo)
	if virtual == 0 || !d.library.Has(driver.MemAddressReserve, driver.MemAddressFree, driver.MemCreate, driver.MemRelease,
		driver.MemMap, driver.MemUnmap, driver.MemSetAccess, driver.MemGetAllocationGranularity) {
		return nil
	}
	d.askGranularity()
	return nil
}

func itoa(n int) string { return strconv.Itoa(n) }
