//go:build unix

package pages

import "golang.org/x/sys/unix"

// Supported reports whether there is such memory on this system.
const Supported = true

// Alloc takes n bytes, at least 1. They hold no physical memory until they are touched.
func Alloc(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	live.Add(int64(len(b)))
	return b, err
}

// Free gives back the slice that Alloc returned, and no other. It must not be touched afterwards.
func Free(b []byte) error {
	if err := unix.Munmap(b); err != nil {
		return err
	}
	live.Add(-int64(len(b)))
	return nil
}
