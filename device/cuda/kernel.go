package cuda

import (
	"bytes"
	"fmt"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
)

// Module is compiled code on a device.
type Module struct {
	device *Device
	handle uintptr // the driver's CUmodule: it is the context's, and ends with it if nobody closes it
	closed atomic.Bool
}

// Kernel is a function of a Module. There is nothing to close: it ends with the module.
type Kernel struct {
	module *Module
	handle uintptr // the driver's CUfunction
	name   string
}

// What the driver's compiler writes about the PTX that it refuses.
const (
	jitErrorLog     = 5 // CU_JIT_ERROR_LOG_BUFFER
	jitErrorLogSize = 6 // CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
	jitLog          = 8 << 10
)

// LoadModule compiles PTX for the device, or takes a cubin or fatbin. The error of the driver's compiler has its text. A driver that does
// not find its compiler is an ErrUnavailable, which says what to do; see the package's comment.
func (d *Device) LoadModule(image []byte) (device.Module, error) {
	d = d.orAbsent()
	const call = "LoadModule"
	b, err := d.begin(call)
	if err != nil {
		return nil, err
	}
	defer b.Release()
	if len(image) == 0 {
		return nil, d.fail(call, device.ErrInvalidValue, "the image is empty")
	}
	text := append(bytes.Clone(image), 0) // PTX is read up to a zero; binaries know their length
	log := make([]byte, jitLog)
	// Two arrays of as many elements, names and values; a value that is a number stands in place of its address. The batch keeps them
	// alive, and the driver keeps no address of them.
	options := &[2]int32{jitErrorLog, jitErrorLogSize}
	values := &[2]uintptr{b.Bytes(log), jitLog}
	// In a crossing to C for as long as the compiler takes: the scheduler gives this thread's processor to others after some microseconds.
	b.Add(driver.ModuleLoadDataEx, b.Out(0), b.Bytes(text), 2, driver.Keep(b, options), driver.Keep(b, values))
	f, r := b.Run()
	if r == driver.JITCompilerNotFound {
		values[1] = jitLog // the driver writes the log's length there
		f, r, log = d.runWithCompiler(b, log)
	}
	if r != driver.Success {
		log, _, _ = bytes.Cut(log, []byte{0})
		return nil, d.failed(f, r, "image of %d bytes for compute capability %d.%d%s", len(image), d.properties.Major, d.properties.Minor, logged(log))
	}
	m := &Module{device: d, handle: uintptr(b.Value(0))}
	d.keepCode(&m.closed, loaded{driver.ModuleUnload, m.handle, nil})
	return m, nil
}

// runWithCompiler makes the calls of LoadModule again when the compiler beside the driver is open. If the driver still finds none, the log,
// into which nobody has written, is what can be done.
func (d *Device) runWithCompiler(b *driver.Batch, log []byte) (driver.Func, driver.Result, []byte) {
	file, err := d.library.OpenCompiler()
	if err == nil {
		if f, r := b.Run(); r != driver.JITCompilerNotFound {
			return f, r, log
		}
	}
	return driver.ModuleLoadDataEx, driver.JITCompilerNotFound, []byte(driver.CompilerHint(file, err))
}

func logged(log []byte) string {
	if log = bytes.TrimSpace(log); len(log) == 0 {
		return ""
	}
	return ": " + string(log)
}

// Kernel finds a kernel. A name that the module does not have is an ErrInvalidValue.
func (m *Module) Kernel(name string) (device.Kernel, error) {
	b, err := m.device.begin("Module.Kernel")
	if err != nil {
		return nil, err
	}
	defer b.Release()
	if m.closed.Load() {
		return nil, m.device.fail("Module.Kernel", device.ErrClosed, "the module is closed")
	}
	// With lazy loading, the driver's default since CUDA 12.2 on Linux, code goes to the device here or at the first launch, and either may run
	// out of memory.
	b.Add(driver.ModuleGetFunction, b.Out(0), m.handle, b.Bytes(append([]byte(name), 0)))
	if f, r := b.Run(); r != driver.Success {
		return nil, m.device.failed(f, r, "kernel %q", name)
	}
	m.device.names.set(uintptr(b.Value(0)), name)
	return &Kernel{module: m, handle: uintptr(b.Value(0)), name: name}, nil
}

// Close unloads the module.
func (m *Module) Close() error {
	return m.device.unload("Module.Close", &m.closed, driver.ModuleUnload, m.handle)
}

// Name is the kernel's name in the image.
func (k *Kernel) Name() string { return k.name }

// Launch enqueues the kernel on a stream.
func (k *Kernel) Launch(s device.Stream, shape device.LaunchShape, params *device.Params) error {
	return k.LaunchAs(k.name, s, shape, params)
}

// LaunchAs is Launch under the name of an operation, for errors.
func (k *Kernel) LaunchAs(operation string, s device.Stream, shape device.LaunchShape, params *device.Params) error {
	return k.launch(operation, "", s, shape, params)
}

