//go:build !((amd64 || arm64 || riscv64) && ((linux && !android) || (darwin && !ios)))

package libmpi

import "errors"

func dlopen(string) (uintptr, error) {
	return 0, errors.New("MPI is used on Linux and macOS only")
}

func dlsym(uintptr, string) uintptr { return 0 }

func call(uintptr, ...uintptr) uintptr { return 0 }
