// Mnist trains a network on real handwritten digits and tells what it learned and what memory it took.
//
//	go run ./examples/mnist                        on the host, with the 10,000 digits that ship with it
//	go run ./examples/mnist -data DIR              with the four files of the full database, plain or gzipped
//	go run ./examples/mnist -device sim:80GiB      without arithmetic: the same memory figures, no accuracy
//
// The network has one hidden layer of ReLU units with dropout; each training image is moved by up to one pixel at random.
// It ends with a table of the accuracy on images that it was not trained on (97 % and more), the speed, and the memory
// summary of the device; -json writes the figures to a file.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// options are the program's flags.
type options struct {
	device   string
	data     string
	json     string
	epochs   int
	batch    int
	hidden   int
	seed     uint64
	lr       float64
	fraction float64
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags.
func run(args []string, stdout, stderr io.Writer) int {
	o, err := parseFlags(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2 // the flag package has said what is wrong
	}
	if err := program(o, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "mnist:", err)
		return 1
	}
	return 0
}

func parseFlags(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("mnist", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.device, "device", "host", "where to run: host, host:4GiB, sim, sim:80GiB or cuda:0")
	f.StringVar(&o.data, "data", "", "folder with the four IDX files of MNIST, plain or gzipped (default: the embedded digits)")
	f.StringVar(&o.json, "json", "", "file to write the figures to")
	f.IntVar(&o.epochs, "epochs", 20, "passes over the training images")
	f.IntVar(&o.batch, "batch", 64, "images per training step")
	f.IntVar(&o.hidden, "hidden", 512, "hidden units")
	f.Uint64Var(&o.seed, "seed", 1, "seed of all random numbers")
	f.Float64Var(&o.lr, "lr", 2e-3, "learning rate at the start; it falls to 0 linearly")
	f.Float64Var(&o.fraction, "memory-fraction", 1, "part of the device's memory that may be reserved")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	for _, check := range []struct {
		bad  bool
		what string
	}{
		{f.NArg() > 0, fmt.Sprintf("unexpected argument %q", f.Arg(0))},
		{o.epochs < 1, fmt.Sprintf("-epochs is %d, must be at least 1", o.epochs)},
		{o.batch < 1, fmt.Sprintf("-batch is %d, must be at least 1", o.batch)},
		{o.hidden < 1, fmt.Sprintf("-hidden is %d, must be at least 1", o.hidden)},
		{!(o.lr > 0), fmt.Sprintf("-lr is %g, must be positive", o.lr)},
	} {
		if check.bad {
			fmt.Fprintln(stderr, "mnist:", check.what)
			return o, errors.New(check.what)
		}
	}
	return o, nil
}
