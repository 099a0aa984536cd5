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
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/internal/command"
	"github.com/cistern-ml/cistern/tensor"
)

func main() { command.Main("bandwidth", run) }

// options are the flags. The limit of PyTorch is that of what is not compiled.
type options struct {
	harness.Flags
	sizes []uint64
	types []tensor.DType
	only  *regexp.Regexp

	compile, compileEach time.Duration
}

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags.
func run(args []string, stdout, stderr io.Writer) int {
	o := options{Flags: harness.Flags{Runs: 5, Duration: 20 * time.Millisecond}}
	return command.Run("bandwidth", stderr, func() error { return o.parse(args, stderr) }, func() error {
		r, err := o.measure()
		if err != nil {
			return err
		}
		return errors.Join(r.write(stdout, o.JSON), r.Failed.Err())
	})
}

func (o *options) parse(args []string, stderr io.Writer) (err error) {
	f := command.NewFlagSet("bandwidth", stderr)
	o.Define(f)
	sizes := f.String("sizes", "256MiB", "`list` of sizes of the matrix")
	types := f.String("types", "float32,float16,bfloat16", "`list` of float types")
	only := f.String("only", "", "regular `expression` of the operations to measure")
	f.DurationVar(&o.compile, "compile", -1, "how long torch.compile may take for all operations; by default a minute on a GPU, 0 on the host")
	f.DurationVar(&o.compileEach, "compile-each", 20*time.Second, "and for each")
	if err := command.Parse(f, args); err != nil {
		return err
	}
	if err := o.Check(f); err != nil {
		return err
	}
	if o.compileEach <= 0 {
		return errors.New("want a -compile-each of more than 0")
	}
	if o.only, err = regexp.Compile(*only); err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if o.sizes, err = harness.List("sizes", *sizes, sizeOf); err != nil {
		return err
	}
	o.types, err = harness.List("types", *types, typeOf)
	return err
}

func sizeOf(text string) (uint64, error) {
	n, err := device.ParseBytes(text)
	if err != nil || n == 0 || n%leastBytes != 0 {
		return 0, fmt.Errorf("%q is no multiple of %s", text, device.FormatBytes(leastBytes))
	}
	return n, nil
}

func typeOf(name string) (tensor.DType, error) {
	d, err := harness.FloatType(name)
	if err == nil && d == dtype.Float64 {
		err = fmt.Errorf("%q is not float32, float16 or bfloat16", name)
	}
	return d, err
}
