// Command naive answers one question: what does a caching allocator gain over asking the driver for every tensor? The same
// training steps, and the same recorded programs, run on each of these:
//
//	direct       the driver's malloc and free for every request: cudaMalloc and cudaFree, or mmap and munmap on the host
//	async        the driver's stream-ordered pool: cudaMallocAsync (CUDA devices only)
//	caching      Cistern's caching allocator
//	expandable   the same with expandable_segments:True
//	pytorch      PyTorch's own allocator, where Python has PyTorch with CUDA (CUDA devices, no training)
//
//	go run ./benchmarks/naive [-device host:80GiB] [-traces DIR] [-runs 5] [-steps 100] [-json FILE] [-plot FILE.svg]
//
// # What is measured
//
// A training step is that of a 784-512-10 network on a batch of 64 images in float32, with AdamW: copy the batch to the
// device, forward, cross entropy, backward, read the loss, update. The images are random numbers. Three steps come first and
// do not count.
//
// A recorded program (benchmarks/replay knows the format) is cut off after -pairs allocations, runs once to warm the
// allocator, and then again, for -least at least, which counts: the time of an allocation and its free. Nothing touches the memory
// and no kernel runs, so events of other streams complete at once. "single" programs, one for each size of -single, allocate and
// free one block again and again.
//
// PyTorch replays the same programs. Its allocator is called from a loop in C++ if Python's machine can compile one against PyTorch
// (g++, the CUDA headers), else from Python; the report says which, and what the loop alone takes.
//
// The runs of all allocators take turns, each on a new allocator. A cell is the median with the lowest and the highest run.
//
// # Devices
//
// On "host" memory comes from mmap and goes back by munmap: training touches it, and then pays for the page faults of
// everything that was given back. Recorded programs do not touch it. On "sim" nothing is computed, and each driver call adds
// an assumed time, set by the -…-cost flags: the columns say so. Only "cuda:N" answers the question for a GPU.
package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cistern-ml/cistern/benchmarks/internal/torch"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/command"
	"github.com/cistern-ml/cistern/internal/plotfile"
)

func main() { command.Main("naive", run) }

// options are the flags.
type options struct {
	device string
	traces string
	runs   int
	steps  int
	pairs  int
	json   string
	plot   string
	python string
	single []uint64
	least  time.Duration
	costs  assumed
}

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	return command.Run("naive", stderr, func() (err error) {
		o, err = parseFlags(args, stderr)
		return err
	}, func() error {
		r, err := o.measure()
		if r == nil {
			return err
		}
		return errors.Join(r.write(stdout, o), err) // also what was measured before an error
	})
}

func parseFlags(args []string, stderr io.Writer) (options, error) {
	var o options
	f := command.NewFlagSet("naive", stderr)
	f.StringVar(&o.device, "device", "host:80GiB", "where to run: host, host:80GiB, sim, sim:80GiB or cuda:0")
	f.StringVar(&o.traces, "traces", "", "`folder` of *.trace or *.trace.gz, or none: training only")
	f.IntVar(&o.runs, "runs", 5, "`number` of measurements of which the median counts")
	f.IntVar(&o.steps, "steps", 100, "training `steps` of one measurement; 0 leaves training out")
	f.IntVar(&o.pairs, "pairs", 20000, "`number` of allocations after which a recorded program is cut off; 0 is all of it")
	command.OutputVar(f, &o.json, "json", "`file` to write the figures to")
	command.OutputVar(f, &o.plot, "plot", "`file` to draw the figures into, .svg or .png")
	single := f.String("single", "", "`list` of sizes, each a program of one block that is allocated and freed again and again")
	f.DurationVar(&o.least, "least", 20*time.Millisecond, "how long a measurement takes at least: programs are repeated so long")
	f.StringVar(&o.python, "python", torch.Python, "Python `program` that may have PyTorch; empty leaves PyTorch out")
	f.DurationVar(&o.costs.malloc, "malloc-cost", 50*time.Microsecond, "assumed time of a malloc on sim")
	f.DurationVar(&o.costs.free, "free-cost", 50*time.Microsecond, "assumed time of a free on sim")
	f.DurationVar(&o.costs.event, "event-cost", time.Microsecond, "assumed time of a call about an event or a stream on sim")
	f.DurationVar(&o.costs.page, "map-cost", 50*time.Microsecond, "assumed time of mapping, or of unmapping, a page on sim")
	if err := command.Parse(f, args); err != nil {
		return o, err
	}
	for _, size := range strings.FieldsFunc(*single, func(r rune) bool { return r == ',' }) {
		n, err := device.ParseBytes(size)
		if err != nil || n == 0 {
			return o, fmt.Errorf("-single: %q is no size", size)
		}
		o.single = append(o.single, n)
	}
	if o.plot != "" && !plotfile.Drawable(o.plot) {
		return o, fmt.Errorf("-plot is %q, must end in .png or .svg", o.plot)
	}
	if f.NArg() > 0 || o.runs < 1 || o.steps < 0 || o.pairs < 0 || !o.costs.valid() || o.steps == 0 && o.traces == "" && len(o.single) == 0 {
		return o, errors.New("want -runs of at least 1, something to run (-steps, -single or -traces), no negative numbers, and no arguments")
	}
	return o, nil
}
