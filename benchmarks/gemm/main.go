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
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/internal/command"
	"github.com/cistern-ml/cistern/tensor"
)

func main() { command.Main("gemm", run) }

// options are the flags.
type options struct {
	harness.Flags
	shapes []shape
	types  []tensor.DType
}

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags.
func run(args []string, stdout, stderr io.Writer) int {
	o := options{Flags: harness.Flags{Runs: 5, Duration: 100 * time.Millisecond}}
	return command.Run("gemm", stderr, func() error { return o.parse(args, stderr) }, func() error {
		r, err := o.measure()
		if r == nil {
			return err
		}
		return errors.Join(r.write(stdout, o.JSON), err) // also what was measured before an error
	})
}

func (o *options) parse(args []string, stderr io.Writer) (err error) {
	f := command.NewFlagSet("gemm", stderr)
	o.Define(f)
	sizes := f.String("sizes", "1024,2048,4096,8192", "`list` of sizes, or of shapes MxNxK")
	types := f.String("types", "float16,bfloat16,float32", "`list` of float types")
	if err := command.Parse(f, args); err != nil {
		return err
	}
	if err := o.Check(f); err != nil {
		return err
	}
	if o.shapes, err = harness.List("sizes", *sizes, shapeOf); err != nil {
		return err
	}
	o.types, err = harness.List("types", *types, harness.FloatType)
	return err
}

// shapeOf reads a size, or a shape MxNxK.
func shapeOf(text string) (s shape, err error) {
	if !strings.Contains(text, "x") {
		text = text + "x" + text + "x" + text
	}
	if !harness.Numbers(text, 1, &s.m, &s.n, &s.k) {
		return s, fmt.Errorf("%q is no size", text)
	}
	return s, nil
}
