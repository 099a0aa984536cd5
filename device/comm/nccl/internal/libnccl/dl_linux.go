//go:build linux && (amd64 || arm64) && !android

package libnccl

import (
	"github.com/ebitengine/purego"

	"github.com/cistern-ml/cistern/device/internal/dl"
)

func dlopen(name string) (uintptr, error) { return dl.Open(name) }

func dlsym(library uintptr, name string) uintptr { return dl.Symbol(library, name) }

func call(function uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(function, args...)
	return r
}
