package sim_test

import (
	"fmt"

	"github.com/cistern-ml/cistern/device/sim"
)

// A device whose streams finish when the test says so shows what an allocator does with memory that is still in use.
func ExampleDevice_Complete() {
	dev := sim.New(1<<30, sim.ManualStreams())
	defer dev.Close()
	stream, _ := dev.NewStream()
	event, _ := dev.NewEvent()
	_ = stream.Record(event)
	fmt.Println(event.Done())
	dev.Complete(stream.ID())
	fmt.Println(event.Done())
	// Output:
	// false <nil>
	// true <nil>
}

// The driver log is the record by which two runs are compared.
func ExampleOnCall() {
	var log []byte
	dev := sim.New(8<<20, sim.OnCall(func(c sim.Call) { log = c.LogLine(log) }))
	p, _ := dev.Malloc(6 << 20)
	_, _ = dev.Malloc(4 << 20)
	_ = dev.Free(p)
	fmt.Print(string(log))
	fmt.Println(dev.Live())
	// Output:
	// M 0 6291456
	// X 4194304
	// F 0
	// {0 0 0 0 0 0 0}
}
