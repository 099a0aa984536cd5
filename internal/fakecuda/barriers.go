package fakecuda

import (
	"fmt"
	"testing"
)

// Barrier is a barrier in the source of a kernel, as the emulator sees it when a thread comes there: __syncthreads and its
// forms, __syncwarp, gk_cp_async_wait.
type Barrier struct {
	Kernel string
	File   string // without folder
	Line   int
}

func (b Barrier) String() string { return fmt.Sprintf("%s:%d in %s", b.File, b.Line, b.Kernel) }

// Barriers watches the barriers of a library that BuildKernels made, and takes out single ones, so that tests can prove that
// a missing barrier would not pass them. No kernel may run while a method does.
type Barriers struct {
	t       testing.TB
	watch   func(on int32)
	reached func(out *byte, n uintptr) uintptr
	remove  func(kernel, file string, line int32)
}

// Reached lists the barriers that kernels came to since WatchBarriers, in order of their kernels.
func (b *Barriers) Reached() []Barrier {
	b.t.Helper()
	var all []Barrier
	for _, line := range textLines(b.reached) {
		var at Barrier
		if _, err := fmt.Sscanf(line, "%s %s %d", &at.Kernel, &at.File, &at.Line); err != nil {
			b.t.Fatalf("fakecuda: barrier %q: %v", line, err)
		}
		all = append(all, at)
	}
	return all
}

// Forget empties the list of barriers that were reached, and puts back the one that was taken out.
func (b *Barriers) Forget() { b.watch(1) }

// Remove takes one barrier out of its kernel, until Forget.
func (b *Barriers) Remove(at Barrier) { b.remove(at.Kernel, at.File, int32(at.Line)) }
