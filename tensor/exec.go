package tensor

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/memory"
)

// Exec says where operations run and where their results come from: a stream of a device, and an allocator of that
// device's memory. It is a small value, copied freely and comparable; each tensor carries the Exec under which it was
// made, and passes it on to the results of its operations. The zero Exec is on no device: operations refuse it.
type Exec struct {
	stream device.Stream
	alloc  memory.Allocator
	owned  bool
}

// ExecOption changes what On chooses.
type ExecOption func(*Exec)

// WithStream runs operations on s instead of the device's default stream.
func WithStream(s device.Stream) ExecOption { return func(e *Exec) { e.stream = s } }

// WithAllocator takes results from a instead of memory.For(dev).
func WithAllocator(a memory.Allocator) ExecOption { return func(e *Exec) { e.alloc = a } }

// On returns the Exec of dev's default stream and of its caching allocator, or of what the options name. It fails with a
// *DeviceError if there is no device, which a nil pointer or a zero value is not, and if stream or allocator belong to another device.
func On(dev device.Device, opts ...ExecOption) (Exec, error) {
	const name = "On"
	if isnil.Value(dev) || dev.ID().Kind == 0 { // nil, or a zero value
		return Exec{}, &DeviceError{Op: name, Detail: "no device"}
	}
	var e Exec
	for _, o := range opts {
		if o != nil {
			o(&e)
		}
	}
	if err := e.given(name); err != nil {
		return Exec{}, err
	}
	if e.stream == nil {
		e.stream = dev.DefaultStream()
	}
	if e.alloc == nil {
		a, err := memory.For(dev)
		if err != nil {
			return Exec{}, wrap(name, err)
		}
		e.alloc = a
	}
	if id := e.stream.Device().ID(); id != dev.ID() {
		return Exec{}, &DeviceError{Op: name, Devices: []device.ID{dev.ID(), id}, Detail: "the stream belongs to another device"}
	}
	if id := e.alloc.Device(); id != dev.ID() {
		return Exec{}, &DeviceError{Op: name, Devices: []device.ID{dev.ID(), id}, Detail: "the allocator belongs to another device"}
	}
	return e, nil
}

// given refuses a stream or an allocator that is a nil pointer, such as the one that a constructor returns beside its error, or that no
// constructor has made.
func (e Exec) given(name string) error {
	switch {
	case e.stream != nil && isnil.Value(e.stream):
		return &DeviceError{Op: name, Detail: isnil.Why("stream", e.stream)}
	case e.stream != nil && isnil.Value(e.stream.Device()):
		return &DeviceError{Op: name, Detail: "the stream has no device: NewStream of a device makes streams"}
	case e.alloc != nil && isnil.Value(e.alloc):
		return &DeviceError{Op: name, Detail: isnil.Why("allocator", e.alloc)}
	}
	return nil
}

// Device is the device of the stream, nil for the zero Exec.
func (e Exec) Device() device.Device {
	if e.stream == nil {
		return nil
	}
	return e.stream.Device()
}

// Stream is where operations run.
func (e Exec) Stream() device.Stream { return e.stream }

// Allocator is where results and workspaces come from.
func (e Exec) Allocator() memory.Allocator { return e.alloc }

// Owned returns the same Exec without the safety net: what operations make under it is not freed when the garbage
// collector finds it unreachable, because its owner (a graph, a scope) promises to release it. It saves the cost of
// runtime.AddCleanup on each result.
func (e Exec) Owned() Exec {
	e.owned = true
	return e
}

// valid refuses the zero Exec.
func (e Exec) valid(name string) error {
	if e.stream == nil || e.alloc == nil {
		return &DeviceError{Op: name, Detail: "zero Exec: make one with tensor.On"}
	}
	return nil
}

// sameDevice reports whether both run on one device.
func (e Exec) sameDevice(f Exec) bool {
	return e.stream == f.stream || e.stream.Device().ID() == f.stream.Device().ID()
}
