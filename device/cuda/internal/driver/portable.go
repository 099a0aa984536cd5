//go:build windows || ((arm64 || riscv64 || portablecalls) && ((linux && !android) || (darwin && !ios)))

package driver

import (
	"runtime"

	"github.com/ebitengine/purego"
)

// cross makes the calls of the batch one by one. The goroutine keeps its thread for all of them, because the current context
// is the thread's.
func (b *Batch) cross() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for i := range b.count {
		c := &b.calls[i]
		r, _, _ := purego.SyscallN(c.fn, c.args[:c.n]...)
		if c.result = uintptr(uint32(r)); c.result != 0 {
			break
		}
		b.done++
	}
	runtime.KeepAlive(b)
}
