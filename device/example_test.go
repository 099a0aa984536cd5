package device_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/cistern-ml/cistern/device"
	_ "github.com/cistern-ml/cistern/device/host"
	_ "github.com/cistern-ml/cistern/device/sim"
)

// A simulated device has the memory of a large GPU and needs none.
func ExampleOpen() {
	dev, err := device.Open("sim:80GiB")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dev.Close()

	if _, err := dev.Malloc(60 * device.GiB); err != nil {
		fmt.Println(err)
		return
	}
	info, err := dev.MemInfo()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s of %s free\n", device.FormatBytes(info.Free), device.FormatBytes(info.Total))

	_, err = dev.Malloc(30 * device.GiB)
	fmt.Println("out of memory:", errors.Is(err, device.ErrOutOfMemory))
	// Output:
	// 20GiB of 80GiB free
	// out of memory: true
}

// Work on two streams is ordered by an event.
func ExampleStream_Wait() {
	dev, err := device.Open("host:1MiB")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dev.Close()

	memory, _ := dev.Malloc(4096)
	writer, _ := dev.NewStream()
	reader, _ := dev.NewStream()
	written, _ := dev.NewEvent()

	_ = writer.Fill(memory, 7, 4096)
	_ = writer.Record(written)
	_ = reader.Wait(written) // does not block here: it is the reader's work that waits
	got := make([]byte, 3)
	fmt.Println(reader.CopyToHost(got, memory), got)
	// Output: <nil> [7 7 7]
}

// Errors of work on a stream surface at the next call that waits for it, with the name of the operation.
func ExampleExecutor() {
	dev, err := device.Open("host:1MiB")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dev.Close()

	stream, _ := dev.NewStream()
	err = stream.(device.Executor).Submit("gather", func() error { return errors.New("index 7 is outside 0..3") })
	fmt.Println("submitted:", err)

	err = stream.Synchronize(context.Background())
	var failed *device.Error
	fmt.Println(errors.Is(err, device.ErrLaunch), errors.As(err, &failed) && failed.Call == "gather")
	// Output:
	// submitted: <nil>
	// true true
}
