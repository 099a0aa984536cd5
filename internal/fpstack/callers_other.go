//go:build !amd64 && !arm64

package fpstack

import "runtime"

// callers writes the return addresses of its caller and of the functions around that into pcs, innermost first, and returns
// how many, and a hash of them.
func callers(_ uintptr, pcs *[Depth]uintptr) (n int, hash uint64) {
	n = runtime.Callers(3, pcs[:])
	for _, pc := range pcs[:n] {
		hash = (hash ^ uint64(pc)) * 0x9e3779b97f4a7c15
	}
	return n, hash
}
