// Command loader answers one question: does an epoch of decoding images and training on them take as long as it must, beside a loop written by hand?
//
//	go run ./benchmarks/loader [-device cuda:0] [-format png] [-images 2000] [-size 96] [-batch 50] [-workers 1,2,4] [-runs 5] [-json FILE]
//
// # What is measured
//
// One epoch: all images are decoded, made smaller by half, normalized, put together in batches and uploaded, and a small convolutional network
// takes a step of Adam on each batch. The images are files in memory, so no disk takes part. The ways to do that take turns in each run; a number is the
// median of the runs with the fastest and the slowest, in milliseconds.
//
//   - "loop": a loop of the program's own that makes a batch and then trains on it.
//   - "loop, N goroutines": the same, with goroutines that make batches ahead, as somebody would write it by hand: a channel for each batch.
//   - "loader", "loader, N workers", "loader, N workers, pinned": data.NewSourceLoader.
//   - "decoding, N goroutines": batches that nobody trains on; "training": the batches were there before. No way can be faster than the slower of the
//     two, and where both need the same processor, as on the host device, than their sum on all of its cores.
//
// Each way starts with the same weights and sees the same batches, and ends with the same loss, or that is an error.
package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/command"
	"github.com/cistern-ml/cistern/tensor"
)

func main() { command.Main("loader", run) }

// options are the flags.
type options struct {
	device, format, workers   string
	images, size, batch, runs int
	json                      string
	counts                    []int // of -workers
}

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	return command.Run("loader", stderr, func() error { return o.parse(args, stderr) }, func() error { return o.program(stdout) })
}

func (o *options) parse(args []string, stderr io.Writer) (err error) {
	f := command.NewFlagSet("loader", stderr)
	f.StringVar(&o.device, "device", "cuda:0", "where to train: cuda:0 or host")
	f.StringVar(&o.format, "format", "png", "format of the files: png or jpeg")
	f.IntVar(&o.images, "images", 2000, "`number` of images")
	f.IntVar(&o.size, "size", 96, "rows and columns of an image, a multiple of 8")
	f.IntVar(&o.batch, "batch", 50, "images of a batch")
	f.StringVar(&o.workers, "workers", "1,2,4", "numbers of goroutines that decode")
	f.IntVar(&o.runs, "runs", 5, "`number` of runs of which the median counts")
	harness.JSON(f, &o.json)
	if err := command.Parse(f, args); err != nil {
		return err
	}
	if f.NArg() > 0 || o.images < 1 || o.batch < 1 || o.runs < 1 || o.size < 8 || o.size%8 != 0 {
		return errors.New("want -images, -batch and -runs of at least 1, a -size that 8 divides, and no arguments")
	}
	if o.format != "png" && o.format != "jpeg" {
		return fmt.Errorf("-format is %q, must be png or jpeg", o.format)
	}
	o.counts, err = harness.List("workers", o.workers, func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err == nil && n < 1 {
			err = fmt.Errorf("%d workers; there is at least 1", n)
		}
		return n, err
	})
	return err
}

func (o *options) program(stdout io.Writer) error {
	return harness.On(o.device, func(e tensor.Exec, _ device.Spec) error {
		r, err := o.measure(e)
		if err != nil {
			return err
		}
		return errors.Join(r.print(stdout), harness.WriteJSON(o.json, r))
	})
}
