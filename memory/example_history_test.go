package memory_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
)

// History says what the allocator did, and where.
func ExampleCaching_RecordHistory() {
	dev := sim.New(4 * device.GiB)
	a, err := memory.New(dev, memory.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := a.RecordHistory(memory.HistoryOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	b, err := a.Alloc(1000, dev.DefaultStream())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(a.Free(b))

	var wrong *memory.BlockError
	if err := a.Free(b); errors.As(err, &wrong) { // its text has the places, too
		fmt.Println(wrong.Err, "of what was allocated in", filepath.Base(wrong.Allocated[0].Name))
	}
	s := a.Snapshot()
	for _, e := range s.DeviceTraces[dev.ID().Index] {
		fmt.Println(e.Action, e.Size)
	}
	fmt.Print(s)
	// Output:
	// <nil>
	// double free of what was allocated in memory_test.ExampleCaching_RecordHistory
	// segment_alloc 2097152
	// alloc 1000
	// free_requested 1000
	// free_completed 1000
	// segment 0  2 MiB  small pool  stream 0
	// | 2 MiB cached |
}

// A file for PyTorch's memory viewer, at the moment when memory runs out.
// A file that any browser draws, without network.
func ExampleSnapshot_WriteHTML() {
	dev := sim.New(device.GiB)
	a, err := memory.New(dev, memory.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = a.Close() }()
	b, err := a.Alloc(3*device.MiB, dev.DefaultStream())
	if err != nil {
		fmt.Println(err)
		return
	}
	var page strings.Builder
	if err := a.Snapshot().WriteHTML(&page); err != nil {
		fmt.Println(err)
	}
	fmt.Println(page.String()[:15], strings.Contains(page.String(), "http://"), strings.Contains(page.String(), "https://"))
	_ = a.Free(b)
	// Output: <!DOCTYPE html> false false
}

func ExampleCaching_OnOOM() {
	dev := sim.New(64 * device.MiB)
	allocator, err := memory.For(dev)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = memory.Drop(dev) }()
	a, ok := allocator.(*memory.Caching)
	if !ok {
		return // the environment switches caching off
	}
	file := filepath.Join(os.TempDir(), "cistern-example-oom.pickle")
	defer func() { _ = os.Remove(file) }()
	if err := a.RecordHistory(memory.HistoryOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	a.OnOOM(func(e *memory.OOMError) {
		fmt.Println("out of memory for", device.FormatBytes(e.Requested))
		if err := memory.DumpSnapshot(dev, file); err != nil {
			fmt.Println(err)
		}
	})
	_, err = a.Alloc(100*device.MiB, dev.DefaultStream())
	fmt.Println(errors.Is(err, memory.ErrOutOfMemory))
	info, err := os.Stat(file)
	fmt.Println(err == nil && info.Size() > 0)
	// Output:
	// out of memory for 100MiB
	// true
	// true
}
