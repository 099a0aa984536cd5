package host_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
)

// Work on one stream runs in order, and a stream waits for an event of another.
func Example() {
	dev := host.New()
	defer dev.Close()
	first, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	second, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	done, err := dev.NewEvent()
	if err != nil {
		log.Fatal(err)
	}
	say := func(text string) func() error {
		return func() error {
			fmt.Println(text)
			return nil
		}
	}
	for _, err := range []error{
		first.(device.Executor).Submit("load", say("load")), first.Record(done),
		second.Wait(done), second.(device.Executor).Submit("compute", say("compute")),
		dev.Synchronize(context.Background()),
	} {
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// load
	// compute
}
