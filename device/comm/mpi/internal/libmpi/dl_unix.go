//go:build (amd64 || arm64 || riscv64) && ((linux && !android) || (darwin && !ios))

package libmpi

import (
	"runtime"

	"github.com/ebitengine/purego"
)

// dlopen loads for all: Open MPI loads parts of itself later, which look for its symbols.
func dlopen(name string) (uintptr, error) {
	runtime.LockOSThread() // dlerror answers on the thread that asked
	defer runtime.UnlockOSThread()
	return purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_GLOBAL)
}

func dlsym(library uintptr, name string) uintptr {
	address, err := purego.Dlsym(library, name)
	if err != nil {
		return 0
	}
	return address
}

func call(function uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(function, args...)
	return r
}
