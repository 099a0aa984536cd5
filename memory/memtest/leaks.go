package memtest

import (
	"testing"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/plural"
	"github.com/cistern-ml/cistern/memory"
)

// NoLeaks fails the test if at its end more blocks of a are in use than now, and says how many and how many bytes. Call it
// first thing, so that it is the last of the test's cleanups. Blocks that were given to FreeLater are freed, not leaked.
// Other goroutines that use a at the same time count too: tests that run in parallel need allocators of their own.
func NoLeaks(t testing.TB, a memory.Allocator) {
	t.Helper()
	before := holding(a)
	t.Cleanup(func() {
		t.Helper()
		after := holding(a)
		if after.blocks > before.blocks || after.bytes > before.bytes { // perhaps some are only queued
			if err := a.EmptyCache(); err != nil {
				t.Errorf("memtest: EmptyCache of %s: %v", a.Device(), err)
			}
			after = holding(a)
		}
		if blocks, bytes := after.blocks-before.blocks, after.bytes-before.bytes; blocks > 0 || bytes > 0 {
			t.Errorf("memtest: %s of %s, %s (%d bytes), %s still held since the call of NoLeaks",
				plural.Of(blocks, "block"), a.Device(), device.FormatBytes(uint64(max(bytes, 0))), bytes, plural.End(blocks, "is", "are"))
		}
	})
}

// holdings are what callers hold.
type holdings struct{ blocks, bytes int64 }

func holding(a memory.Allocator) holdings {
	s := a.Stats()
	return holdings{s.Allocation.All.Current, s.AllocatedBytes.All.Current}
}
