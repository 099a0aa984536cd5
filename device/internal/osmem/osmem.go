// Package osmem takes memory from the operating system, outside the Go heap: mmap on Unix, VirtualAlloc on Windows. It keeps
// all of the host device's unsafe code in one place.
//
// Addresses are numbers here, because the memory is none of the garbage collector's business. Nothing in this package keeps
// state: what is taken must be given back with the same address and size.
package osmem

import (
	"os"
	"unsafe"

	_ "github.com/cistern-ml/cistern/internal/platform" // elsewhere it does not compile
)

// PageSize is the operating system's page size in bytes. Alloc and Reserve return multiples of it.
func PageSize() uint64 { return uint64(os.Getpagesize()) }

// RoundUp rounds n up to whole pages. It returns 0 if that does not fit into 64 bits.
func RoundUp(n uint64) uint64 {
	page := PageSize()
	return (n + page - 1) &^ (page - 1)
}

// Bytes is the memory at address p as a slice. The caller answers for p being n mapped bytes for as long as the slice is in
// use; for memory of the Go heap this must not be used.
func Bytes(p uintptr, n uint64) []byte { return unsafe.Slice((*byte)(pointer(p)), n) }

// Address is the address of the first byte of b, also when b is empty but has a capacity.
func Address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// pointer reinterprets an address. Going through memory tells vet's unsafeptr check, which guards pointers into the Go heap,
// that this is meant.
func pointer(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }
