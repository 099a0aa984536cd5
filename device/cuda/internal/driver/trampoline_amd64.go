//go:build ((linux && !android) || (darwin && !ios)) && !portablecalls

package driver

import (
	"runtime"
	"unsafe"

	_ "github.com/ebitengine/purego" // makes runtime.cgocall work without cgo
)

// crossABI0 is the address of the routine in trampoline_amd64.s, set there.
var crossABI0 uintptr

// runtime.cgocall calls a C function with one argument on a system stack, and tells the scheduler that this goroutine may be
// gone for long. It is what cgo's generated code calls, and among the functions that the Go project keeps for purego's sake.
//
//go:linkname runtime_cgocall runtime.cgocall
//go:noescape
func runtime_cgocall(fn uintptr, arg unsafe.Pointer) int32

// cross makes the calls of the batch.
func (b *Batch) cross() {
	runtime_cgocall(crossABI0, unsafe.Pointer(b))
	runtime.KeepAlive(b)
}
