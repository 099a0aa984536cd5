package soak

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/cistern-ml/cistern/memory"
)

// sample is what a program holds that must not grow while it runs.
type sample struct {
	rss        int64 // resident bytes of the process, 0 where the system does not say
	heap       int64 // bytes of the Go heap, after garbage collection
	goroutines int64
	files      int64 // that are open, 0 where the system does not say
	allocated  int64 // bytes of the device
	reserved   int64 // bytes that the allocator has from the device, when it has given back its cache
	deferred   int64 // blocks that only the garbage collector's safety net has freed
}

// take measures. running is how many goroutines there are if none is left behind: those that end are waited for.
func take(a memory.Allocator, running int64) (sample, error) {
	runtime.GC()         // finds what was dropped
	debug.FreeOSMemory() // so that the resident bytes are those in use
	if err := a.EmptyCache(); err != nil {
		return sample{}, err
	}
	if running > 0 {
		for end := time.Now().Add(time.Second); int64(runtime.NumGoroutine()) > running && time.Now().Before(end); {
			runtime.Gosched()
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s := a.Stats()
	return sample{
		rss: resident(), heap: int64(m.HeapAlloc), goroutines: int64(runtime.NumGoroutine()), files: openFiles(),
		allocated: s.AllocatedBytes.All.Current, reserved: s.ReservedBytes.All.Current, deferred: s.NumDeferredFrees,
	}, nil
}

// resident reads the second number of Linux's statm: pages.
func resident() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

func openFiles() int64 {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return int64(len(entries))
}

// grown says what of s is larger than before by more than may be, empty if nothing is.
func (s sample) grown(before sample) string {
	const mib = 1 << 20
	var report []string
	for _, c := range []struct {
		what      string
		was, is   int64
		tolerance int64
	}{
		// The runtime keeps spans and stacks that are partly in use, and maps of its own, which come in steps of some MiB.
		{"resident bytes", before.rss, s.rss, 24 * mib},
		// Pools of buffers are emptied by collections, and filled by the next step.
		{"bytes of the Go heap", before.heap, s.heap, mib},
		{"goroutines", before.goroutines, s.goroutines, 0},
		{"open files", before.files, s.files, 0},
		{"allocated bytes of the device", before.allocated, s.allocated, 0},
		// One block of the model's may come to lie in another segment of 20 MiB than before.
		{"reserved bytes of the device", before.reserved, s.reserved, 20 * mib},
		{"blocks that the safety net freed", before.deferred, s.deferred, 0},
	} {
		if c.is > c.was+c.tolerance {
			report = append(report, fmt.Sprintf("%s: from %d to %d, tolerance %d", c.what, c.was, c.is, c.tolerance))
		}
	}
	return strings.Join(report, "\n")
}
