package memory_test

import (
	"fmt"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
)

// A step that repeats is served from as much memory as it has alive at once.
func ExampleCaching_NewPlan() {
	dev := sim.New(1 * device.GiB)
	alloc, err := memory.New(dev, memory.Config{})
	if err != nil {
		panic(err)
	}
	defer alloc.Close()
	plan, err := alloc.NewPlan()
	if err != nil {
		panic(err)
	}
	defer plan.Close()
	stream := dev.DefaultStream()
	for range 3 {
		if err := plan.Step(); err != nil {
			panic(err)
		}
		x, _ := alloc.Alloc(30*device.MiB, stream)
		y, _ := alloc.Alloc(50*device.MiB, stream)
		_ = alloc.Free(x)
		z, _ := alloc.Alloc(70*device.MiB, stream)
		_ = alloc.Free(y)
		_ = alloc.Free(z)
		fmt.Println(device.FormatBytes(uint64(alloc.Stats().ReservedBytes.All.Current)))
	}
	// Output:
	// 150MiB
	// 120MiB
	// 120MiB
}
