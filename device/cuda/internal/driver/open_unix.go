//go:build (amd64 || arm64 || riscv64) && ((linux && !android) || (darwin && !ios))

package driver

import (
	"runtime"

	"github.com/cistern-ml/cistern/device/internal/dl"
)

// libraryName is the driver's name, and "" where NVIDIA makes none.
var libraryName = map[string]string{"linux": "libcuda.so.1"}[runtime.GOOS]

var libraryFolders = []string{
	"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
	"/usr/lib/wsl/lib",        // Windows Subsystem for Linux
	"/run/opengl-driver/lib",  // NixOS
	"/usr/local/nvidia/lib64", // container platforms
	"/usr/local/nvidia/lib",
	"/usr/lib/nvidia/current", // Debian's alternatives
	"/usr/lib/x86_64-linux-gnu/nvidia/current",
	"/usr/lib64/nvidia",                 // Fedora derivatives
	"/usr/lib/aarch64-linux-gnu/nvidia", // Jetson
}

// OpenLibrary opens a library for the rest of the process: the driver does not survive being closed.
func OpenLibrary(name string) (uintptr, error) { return dl.Open(name) }

// Symbol is the address of a function, 0 if the library has none of that name.
func Symbol(handle uintptr, name string) uintptr { return dl.Symbol(handle, name) }
