package memory_test

import (
	"errors"
	"fmt"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
)

// The four calls: Alloc, RecordStream when another stream uses the block too, Free, which does not wait for the device, and
// Close at the end of the program.
func ExampleCaching() {
	dev := sim.New(4 * device.GiB)
	a, err := memory.New(dev, memory.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	compute, copies := dev.DefaultStream(), dev.Stream(1)

	x, err := a.Alloc(3*device.MiB, compute)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = compute.Fill(x.Ptr(), 0, x.Size()) // work on its own stream
	_ = copies.Fill(x.Ptr(), 0, x.Size())  // and on another one,
	_ = a.RecordStream(x, copies)          // of which the allocator must know
	_ = a.Free(x)                          // at once: the memory is reused after that work

	y, _ := a.Alloc(5*device.MiB, compute) // from the cache: the driver is not asked again
	s := a.Stats()
	fmt.Println("driver calls:", s.NumDeviceAlloc)
	fmt.Println("allocated:", device.FormatBytes(uint64(s.AllocatedBytes.All.Current)))
	fmt.Println("reserved:", device.FormatBytes(uint64(s.ReservedBytes.All.Current)))
	_ = a.Free(y)
	fmt.Println("leaks:", a.Close())
	// Output:
	// driver calls: 1
	// allocated: 5MiB
	// reserved: 20MiB
	// leaks: <nil>
}

// The table of torch.cuda.memory_summary, here in its short form. AsPyTorch would write PyTorch's heading, too.
func ExampleStats_Summary() {
	dev := sim.New(4 * device.GiB)
	a, _ := memory.New(dev, memory.Config{})
	for _, bytes := range []uint64{1000, 3 * device.MiB, 30 * device.MiB} {
		b, _ := a.Alloc(bytes, dev.DefaultStream())
		if bytes == 3*device.MiB {
			_ = a.Free(b)
		}
	}
	fmt.Print(a.Stats().Summary(device.ID{Kind: device.Sim}, true)) // dev.ID() has its number among the devices of the process
	// Output:
	// |===========================================================================|
	// |                    Memory of sim (a simulated device)                     |
	// |---------------------------------------------------------------------------|
	// |            CUDA OOMs: 0            |        cudaMalloc retries: 0         |
	// |===========================================================================|
	// |        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |
	// |---------------------------------------------------------------------------|
	// | Allocated memory      |  30721 KiB |  30721 KiB |  33793 KiB |   3072 KiB |
	// |---------------------------------------------------------------------------|
	// | Active memory         |  30721 KiB |  30721 KiB |  33793 KiB |   3072 KiB |
	// |---------------------------------------------------------------------------|
	// | Requested memory      |  30720 KiB |  30720 KiB |  33792 KiB |   3072 KiB |
	// |---------------------------------------------------------------------------|
	// | GPU reserved memory   |  53248 KiB |  53248 KiB |  53248 KiB |      0 B   |
	// |---------------------------------------------------------------------------|
	// | Non-releasable memory |   2047 KiB |  19455 KiB |  19455 KiB |  17408 KiB |
	// |---------------------------------------------------------------------------|
	// | Allocations           |       2    |       2    |       3    |       1    |
	// |---------------------------------------------------------------------------|
	// | Active allocs         |       2    |       2    |       3    |       1    |
	// |---------------------------------------------------------------------------|
	// | GPU reserved segments |       3    |       3    |       3    |       0    |
	// |---------------------------------------------------------------------------|
	// | Non-releasable allocs |       1    |       2    |       2    |       1    |
	// |---------------------------------------------------------------------------|
	// | Oversize allocations  |       0    |       0    |       0    |       0    |
	// |---------------------------------------------------------------------------|
	// | Oversize GPU segments |       0    |       0    |       0    |       0    |
	// |===========================================================================|
}

// Running out of memory is a value that says what happened, and the allocator works on.
func Example_outOfMemory() {
	dev := sim.New(100 * device.MiB)
	a, _ := memory.New(dev, memory.Config{})
	weights, _ := a.Alloc(60*device.MiB, dev.DefaultStream())

	_, err := a.Alloc(50*device.MiB, dev.DefaultStream())
	var oom *memory.OOMError
	if errors.As(err, &oom) {
		fmt.Println("requested:", device.FormatBytes(oom.Requested))
		fmt.Println("in use:", device.FormatBytes(oom.Allocated))
		fmt.Println("free on the device:", device.FormatBytes(oom.DeviceFree))
	}
	fmt.Println("full device:", errors.Is(err, memory.ErrDeviceFull))
	fmt.Println("own limit:", errors.Is(err, memory.ErrLimit))

	_ = a.Free(weights) // cached, and given back to the driver when somebody needs it
	_, err = a.Alloc(50*device.MiB, dev.DefaultStream())
	fmt.Println("after a free:", err)
	// Output:
	// requested: 50MiB
	// in use: 60MiB
	// free on the device: 40MiB
	// full device: true
	// own limit: false
	// after a free: <nil>
}

// Settings are written as for PyTorch; a mistake names the key and what is allowed.
func ExampleParseConfig() {
	c, err := memory.ParseConfig("max_split_size_mb:128, garbage_collection_threshold:0.8")
	fmt.Println(c.MaxSplitBytes, c.GarbageCollectionThreshold, err)
	fmt.Println(c)

	_, err = memory.ParseConfig("max_split_size_mb:2")
	fmt.Println(err)
	var wrong *memory.ConfigError
	fmt.Println(errors.As(err, &wrong), wrong.Key)
	// Output:
	// 134217728 0.8 <nil>
	// max_split_size_mb:128,garbage_collection_threshold:0.8
	// memory: allocator setting max_split_size_mb: invalid value "2": too small, must be >= 20
	// true max_split_size_mb
}

// A program that shares a GPU takes half of it and no more.
func ExampleCaching_SetMemoryFraction() {
	dev := sim.New(8 * device.GiB)
	a, _ := memory.New(dev, memory.Config{})
	_ = a.SetMemoryFraction(0.5)

	_, err := a.Alloc(3*device.GiB, dev.DefaultStream())
	fmt.Println(err)
	_, err = a.Alloc(2*device.GiB, dev.DefaultStream())
	fmt.Println(errors.Is(err, memory.ErrOutOfMemory), errors.Is(err, memory.ErrLimit))
	var oom *memory.OOMError
	_ = errors.As(err, &oom)
	fmt.Println(oom.Hint)
	// Output:
	// <nil>
	// true true
	// The device has the memory: a limit of 5.00 GiB would have been enough for this allocation (per_process_memory_fraction, SetMemoryFraction: 0.625). What follows may need more.
}
