package launches

import (
	"fmt"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/blas"
	"github.com/cistern-ml/cistern/device/sim"
)

// Device counts launches. Its memory is a simulated device's.
type Device struct {
	*sim.Device
	zero *stream
	counter
}

// New returns a device with so many bytes of memory.
func New(capacity uint64) *Device {
	d := &Device{Device: sim.New(capacity)}
	d.zero = &stream{d.Device.DefaultStream(), d}
	return d
}

var (
	_ device.Reporter = (*Device)(nil)
	_ blas.Multiplier = (*Device)(nil)
)

// ID is that of a CUDA device, for which kernels are then planned.
func (d *Device) ID() device.ID { return device.ID{Kind: device.CUDA, Index: d.Device.ID().Index} }

// Properties are those of an A100 where kernels look: they choose tiles by them.
func (d *Device) Properties() device.Properties {
	p := d.Device.Properties()
	p.Processors, p.Major, p.Minor, p.SharedMemory = 108, 8, 0, 163<<10
	return p
}

// DefaultStream implements device.Device.
func (d *Device) DefaultStream() device.Stream { return d.zero }

// NewStream implements device.Device.
func (d *Device) NewStream() (device.Stream, error) {
	s, err := d.Device.NewStream()
	if err != nil {
		return nil, err
	}
	return &stream{s, d}, nil
}

// Report implements device.Reporter. Nothing is ever written there.
func (d *Device) Report(bytes uint64, _ func([]byte) error) (device.Ptr, error) {
	if bytes == 0 {
		return 0, nil
	}
	return note, nil
}

// note is the address of what no kernel writes.
const note device.Ptr = 256

// stream counts what is put on it. It runs no Go code: that is for devices without kernels of their own.
type stream struct {
	device.Stream
	device *Device
}

func (s *stream) Device() device.Device { return s.device }

func (s *stream) CopyToDevice(dst device.Ptr, src []byte) error {
	s.device.add(Count{Name: "copy from the host", Bytes: int64(len(src))})
	return s.Stream.CopyToDevice(dst, src)
}

func (s *stream) CopyToHost(dst []byte, src device.Ptr) error {
	s.device.add(Count{Name: "copy to the host", Bytes: int64(len(dst))})
	return s.Stream.CopyToHost(dst, src)
}

func (s *stream) Copy(dst, src device.Ptr, n uint64) error {
	s.device.add(Count{Name: "copy", Bytes: 2 * int64(n)})
	return s.Stream.Copy(dst, src, n)
}

func (s *stream) Fill(dst device.Ptr, value byte, n uint64) error {
	s.device.add(Count{Name: "fill", Bytes: int64(n)})
	return s.Stream.Fill(dst, value, n)
}

// LoadModule implements device.Launcher.
func (d *Device) LoadModule([]byte) (device.Module, error) { return module{d}, nil }

type module struct{ device *Device }

func (m module) Kernel(name string) (device.Kernel, error) { return kernel{m.device, name}, nil }
func (module) Close() error                                { return nil }

type kernel struct {
	device *Device
	name   string
}

func (k kernel) Name() string { return k.name }

func (k kernel) Launch(device.Stream, device.LaunchShape, *device.Params) error {
	k.device.add(Count{Name: k.name})
	return nil
}

// LaunchFor implements device.DescribedKernel.
func (k kernel) LaunchFor(what fmt.Stringer, _ device.Stream, _ device.LaunchShape, _ *device.Params) error {
	k.device.launched(what)
	return nil
}

// SetMaxShared implements device.SharedKernel.
func (kernel) SetMaxShared(int) error { return nil }