// LaunchFor is Launch that says what for, in profiles.
func (k *Kernel) LaunchFor(what fmt.Stringer, s device.Stream, shape device.LaunchShape, params *device.Params) error {
	if k.module.device.profiler.Load() == nil {
		return k.launch(k.name, "", s, shape, params)
	}
	return k.launch(k.name, what.String(), s, shape, params)
}

func (k *Kernel) launch(operation, what string, s device.Stream, shape device.LaunchShape, params *device.Params) error {
	d := k.module.device
	own, ok := s.(*Stream)
	if !ok || own == nil || own.device != d {
		return d.wrongDevice(operation, "stream")
	}
	b, err := own.begin(operation)
	if err != nil {
		return err
	}
	if k.module.closed.Load() || params.Overflow() {
		b.Release()
		return k.refuse(operation)
	}
	// The driver copies the parameters before it returns, so the batch, which holds them, can be used again at once. Whether shape and
	// shared memory are within the kernel's limits is left to the driver: its answer, an invalid value, is no sticky one.
	g, t := shape.Grid, shape.Block
	return own.enqueueFor(b, operation, what, driver.LaunchKernel, k.handle,
		extent3(g.X), extent3(g.Y), extent3(g.Z), extent3(t.X), extent3(t.Y), extent3(t.Z), uintptr(shape.Shared),
		own.handle, b.Params(params.Layout()), 0)
}

// extent3 is one dimension of a Dim3. The driver refuses grids and blocks of nothing, and a Dim3 of fewer dimensions has zeros.
func extent3(n uint32) uintptr { return uintptr(max(n, 1)) }

func (k *Kernel) refuse(operation string) error {
	d := k.module.device
	if k.module.closed.Load() {
		return d.fail(operation, device.ErrClosed, "the module of kernel %s is closed", k.name)
	}
	return d.fail(operation, device.ErrInvalidValue, "kernel %s was given more than %d parameters or %d words",
		k.name, device.MaxParams, device.MaxParamWords)
}

// FuncAttribute is a number that the driver knows of a kernel, CUfunction_attribute.
type FuncAttribute int32

// Attributes of kernels.
const (
	FuncMaxThreads  FuncAttribute = 0 // threads of a block, as registers allow
	FuncSharedBytes FuncAttribute = 1 // static shared memory
	FuncLocalBytes  FuncAttribute = 3 // local memory of a thread: spilled registers, mostly
	FuncRegisters   FuncAttribute = 4
	funcMaxShared   FuncAttribute = 8 // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
)

// Attribute asks the driver for a number.
func (k *Kernel) Attribute(a FuncAttribute) (int, error) {
	d := k.module.device
	b, err := d.begin("Kernel.Attribute")
	if err != nil {
		return 0, err
	}
	defer b.Release()
	// With lazy loading this, too, may be the call that loads the code.
	b.Add(driver.FuncGetAttribute, b.Out(0), uintptr(uint32(a)), k.handle)
	if f, r := b.Run(); r != driver.Success {
		return 0, d.failed(f, r, "attribute %d of kernel %s", int32(a), k.name)
	}
	return int(int32(b.Value(0))), nil
}

// Usage implements device.MeasuredKernel, in one crossing.
func (k *Kernel) Usage() (u device.KernelUsage, err error) {
	d := k.module.device
	b, err := d.begin("Kernel.Usage")
	if err != nil {
		return u, err
	}
	defer b.Release()
	for i, a := range []FuncAttribute{FuncRegisters, FuncSharedBytes, FuncLocalBytes, FuncMaxThreads} {
		b.Add(driver.FuncGetAttribute, b.Out(i), uintptr(uint32(a)), k.handle)
	}
	if f, r := b.Run(); r != driver.Success {
		return u, d.failed(f, r, "kernel %s", k.name)
	}
	number := func(i int) int { return int(int32(b.Value(i))) }
	return device.KernelUsage{Registers: number(0), Shared: number(1), Local: number(2), MaxThreads: number(3)}, nil
}

// SetMaxShared allows launches with so many bytes of dynamic shared memory. Up to 48 KiB need no permission; the most that a
// block can have is the device's MaxSharedMemoryOptIn.
func (k *Kernel) SetMaxShared(bytes int) error {
	// Static shared memory counts as well: the driver refuses what is more than the opt-in limit together with the kernel's own.
	return k.module.device.call("Kernel.SetMaxShared", driver.FuncSetAttribute, k.handle, uintptr(funcMaxShared), uintptr(uint32(bytes)))
}

// Occupancy returns how many blocks of so many threads, and so many bytes of dynamic shared memory each, run on one
// multiprocessor at a time.
func (k *Kernel) Occupancy(threads, shared int) (int, error) {
	d := k.module.device
	b, err := d.begin("Kernel.Occupancy")
	if err != nil {
		return 0, err
	}
	defer b.Release()
	b.Add(driver.OccupancyMaxActiveBlocks, b.Out(0), k.handle, uintptr(uint32(threads)), uintptr(shared))
	if f, r := b.Run(); r != driver.Success {
		return 0, d.failed(f, r, "%d threads and %d bytes of kernel %s", threads, shared, k.name)
	}
	return int(int32(b.Value(0))), nil
}
