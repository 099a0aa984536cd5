package cuda_test

import (
	"fmt"
	"os"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
)

// A region of a program, with its totals by name on standard output and a trace for Perfetto in a file.
func ExampleDevice_StartProfile() {
	region := func(d *cuda.Device, work func() error) error {
		p, err := d.StartProfile()
		if err != nil {
			return err
		}
		if err := work(); err != nil {
			p.Stop()
			return err
		}
		p.Stop() // waits for what is under way
		file, err := os.Create("trace.json")
		if err != nil {
			return err
		}
		defer file.Close()
		if err := p.WriteTrace(file); err != nil {
			return err
		}
		return p.WriteTotals(os.Stdout)
	}
	if device.Count(device.CUDA) == 0 {
		fmt.Println("no GPU")
		return
	}
	d, err := cuda.Open(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	if err := region(d, func() error { return nil }); err != nil {
		fmt.Println(err)
	}
}
