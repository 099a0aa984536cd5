package device

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Opener is what a package that implements a kind of device gives to Register.
type Opener interface {
	// Open returns the device that spec names. CUDA devices, and the host without a capacity, are one per process: opening
	// them again returns the same Device. Host devices with a capacity and simulated devices are new each time.
	Open(spec Spec) (Device, error)
	// Count is the number of devices of this kind that the machine has. For kinds that are made on demand it is 1.
	Count() int
}

// registry is written by the init functions of the packages that implement devices, and read by Open.
var registry struct {
	sync.RWMutex
	openers map[Kind]Opener
}

// Register makes a kind of device available to Open, Default and Count. It is called from the init function of the package
// that implements the kind, as with database/sql, and panics if the kind is registered twice: that is a mistake in how the
// program was built.
func Register(kind Kind, opener Opener) {
	registry.Lock()
	defer registry.Unlock()
	if registry.openers[kind] != nil {
		// invariant: each kind has one package, whose init runs once
		panic(fmt.Sprintf("device: Register called twice for %s", kind))
	}
	if registry.openers == nil {
		registry.openers = make(map[Kind]Opener)
	}
	registry.openers[kind] = opener
}

func lookup(kind Kind) Opener {
	registry.RLock()
	defer registry.RUnlock()
	return registry.openers[kind]
}

// Open returns the device that a specification names; ParseSpec says what can be written. A kind whose package is not
// linked into the program is an ErrUnavailable that names the import to add.
//
// "host" is one device per process, shared by all who open it; because nobody owns it, its Close waits for its work and
// otherwise leaves it as it is. "host:4GiB" and every "sim" make a new device, with the next index, which belongs to the
// caller. "cuda:0" is one device per process too.
func Open(spec string) (Device, error) {
	parsed, err := ParseSpec(spec)
	if err != nil {
		return nil, err
	}
	opener := lookup(parsed.Kind)
	if opener == nil {
		return nil, notLinked(parsed.Kind, parsed.Index)
	}
	return opener.Open(parsed)
}

func notLinked(kind Kind, index int) error {
	return &Error{
		Device: ID{Kind: kind, Index: index},
		Call:   "Open",
		Detail: fmt.Sprintf("this program was built without it; add: import _ %q", "github.com/cistern-ml/cistern/device/"+kind.String()),
		Err:    ErrUnavailable,
	}
}

// Default returns the device to use when nobody chose one: CUDA device 0 if the CUDA package is linked and the machine has a
// GPU, else the process-wide host device. A GPU that is there but cannot be opened is not passed over in silence: the Device
// returned then fails each call with the reason.
func Default() Device {
	kind := Host
	if Count(CUDA) > 0 {
		kind = CUDA
	}
	opener := lookup(kind)
	if opener == nil {
		return &unavailable{id: ID{Kind: kind}, err: notLinked(kind, 0)}
	}
	d, err := opener.Open(Spec{Kind: kind})
	if err != nil {
		return &unavailable{id: ID{Kind: kind}, err: err}
	}
	return d
}

// Count is the number of devices of a kind that Open can return: the GPUs of the machine for CUDA, 1 for the host and for
// Sim, and 0 for a kind whose package is not linked into the program.
func Count(kind Kind) int {
	opener := lookup(kind)
	if opener == nil {
		return 0
	}
	return opener.Count()
}

// Shutdowner is an Opener whose devices hold something that the end of the process does not give back in good order.
type Shutdowner interface {
	Opener
	// Shutdown waits for the work of the devices that are one per process and that Open gave out, gives everything back to their
	// driver, and forgets them.
	Shutdown() error
}

// Shutdown ends the devices that are one per process, and is the last thing that a process does with devices. A Go program ends
// without the functions that C libraries register for the end of a process, so profilers and checkers of CUDA programs see the
// end of a context, and write what they know, only if it is ended before.
//
// It waits for all work of the CUDA devices that Open and Default gave out, and gives everything back to the driver: memory, streams,
// events, modules, graphs, contexts. Using such a device afterwards is an ErrClosed, and Open gives a new one. Calls that other
// goroutines have begun come to their end; what they begin later is refused. Pinned host memory is gone too: no goroutine may touch it
// any more. Allocators (package memory) and kernels (package kernels/cuda) of an ended device are of no use; programs that go on with a new one
// call memory.Drop and cuda.Unload of kernels/cuda before. The host device, which has no driver, waits for its work and stays.
// Devices that belong to a caller are not touched.
//
// It returns the errors of work that nobody was told yet, and those of the driver. A device that an error has made unusable is ended
// like the others, and its error is among them. Calling it again, or before any device was opened, is harmless.
func Shutdown() error {
	registry.RLock()
	openers := slices.Collect(maps.Values(registry.openers))
	registry.RUnlock()
	var errs []error
	for _, o := range openers {
		if s, ok := o.(Shutdowner); ok {
			errs = append(errs, s.Shutdown())
		}
	}
	return errors.Join(errs...)
}
