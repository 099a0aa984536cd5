//go:build (amd64 || arm64 || riscv64) && ((linux && !android) || (darwin && !ios))

// Package dl opens shared libraries, without cgo.
package dl

import (
	"runtime"

	"github.com/ebitengine/purego"
)

// Open opens a library for the rest of the process, for itself.
func Open(name string) (uintptr, error) { return open(name, purego.RTLD_LOCAL) }

// OpenForAll is Open, for libraries that load parts of themselves later, which look for its symbols.
func OpenForAll(name string) (uintptr, error) { return open(name, purego.RTLD_GLOBAL) }

func open(name string, mode int) (uintptr, error) {
	runtime.LockOSThread() // dlerror, which purego calls next, answers on the thread that asked
	defer runtime.UnlockOSThread()
	return purego.Dlopen(name, purego.RTLD_NOW|mode)
}

// Symbol is the address of a function, 0 if the library has none of that name.
func Symbol(library uintptr, name string) uintptr {
	address, err := purego.Dlsym(library, name)
	if err != nil {
		return 0
	}
	return address
}
