package cublas

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
)

// Library is an opened cuBLAS, with cuBLASLt if that is there too.
type Library struct {
	path  string
	funcs [numFuncs]uintptr
}

// Path is the file that was opened, or the name that the system's loader resolved.
func (l *Library) Path() string { return l.path }

// Address is that of a function, for driver.Batch.AddForeign.
func (l *Library) Address(f Func) uintptr { return l.funcs[f] }

// Lt reports whether cuBLASLt can be used.
func (l *Library) Lt() bool {
	for f := LtCreate; f < numFuncs; f++ {
		if l.funcs[f] == 0 {
			return false
		}
	}
	return true
}

// LoadError means that there is no cuBLAS to use.
type LoadError struct {
	Tried []string // each with what was wrong with it
	Off   bool     // the user wants none
}

// Error says what was tried.
func (e *LoadError) Error() string {
	switch {
	case e.Off:
		return "cuBLAS is turned off by " + LibraryVariable
	case len(e.Tried) == 0:
		return "NVIDIA makes no cuBLAS for this operating system"
	}
	return "no cuBLAS library found; tried: " + strings.Join(e.Tried, "; ")
}

// Load looks for the library and opens it. driverVersion is the driver's newest CUDA version, 12020 for 12.2; libraries of a later
// major version are passed over. The error is a *LoadError.
func Load(driverVersion int) (*Library, error) {
	names, passed, off := candidates(driverVersion)
	if off {
		return nil, &LoadError{Off: true}
	}
	return loadFirst(names, passed...)
}

// LoadFile opens one file.
func LoadFile(path string) (*Library, error) { return loadFirst([]string{path}) }

func loadFirst(names []string, passed ...string) (*Library, error) {
	var tried []string
	for _, name := range names {
		l, err := open(name)
		if err == nil {
			return l, nil
		}
		tried = append(tried, err.Error())
	}
	return nil, &LoadError{Tried: append(tried, passed...)}
}

// open opens cuBLAS and, before it, the cuBLASLt beside it: the system's loader does not look into the folder of a library for
// another one that it needs, but takes what is open already.
func open(name string) (*Library, error) {
	lt, ltErr := driver.OpenLibrary(ltName(name))
	handle, err := driver.OpenLibrary(name)
	if err != nil {
		return nil, err
	}
	if ltErr != nil {
		lt = handle
	}
	l := &Library{path: name}
	for f := range numFuncs {
		from := handle
		if f > lastRequired {
			from = lt
		}
		l.funcs[f] = driver.Symbol(from, symbols[f])
		if l.funcs[f] == 0 && f <= lastRequired {
			return nil, fmt.Errorf("%s has no function %s", name, symbols[f])
		}
	}
	return l, nil
}

// ltName is the name of the cuBLASLt that belongs to a cuBLAS.
func ltName(name string) string {
	dir, file := filepath.Split(name)
	return dir + strings.Replace(file, "cublas", "cublasLt", 1)
}
