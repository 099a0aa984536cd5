package host

import "github.com/cistern-ml/cistern/device"

const (
	cachedCopy = 8 << 20   // bytes of a copy that stay in the cache, for whoever comes next
	copyPiece  = 512 << 10 // bytes; the built-in copy writes past the cache from 1 MiB on
)

// move copies n bytes of device memory that do not overlap: in pieces, unless they are so many that the cache is better left alone.
func move(dst, src device.Ptr, n uint64) {
	if n <= cachedCopy {
		for ; n > copyPiece; n -= copyPiece {
			copy(Bytes(dst, copyPiece), Bytes(src, copyPiece))
			dst, src = dst+copyPiece, src+copyPiece
		}
	}
	copy(Bytes(dst, n), Bytes(src, n))
}
