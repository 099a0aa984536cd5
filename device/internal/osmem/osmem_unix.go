//go:build unix

package osmem

import "golang.org/x/sys/unix"

const private = unix.MAP_PRIVATE | unix.MAP_ANON

// Alloc takes n bytes of zeroed, readable and writable memory. n is a multiple of the page size.
func Alloc(n uint64) (uintptr, error) {
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(n), unix.PROT_READ|unix.PROT_WRITE, private)
	if err != nil {
		return 0, err
	}
	advise(uintptr(p), n)
	return uintptr(p), nil
}

// Free gives back what Alloc returned.
func Free(p uintptr, n uint64) error { return unix.MunmapPtr(pointer(p), uintptr(n)) }

// Reserve takes n bytes of addresses with no memory behind them. n is a multiple of the page size.
func Reserve(n uint64) (uintptr, error) {
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(n), unix.PROT_NONE, private|noReserve)
	return uintptr(p), err
}

// Release gives back what Reserve returned, with whatever memory is still behind it.
func Release(p uintptr, n uint64) error { return unix.MunmapPtr(pointer(p), uintptr(n)) }

// Commit puts zeroed memory behind n bytes of reserved addresses.
func Commit(p uintptr, n uint64) error {
	if err := unix.Mprotect(Bytes(p, n), unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return err
	}
	advise(p, n)
	return nil
}

// Decommit takes the memory away again. A fresh mapping over the old one does so on every Unix; madvise would not on some.
func Decommit(p uintptr, n uint64) error {
	_, err := unix.MmapPtr(-1, 0, pointer(p), uintptr(n), unix.PROT_NONE, private|noReserve|unix.MAP_FIXED)
	return err
}
