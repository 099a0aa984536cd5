//go:build !amd64 && !arm64

package fpstack

import (
	"bytes"
	"runtime"
	"strconv"
)

// callers writes the return addresses of its caller and of the functions around that into pcs, innermost first, and returns
// how many, and a hash of them.
func callers(_ uintptr, pcs *[Depth]uintptr) (n int, hash uint64) {
	n = runtime.Callers(3, pcs[:])
	for _, pc := range pcs[:n] {
		hash = (hash ^ uint64(pc)) * 0x9e3779b97f4a7c15
	}
	return n, hash
}

// self is the goroutine's number, as panics print it: "goroutine 7 [running]:". It takes about a microsecond.
func self() uintptr {
	var text [32]byte
	head := bytes.TrimPrefix(text[:runtime.Stack(text[:], false)], []byte("goroutine "))
	number, _, _ := bytes.Cut(head, []byte(" "))
	n, _ := strconv.ParseUint(string(number), 10, 64)
	return uintptr(n)
}
