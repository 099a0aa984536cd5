package cuda

import (
	"embed"
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/pkg/errors"
)

//go:embed ptx/*.ptx.lzma
var images embed.FS

// kernel is one kernel of a module, on any device.
type kernel struct {
	module, name string
	id           int  // its place in kernels
	roomy        bool // its blocks want more shared memory than the 48 KiB for which no kernel has to ask
}

// kernels are all that the rows use. It does not change after start.
var kernels []*kernel

// named makes a kernel.
func named(module, name string) *kernel {
	k := &kernel{module: module, name: name, id: len(kernels)}
	kernels = append(kernels, k)
	return k
}

// roomy makes a kernel that may ask for all the shared memory that a block can have.
func roomy(module, name string) *kernel {
	k := named(module, name)
	k.roomy = true
	return k
}

// library is what has been loaded into one device.
type library struct {
	device  device.Launcher
	handles []atomic.Pointer[handle] // by kernel.id; nil until it is needed. Written under mu, read without

	note atomic.Uint64 // address of the device's note, host memory that the device reports keep; 0 until it is needed

	mu      sync.Mutex      // held while a kernel is loaded, through the driver's compiler
	modules []device.Module // one for each kernel: a program pays for those that it uses, not for all of a source
}

type handle struct{ device.Kernel }

// libraries has a *library for each device.Device. recent is the one that was used last: most programs have one device.
var (
	libraries sync.Map
	recent    atomic.Pointer[library]
)

// libraryOf is what has been loaded into a device; nothing, at its first launch.
func libraryOf(dev device.Device) (*library, error) {
	// Each launch asks: a comparison costs less than the map, whose key would be hashed.
	if l := recent.Load(); l != nil && l.device == dev {
		return l, nil
	}
	if l, ok := libraries.Load(dev); ok {
		recent.Store(l.(*library))
		return l.(*library), nil
	}
	launcher, ok := dev.(device.Launcher)
	if !ok {
		return nil, &device.Error{Device: dev.ID(), Call: "Launch", Err: device.ErrUnavailable, Detail: "the device launches no compiled kernels"}
	}
	// Two goroutines may come here with a device's first launches. Both get the library that was stored first.
	l, _ := libraries.LoadOrStore(dev, &library{
		device: launcher, handles: make([]atomic.Pointer[handle], len(kernels)),
	})
	recent.Store(l.(*library))
	return l.(*library), nil
}

// Unload removes from a device all that this package has loaded into it, and forgets the device. No kernel may be running or
// be launched meanwhile, nor a graph that has captured one afterwards: graphs hold neither modules nor the memory of the note. A program
// that closes a device while it goes on itself calls this first.
func Unload(dev device.Device) error {
	v, ok := libraries.LoadAndDelete(dev)
	if !ok {
		return nil
	}
	l := v.(*library)
	recent.CompareAndSwap(l, nil) // or launches would find it again, without its modules, and it would keep the device alive
	l.mu.Lock()
	defer l.mu.Unlock()
	var first error
	if r, ok := l.device.(device.Reporter); ok && l.note.Load() != 0 {
		_, first = r.Report(0, nil) // or the device would ask after each wait what nobody writes any more
	}
	for _, m := range l.modules {
		if err := m.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// on is the kernel on a device, loaded if need be.
func (k *kernel) on(dev device.Device) (device.Kernel, error) {
	l, err := libraryOf(dev)
	if err != nil {
		return nil, err
	}
	if h := l.handles[k.id].Load(); h != nil { // each launch comes by here: no lock, and no map with a key to be made
		return h.Kernel, nil
	}
	return l.load(k)
}

// load loads a kernel by itself, in a module of its own: see image.go for what is cut, docs/decisions.md for why.
func (l *library) load(k *kernel) (device.Kernel, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.handles[k.id].Load(); h != nil { // another goroutine was faster
		return h.Kernel, nil
	}
	// A kernel is also loaded while a stream is captured, by the first launch in it: that enqueues nothing, and captures here are of the kind that
	// lets it be. Other loads wait meanwhile, since two of the same kernel would compile it twice.
	im, err := imageOf(k.module)
	if err != nil {
		return nil, err
	}
	text, err := im.Kernel(k.name)
	if err != nil {
		return nil, err
	}
	m, err := l.device.LoadModule(text)
	if err != nil {
		return nil, errors.Wrapf(err, "loading kernel %s", k.name)
	}
	h, err := l.find(m, k)
	if err != nil {
		m.Close() // the error before is the one to tell
		return nil, err
	}
	l.modules = append(l.modules, m)
	l.handles[k.id].Store(&handle{h}) // last: whoever sees it launches without the lock
	return h, nil
}

// find is the kernel in its module, with as much shared memory as it may want.
func (l *library) find(m device.Module, k *kernel) (device.Kernel, error) {
	h, err := m.Kernel(k.name)
	if err != nil {
		return nil, err
	}
	// Once, for the most that any launch can want: a launch that asks for more than it was allowed is refused by the driver.
	if s, ok := h.(device.SharedKernel); ok && k.roomy {
		if err := s.SetMaxShared(l.device.Properties().SharedMemory); err != nil {
			return nil, err
		}
	}
	return h, nil
}
