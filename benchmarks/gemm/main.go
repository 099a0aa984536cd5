// Command gemm answers one question: how fast are matrix products, by our own kernels and by cuBLAS?
//
//	go run ./benchmarks/gemm [-device cuda:0] [-sizes 1024,2048,4096,8192] [-types float16,bfloat16,float32] [-runs 5] [-json FILE]
//
// A size is a number, or the shape MxNxK of a linear layer that makes N numbers of K in each of M rows.
//
// # What is measured
//
// For each size n and type: a @ bᵀ with a and b of n by n, as a linear layer has it; the same with one row of a, which reads a
// matrix for little work; and a linear layer of n by n with bias and GELU, in one pass and in two. Numbers are random. What the
// operation does besides is part of it: it takes its result, and cuBLAS's workspace, from the allocator.
//
// A cell is the median of the runs with the slowest and the fastest; a run makes products for -duration, one behind the other,
// and waits for the last one. The runs of all subjects take turns, so that a GPU that gets warm is slower for all. TFLOP/s count 2*m*n*k
// operations for a product; GB/s count each operand and the result once.
//
// Subjects are "own", our kernels; "cublas", if the machine has it (CISTERN_CUBLAS_LIBRARY names one); and for float32 "cublas
// tf32", with operands rounded to 10 bits. On the host there is one, "host". Where -python has PyTorch for the device it computes the
// same problems right afterwards, in the same way ("pytorch", "pytorch tf32"). The last columns are the speed in those of cuBLAS and of
// PyTorch at the same precision.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cistern-ml/cistern/benchmarks/internal/exit"
	"github.com/cistern-ml/cistern/benchmarks/internal/torch"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/tensor"
)

func main() { os.Exit(exit.Code("gemm", run(os.Args[1:], os.Stdout, os.Stderr))) }

// options are the flags.
type options struct {
	device   string
	shapes   []shape
	types    []tensor.DType
	runs     int
	duration time.Duration
	python   string
	limit    time.Duration
	json     string
}

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags.
func run(args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "gemm:", err)
		return 2
	}
	r, err := o.measure()
	if r != nil { // also what was measured before an error
		err = errors.Join(r.write(stdout, o.json), err)
	}
	if err != nil {
		fmt.Fprintln(stderr, "gemm:", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	f := flag.NewFlagSet("gemm", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.device, "device", "cuda:0", "where to run: cuda:0 or host")
	sizes := f.String("sizes", "1024,2048,4096,8192", "`list` of sizes, or of shapes MxNxK")
	types := f.String("types", "float16,bfloat16,float32", "`list` of float types")
	f.IntVar(&o.runs, "runs", 5, "`number` of runs of which the median counts")
	f.DurationVar(&o.duration, "duration", 100*time.Millisecond, "how long one run takes, about")
	f.StringVar(&o.python, "python", torch.Python, "Python `program` that may have PyTorch; empty leaves PyTorch out")
	f.DurationVar(&o.limit, "torch-limit", torch.Limit, "how long PyTorch may take; what it measured until then counts")
	f.StringVar(&o.json, "json", "", "`file` that gets all figures")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 || o.runs < 1 || o.duration <= 0 || o.limit <= 0 {
		return o, errors.New("want -runs of at least 1, a -duration and -torch-limit of more than 0, and no arguments")
	}
	for _, s := range strings.Split(*sizes, ",") {
		shape, ok := shapeOf(s)
		if !ok {
			return o, fmt.Errorf("-sizes: %q is no size", s)
		}
		o.shapes = append(o.shapes, shape)
	}
	for _, s := range strings.Split(*types, ",") {
		d, err := typeOf(s)
		if err != nil {
			return o, err
		}
		o.types = append(o.types, d)
	}
	return o, nil
}

// shapeOf is the shape of a text: N or MxNxK.
func shapeOf(text string) (s shape, ok bool) {
	parts := strings.Split(text, "x")
	if len(parts) == 1 {
		parts = []string{text, text, text}
	}
	if len(parts) != 3 {
		return s, false
	}
	for i, to := range []*int{&s.m, &s.n, &s.k} {
		n, err := strconv.Atoi(parts[i])
		if err != nil || n < 1 {
			return s, false
		}
		*to = n
	}
	return s, true
}

// typeOf is the float type of a name.
func typeOf(name string) (tensor.DType, error) {
	for _, d := range dtype.All() {
		if d.String() == name && d.IsFloat() {
			return d, nil
		}
	}
	return dtype.Invalid, fmt.Errorf("-types: %q is no float type", name)
}
