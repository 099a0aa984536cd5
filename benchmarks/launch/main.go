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
	"io"
	"time"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/internal/command"
)

func main() { command.Main("launch", run) }

// options are the flags.
type options struct{ harness.Flags }

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags.
func run(args []string, stdout, stderr io.Writer) int {
	o := options{harness.Flags{Runs: 50, Duration: 20 * time.Millisecond}}
	return command.Run("launch", stderr, func() error { return o.parse(args, stderr) }, func() error {
		r, err := o.measure()
		if r == nil {
			return err
		}
		return errors.Join(r.write(stdout, o.JSON), err) // also what was measured before an error
	})
}

func (o *options) parse(args []string, stderr io.Writer) error {
	f := command.NewFlagSet("launch", stderr)
	o.Define(f)
	if err := command.Parse(f, args); err != nil {
		return err
	}
	return o.Check(f)
}
