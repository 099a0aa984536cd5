// Command launch answers one question: what does an operation on tiny tensors cost, where nothing but the way to the device counts?
//
//	go run ./benchmarks/launch [-device cuda:0] [-runs 50] [-json FILE]
//
// # What is measured
//
// Operations of one kernel on tensors of two thousand float32 elements, with the release of the result:
//
//	call    nanoseconds of the call, of 200 in a row on an idle stream: the caller's time, as the device's queue is not full
//	stream  nanoseconds of a call, of many thousands in a row and the wait for the last: the slower of caller and device
//	wait    nanoseconds of a call and the wait for its result
//	allocs  Go heap allocations of a call
//
// call and wait are the median of -runs with the fastest and the slowest, stream is the median of five.
//
// Where -python has PyTorch for the device the same operations are measured there in the same way, called from Python.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cistern-ml/cistern/benchmarks/internal/exit"
	"github.com/cistern-ml/cistern/benchmarks/internal/torch"
)

func main() { os.Exit(exit.Code("launch", run(os.Args[1:], os.Stdout, os.Stderr))) }

// options are the flags.
type options struct {
	device   string
	runs     int
	duration time.Duration
	python   string
	json     string
}

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags.
func run(args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "launch:", err)
		return 2
	}
	r, err := o.measure()
	if r != nil { // also what was measured before an error
		err = errors.Join(r.write(stdout, o.json), err)
	}
	if err != nil {
		fmt.Fprintln(stderr, "launch:", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	f := flag.NewFlagSet("launch", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.device, "device", "cuda:0", "where to run: cuda:0 or host")
	f.IntVar(&o.runs, "runs", 50, "`number` of runs of which the median counts")
	f.DurationVar(&o.duration, "duration", 20*time.Millisecond, "how long a measurement of many calls takes, about")
	f.StringVar(&o.python, "python", torch.Python, "Python `program` that may have PyTorch; empty leaves PyTorch out")
	f.StringVar(&o.json, "json", "", "`file` that gets all figures")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 || o.runs < 1 || o.duration <= 0 {
		return o, errors.New("want -runs of at least 1, a -duration of more than 0, and no arguments")
	}
	return o, nil
}
