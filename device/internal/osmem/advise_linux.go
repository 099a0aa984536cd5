package osmem

import "golang.org/x/sys/unix"

const noReserve = unix.MAP_NORESERVE

// hugeMin is the size from which huge pages can be of use: one of them on x86-64 and on arm64 with 4 KiB pages.
const hugeMin = 2 << 20

// advise asks for huge pages, which make first touch and access of large memory several times cheaper. It is only advice:
// a kernel without them says no, and nothing is lost.
func advise(p uintptr, n uint64) {
	if n >= hugeMin {
		_ = unix.Madvise(Bytes(p, n), unix.MADV_HUGEPAGE)
	}
}
