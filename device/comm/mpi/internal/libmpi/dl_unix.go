//go:build (amd64 || arm64 || riscv64) && ((linux && !android) || (darwin && !ios))

package libmpi

import (
	"github.com/ebitengine/purego"

	"github.com/cistern-ml/cistern/device/internal/dl"
)

// dlopen loads for all: Open MPI loads parts of itself later, which look for its symbols.
func dlopen(name string) (uintptr, error) { return dl.OpenForAll(name) }

func dlsym(library uintptr, name string) uintptr { return dl.Symbol(library, name) }

func call(function uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(function, args...)
	return r
}
