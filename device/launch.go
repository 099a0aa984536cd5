package device

import (
	"fmt"
	"math"
)

// Launcher is a Device that runs compiled kernels.
type Launcher interface {
	Device
	// LoadModule makes kernels of a compiled image, which for CUDA is PTX text or a cubin. The image is not used after the call.
	LoadModule(image []byte) (Module, error)
}

// Reporter is a Launcher whose kernels can report errors of their own, such as an index out of range, without stopping the
// device and without anybody waiting for them.
type Reporter interface {
	Launcher
	// Report returns the address of bytes bytes of zeroed host memory that kernels can write to. After every wait that succeeds
	// (Synchronize of stream, event or device, CopyToHost) check is called with that memory, and its error is the wait's. It
	// must be quick, and not call the device; calls of it do not overlap. The memory lives until the device is closed or Report
	// is called again, which ends the earlier one: Report(0, nil) only ends it, and must not be called while kernels that
	// may write there run.
	Report(bytes uint64, check func(memory []byte) error) (Ptr, error)
}

// Module is a set of kernels that were loaded together.
type Module interface {
	// Kernel finds a kernel by its name in the image.
	Kernel(name string) (Kernel, error)
	// Close unloads the module. No kernel of it may run or be launched any more.
	Close() error
}

// Kernel is a function that runs on the device. It lives as long as its module.
type Kernel interface {
	Name() string
	// Launch enqueues the kernel on a stream of its device. params are in the order of the kernel's declaration; they are copied,
	// so that they may be changed and used again as soon as the call returns. It makes no Go heap allocation. Errors of the
	// kernel itself surface at the next wait, as a LaunchError with its name.
	Launch(s Stream, shape LaunchShape, params *Params) error
}

// DescribedKernel is a Kernel that can be told what it is launched for.
type DescribedKernel interface {
	Kernel
	// LaunchFor is Launch. what describes itself, and is asked only where somebody looks: in a profile.
	LaunchFor(what fmt.Stringer, s Stream, shape LaunchShape, params *Params) error
}

// SharedKernel is a Kernel that can ask for more dynamic shared memory than the 48 KiB that every launch may.
type SharedKernel interface {
	Kernel
	// SetMaxShared allows launches with so many bytes, at most Properties.SharedMemory less what the kernel has without asking.
	SetMaxShared(bytes int) error
}

// KernelUsage is what a kernel takes of a multiprocessor, as the device's compiler made it.
type KernelUsage struct {
	Registers  int // of a thread
	Shared     int // bytes of shared memory of a block, without what a launch asks for
	Local      int // bytes of local memory of a thread: spilled registers, and arrays that are indexed
	MaxThreads int // of a block: what registers and the kernel's own bounds allow
}

// MeasuredKernel is a Kernel of which the device knows the KernelUsage.
type MeasuredKernel interface {
	Kernel
	// Usage asks the driver, which may load the kernel's code for it (CUDA does since 12.2): errors of that show here at the latest.
	Usage() (KernelUsage, error)
}

// Dim3 is a size in three dimensions. A dimension of 0 counts as 1.
type Dim3 struct{ X, Y, Z uint32 }

// LaunchShape says how many threads run a kernel.
type LaunchShape struct {
	Grid   Dim3   // blocks
	Block  Dim3   // threads of a block
	Shared uint32 // bytes of dynamic shared memory of a block
}

// The most that Params holds.
const (
	MaxParams     = 64
	MaxParamWords = 512 // of 8 bytes: the 4 KiB that every device takes
)

// Params are the parameters of a kernel. The zero Params is empty and ready to use. Each parameter takes one word of 8 bytes,
// or several if it is a structure passed by value. A Params is large: keep it in a pool, and Reset it, where launches are
// frequent. Parameters beyond the limits are dropped and Overflow reports it; launching such Params is an ErrInvalidValue. A nil
// Params is empty, too, and appending to it makes another one.
type Params struct {
	words    [MaxParamWords]uint64
	starts   [MaxParams]uint16
	used     int
	count    int
	overflow bool
}

// Reset empties p.
func (p *Params) Reset() *Params {
	if p == nil {
		return new(Params)
	}
	p.used, p.count, p.overflow = 0, 0, false
	return p
}

// Words appends a structure of whole words, as it lies in memory. Its size is a multiple of 8 bytes on the device too, or
// the last word's rest is not looked at.
func (p *Params) Words(words ...uint64) *Params {
	if p == nil {
		p = new(Params)
	}
	if p.count == MaxParams || p.used+len(words) > MaxParamWords {
		p.overflow = true
		return p
	}
	p.starts[p.count] = uint16(p.used)
	p.count++
	p.used += copy(p.words[p.used:], words)
	return p
}

// Ptr appends an address of device memory.
func (p *Params) Ptr(v Ptr) *Params { return p.Words(uint64(v)) }

// Int64 appends a 64-bit integer.
func (p *Params) Int64(v int64) *Params { return p.Words(uint64(v)) }

// Int32 appends a 32-bit integer.
func (p *Params) Int32(v int32) *Params { return p.Words(uint64(uint32(v))) }

// Float32 appends a float.
func (p *Params) Float32(v float32) *Params { return p.Words(uint64(math.Float32bits(v))) }

// Float64 appends a double.
func (p *Params) Float64(v float64) *Params { return p.Words(math.Float64bits(v)) }

// Overflow reports whether parameters were dropped because there were too many.
func (p *Params) Overflow() bool { return p != nil && p.overflow }

// Layout returns the words and, for each parameter, the index of its first word, for devices that launch kernels. Both slices
// are p's own, valid until p changes.
func (p *Params) Layout() (words []uint64, starts []uint16) {
	if p == nil {
		return nil, nil
	}
	return p.words[:p.used], p.starts[:p.count]
}
