package osmem

import "golang.org/x/sys/windows"

// Alloc takes n bytes of zeroed, readable and writable memory. n is a multiple of the page size.
func Alloc(n uint64) (uintptr, error) {
	return windows.VirtualAlloc(0, uintptr(n), windows.MEM_RESERVE|windows.MEM_COMMIT, windows.PAGE_READWRITE)
}

// Free gives back what Alloc returned.
func Free(p uintptr, _ uint64) error { return windows.VirtualFree(p, 0, windows.MEM_RELEASE) }

// Reserve takes n bytes of addresses with no memory behind them. n is a multiple of the page size.
func Reserve(n uint64) (uintptr, error) {
	return windows.VirtualAlloc(0, uintptr(n), windows.MEM_RESERVE, windows.PAGE_NOACCESS)
}

// Release gives back what Reserve returned, with whatever memory is still behind it.
func Release(p uintptr, _ uint64) error { return windows.VirtualFree(p, 0, windows.MEM_RELEASE) }

// Commit puts zeroed memory behind n bytes of reserved addresses.
func Commit(p uintptr, n uint64) error {
	_, err := windows.VirtualAlloc(p, uintptr(n), windows.MEM_COMMIT, windows.PAGE_READWRITE)
	return err
}

// Decommit takes the memory away again.
func Decommit(p uintptr, n uint64) error {
	return windows.VirtualFree(p, uintptr(n), windows.MEM_DECOMMIT)
}
