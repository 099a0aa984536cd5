package pinned_test

import (
	"errors"
	"fmt"

	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/pinned"
)

// A batch is copied to the device from pinned memory, which is freed while the copy runs.
func Example() {
	dev := sim.New(1<<30, sim.ManualStreams())
	p, err := pinned.For(dev)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = memory.Drop(dev) }()
	stream := dev.DefaultStream()

	batch, _ := p.Alloc(10 * 1024 * 4)
	copy(batch.Bytes(), "pixels")
	on, _ := dev.Malloc(10 * 1024 * 4)
	_ = stream.CopyToDevice(on, batch.Bytes())
	_ = p.RecordStream(batch, stream)
	_ = p.Free(batch) // does not wait for the copy

	report := func(when string) {
		s := p.Stats()
		fmt.Printf("%-12s %d KiB in use of %d KiB, %d driver calls\n", when,
			s.ActiveBytes.Current/1024, s.AllocatedBytes.Current/1024, s.NumHostAlloc)
	}
	report("freed:")
	next, _ := p.Alloc(10 * 1024 * 4) // the copy runs: this is other memory
	report("next batch:")
	_ = p.Free(next)
	dev.Complete(stream.ID())
	_, _ = p.Alloc(9 * 1024 * 4) // rounded, it is as large
	report("copy done:")

	fmt.Println(errors.Is(p.Free(batch), memory.ErrDoubleFree))

	// Output:
	// freed:       64 KiB in use of 64 KiB, 1 driver calls
	// next batch:  128 KiB in use of 128 KiB, 2 driver calls
	// copy done:   64 KiB in use of 128 KiB, 2 driver calls
	// true
}
