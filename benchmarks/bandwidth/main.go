// Command bandwidth answers one question: how near do the operations that compute little come to the speed at which the device's
// memory copies?
//
//	go run ./benchmarks/bandwidth [-device cuda:0] [-sizes 256MiB] [-types float32,float16,bfloat16] [-runs 5] [-json FILE]
//
// # What is measured
//
// Element-wise operations, copies, reductions, softmax, norms, cross entropy and optimizers, forward and backward, on a matrix of
// the given size: rows of 1024 elements, for cross entropy rows of 32768. On a GPU the size must be several times its second-level
// cache, or the numbers are those of the cache. Bytes are counted by the formula of what an operation must read and write at least:
// an addition reads two matrices and writes one. What the operation does besides is part of its time: it takes its result from the
// allocator.
//
// A cell is the median of the runs with the fastest and the slowest; a run makes calls for -duration, one behind the other, and
// waits for the last one. Each cell stands beside the driver's copy within the device ("memcpy") of the same size, which is
// measured as the others are, and counted as bytes read and bytes written.
//
// # PyTorch
//
// Where -python has PyTorch for the device, the same operations are measured there, right afterwards, in the same way. Then those of
// the first size that torch.compile may make faster are measured compiled, as many as -compile has time for: first those that go
// forward and backward, then norms and softmax. What cannot be compiled, for want of a C compiler, say, is a remark.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/cistern-ml/cistern/benchmarks/internal/exit"
	"github.com/cistern-ml/cistern/benchmarks/internal/torch"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/tensor"
)

func main() { os.Exit(exit.Code("bandwidth", run(os.Args[1:], os.Stdout, os.Stderr))) }

// options are the flags.
type options struct {
	device   string
	sizes    []uint64
	types    []tensor.DType
	only     *regexp.Regexp
	runs     int
	duration time.Duration
	python   string
	json     string

	limit, compile, compileEach time.Duration
}

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags.
func run(args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "bandwidth:", err)
		return 2
	}
	r, err := o.measure()
	if err == nil {
		err = errors.Join(r.write(stdout, o.json), r.failed())
	}
	if err != nil {
		fmt.Fprintln(stderr, "bandwidth:", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	f := flag.NewFlagSet("bandwidth", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.device, "device", "cuda:0", "where to run: cuda:0 or host")
	sizes := f.String("sizes", "256MiB", "`list` of sizes of the matrix")
	types := f.String("types", "float32,float16,bfloat16", "`list` of float types")
	only := f.String("only", "", "regular `expression` of the operations to measure")
	f.IntVar(&o.runs, "runs", 5, "`number` of runs of which the median counts")
	f.DurationVar(&o.duration, "duration", 20*time.Millisecond, "how long one run takes, about")
	f.StringVar(&o.python, "python", torch.Python, "Python `program` that may have PyTorch; empty leaves PyTorch out")
	f.DurationVar(&o.limit, "torch-limit", torch.Limit, "how long PyTorch may take besides -compile; what it measured until then counts")
	f.DurationVar(&o.compile, "compile", -1, "how long torch.compile may take for all operations; by default a minute on a GPU, 0 on the host")
	f.DurationVar(&o.compileEach, "compile-each", 20*time.Second, "and for each")
	f.StringVar(&o.json, "json", "", "`file` that gets all figures")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 || o.runs < 1 || o.duration <= 0 || o.limit <= 0 || o.compileEach <= 0 {
		return o, errors.New("want -runs of at least 1, a -duration, -torch-limit and -compile-each of more than 0, and no arguments")
	}
	if o.only, err = regexp.Compile(*only); err != nil {
		return o, fmt.Errorf("-only: %w", err)
	}
	for _, s := range strings.Split(*sizes, ",") {
		n, err := device.ParseBytes(s)
		if err != nil || n == 0 || n%leastBytes != 0 {
			return o, fmt.Errorf("-sizes: %q is no multiple of %s", s, device.FormatBytes(leastBytes))
		}
		o.sizes = append(o.sizes, n)
	}
	for _, s := range strings.Split(*types, ",") {
		d, ok := typeOf(s)
		if !ok {
			return o, fmt.Errorf("-types: %q is not float32, float16 or bfloat16", s)
		}
		o.types = append(o.types, d)
	}
	return o, nil
}

func typeOf(name string) (tensor.DType, bool) {
	for _, d := range []tensor.DType{dtype.Float32, dtype.Float16, dtype.BFloat16} {
		if d.String() == name {
			return d, true
		}
	}
	return dtype.Invalid, false
}
