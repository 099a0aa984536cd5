package cuda

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/internal/cublas"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
	"github.com/cistern-ml/cistern/device/internal/extent"
)

func init() { device.Register(device.CUDA, opener{}) }

// system is the driver and its devices. Programs have one; tests make others.
type system struct {
	library *driver.Library
	count   int
	cublas  func() (*cublas.Library, error) // looks for it once

	mu     sync.Mutex // guards shared; Shutdown holds it until the devices have ended, and Open waits
	shared []*Device  // by ordinal; those that Open gave out

	management func() (*driver.NVML, error) // loads it, once

	profiles profileFile

	pinnedMu sync.Mutex
	pinned   extent.Set // host memory that copies can use directly; the owner is the device's index, the tag how it was made
}

// theSystem is what Open uses. The driver is loaded, once, when somebody asks for a device or their number.
var theSystem = sync.OnceValues(func() (*system, error) {
	library, err := driver.Load()
	if err != nil {
		return nil, err
	}
	s, err := newSystem(library)
	if err == nil {
		s.cublas = sync.OnceValues(func() (*cublas.Library, error) { return cublas.Load(library.Version()) })
		begun.Store(s)
	}
	return s, err
})

// begun is theSystem's, once somebody has asked for it.
var begun atomic.Pointer[system]

func newSystem(library *driver.Library) (*system, error) {
	b := library.Batch()
	defer b.Release()
	b.Add(driver.DeviceGetCount, b.Out(0))
	f, r := b.Run()
	n := int(int32(b.Value(0)))
	if r == driver.Success && n == 0 {
		r = driver.NoDevice
	}
	if r != driver.Success {
		return nil, &driver.InitError{Path: library.Path(), Func: f, Result: r}
	}
	made := &system{library: library, count: n, shared: make([]*Device, n), management: sync.OnceValues(driver.LoadNVML)}
	made.profiles.init()
	return made, nil
}

// Unavailable returns nil if there are CUDA devices, and otherwise the reason why there are none, as an ErrUnavailable: no
// driver library, with the list of what was tried, or what the driver said and what can be done about it.
func Unavailable() error {
	_, err := theSystem()
	if err == nil {
		return nil
	}
	return unavailable(0, err)
}

// unavailable makes the error of Open.
func unavailable(index int, reason error) error {
	return &device.Error{
		Device: device.ID{Kind: device.CUDA, Index: index}, Call: "Open", Detail: reason.Error(), Err: device.ErrUnavailable,
	}
}

// DriverVersion returns the newest CUDA version that the driver supports, as in 12, 2. Both are 0 if there are no devices.
func DriverVersion() (major, minor int) {
	s, err := theSystem()
	if err != nil {
		return 0, 0
	}
	return s.library.Version() / 1000, s.library.Version() % 1000 / 10
}

// opener gives package device this kind of device.
type opener struct{}

// Open returns the device with the specification's index, one per process.
func (opener) Open(spec device.Spec) (device.Device, error) { return Open(spec.Index) }

// Count is the number of GPUs.
func (opener) Count() int {
	s, err := theSystem()
	if err != nil {
		return 0
	}
	return s.count
}

// Open returns the device with an index, from 0. It is one per process: opening it again returns the same Device, and since
// nobody owns it, its Close waits for its work and otherwise leaves it as it is. After device.Shutdown it is a new one. It fails with
// an ErrUnavailable.
func Open(index int) (*Device, error) {
	s, err := theSystem()
	if err != nil {
		return nil, unavailable(index, err)
	}
	return s.open(index)
}

// open returns the shared device with an index.
func (s *system) open(index int) (*Device, error) {
	if err := s.check(index); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.shared[index]; d != nil {
		return d, nil
	}
	d, err := s.newDevice(index)
	if err != nil {
		return nil, err
	}
	d.shared = true
	s.shared[index] = d
	return d, nil
}

func (s *system) check(index int) error {
	if index >= 0 && index < s.count {
		return nil
	}
	return &device.Error{
		Device: device.ID{Kind: device.CUDA, Index: index}, Call: "Open", Err: device.ErrUnavailable,
		Detail: "the indices of the machine's CUDA devices are below " + itoa(s.count),
	}
}

// OpenLibrary opens all devices of a driver library that the caller names, apart from those of Open: they belong to the
// caller, who closes them. It is for tests with a library that is no driver, and fails with an ErrUnavailable.
//
// The devices use no cuBLAS but that of WithCUBLAS: the machine's may not work with that driver.
func OpenLibrary(path string, options ...LibraryOption) ([]*Device, error) {
	library, err := driver.LoadFile(path)
	if err != nil {
		return nil, unavailable(0, err)
	}
	s, err := newSystem(library)
	if err != nil {
		return nil, unavailable(0, err)
	}
	s.cublas = func() (*cublas.Library, error) { return nil, errors.New("none was given to OpenLibrary") }
	for _, set := range options {
		if set != nil {
			set(s)
		}
	}
	devices := make([]*Device, s.count)
	for i := range devices {
		if devices[i], err = s.newDevice(i); err != nil {
			return nil, err
		}
	}
	return devices, nil
}

// LibraryOption changes what OpenLibrary opens.
type LibraryOption func(*system)

// WithCUBLAS makes the devices use the cuBLAS in a file; cuBLASLt is looked for beside it and in it.
func WithCUBLAS(path string) LibraryOption {
	return func(s *system) {
		s.cublas = sync.OnceValues(func() (*cublas.Library, error) { return cublas.LoadFile(path) })
	}
}
