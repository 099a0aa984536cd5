package driver

import (
	"fmt"
	"strings"
)

// Library is an opened driver library, initialised with cuInit.
type Library struct {
	path    string
	version int
	funcs   [numFuncs]uintptr
}

// Path is the file that was opened, or the name that the system's loader resolved.
func (l *Library) Path() string { return l.path }

// Version is the newest CUDA version that the driver supports: 12020 for 12.2.
func (l *Library) Version() int { return l.version }

// Has reports whether the library has all the functions.
func (l *Library) Has(funcs ...Func) bool {
	for _, f := range funcs {
		if l.funcs[f] == 0 {
			return false
		}
	}
	return true
}

// Load opens the driver library and initialises it. It fails with a *LoadError if there is none, and with an *InitError if
// there is one that finds no device or does not work. It makes no context.
func Load() (*Library, error) {
	var tried []string
	for _, name := range candidates() {
		l, err := open(name)
		if err == nil {
			return l, l.initialise()
		}
		tried = append(tried, err.Error())
	}
	return nil, &LoadError{Tried: tried}
}

// LoadFile is Load for one file.
func LoadFile(path string) (*Library, error) {
	l, err := open(path)
	if err != nil {
		return nil, &LoadError{Tried: []string{err.Error()}}
	}
	return l, l.initialise()
}

func open(name string) (*Library, error) {
	handle, err := OpenLibrary(name)
	if err != nil {
		return nil, err
	}
	l := &Library{path: name}
	for f := Init; f < numFuncs; f++ {
		l.funcs[f] = Symbol(handle, symbols[f])
		if l.funcs[f] == 0 && f <= lastRequired {
			return nil, fmt.Errorf("%s has no function %s: the driver is too old, or it is no driver", name, symbols[f])
		}
	}
	return l, nil
}

func (l *Library) initialise() error {
	b := l.Batch()
	defer b.Release()
	b.Add(Init, 0)
	b.Add(DriverGetVersion, b.Out(0))
	if f, r := b.Run(); r != Success {
		return &InitError{Path: l.path, Func: f, Result: r}
	}
	l.version = int(int32(b.Value(0)))
	return nil
}

// LoadError means that no driver library could be opened.
type LoadError struct {
	Tried []string // each with what was wrong with it
}

// Error names what was tried.
func (e *LoadError) Error() string {
	if len(e.Tried) == 0 {
		return "NVIDIA makes no driver for this operating system"
	}
	return "no NVIDIA driver library found; tried: " + strings.Join(e.Tried, "; ")
}

// InitError means that there is a driver library and it does not work here.
type InitError struct {
	Path   string
	Func   Func
	Result Result
}

// Error names the library, the call and its result, and what that means for the user.
func (e *InitError) Error() string {
	text := fmt.Sprintf("%s of %s: %s", e.Func, e.Path, e.Result)
	if hint := initHints[e.Result]; hint != "" {
		text += ": " + hint
	}
	return text
}

// initHints tell users what they can do.
var initHints = map[Result]string{
	OutOfMemory: "the machine has not enough memory for the driver to start",
	StubLibrary: "this is the toolkit's stub for linking, not a driver: take its folder off the library path " +
		"(usually .../stubs in LD_LIBRARY_PATH)",
	NoDevice: "the driver is there and sees no GPU; in a container, start it with GPU access (--gpus all); " +
		"otherwise check CUDA_VISIBLE_DEVICES and the output of nvidia-smi",
	InvalidDevice:        "CUDA_VISIBLE_DEVICES names a GPU that is not there",
	SystemNotReady:       "the system's GPU services are not ready; on NVSwitch systems, is nvidia-fabricmanager running?",
	SystemDriverMismatch: "library and kernel module are of different versions: reboot after a driver update, or load the module again",
	CompatNotSupported:   "the forward-compatibility library does not support this GPU: take it off the library path",
	Unknown:              "often a kernel module that is not loaded or has failed: see nvidia-smi and dmesg; after sleep, reload nvidia_uvm",
}
