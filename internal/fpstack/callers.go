//go:build amd64 || arm64

package fpstack

// callers writes the return addresses of its caller and of the functions around that into pcs, innermost first, and returns
// how many, and a hash of them. See the package comment. Tests give it another frame pointer to start from; 0 is the right one.
//
//go:noescape
func callers(from uintptr, pcs *[Depth]uintptr) (n int, hash uint64)

// self is the address of the goroutine's descriptor.
func self() uintptr
