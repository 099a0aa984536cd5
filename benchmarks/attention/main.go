// Command attention answers one question: how fast is attention, and what memory does it take, beside each of PyTorch's ways to compute it?
//
//	go run ./benchmarks/attention [-device cuda:0] [-shapes 16x12x1024x1024x64,...] [-types float16,bfloat16,float32] [-runs 3] [-json FILE]
//
// A shape is BxHxTxSxD: H heads of T queries and S keys of D elements, in B sequences. The default shapes are those of GPT-2, of a long
// text, of a small model, and of decoding: one query at a time.
//
// # What is measured
//
// "forward" is the result alone, as inference wants it; "backward" the gradients of queries, keys and values from a result that is
// there; "both" a step of training, by autograd on both sides, as is "backward". Causal attention is measured where there are as many
// queries as keys, gradients where there is more than one query. Operands lie in memory as [B, H, T, D], the gradient of the
// result as the result does: [B, T, H, D] for ours, in PyTorch as the backend likes.
//
// A cell is the median of the runs with the fastest and the slowest; a run makes calls for -duration, one behind the other, and waits
// for the last one. TFLOP/s count 4*B*H*T*S*D operations for forward, 2.5 times as many for backward (which computes the scores
// again), and half of them if it is causal: the convention of FlashAttention's authors. "host us" is what the host takes to issue
// a call; where it is nearly all of the time ("bound"), the number says nothing about the kernels. "peak" is what a call allocates above
// what was there before, with its results.
//
// # PyTorch
//
// Where -python has PyTorch for the device, it computes the same right afterwards, from the same inputs, with the same way of
// timing: by scaled_dot_product_attention with each of its backends forced, and "default", as it chooses itself. A PyTorch that has no
// such function computes it as written in a textbook ("written"). Ratios are to the fastest that was forced. "difference" is the
// largest one between elements of the results at 512 places of each, in parts of the largest there.
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

func main() { os.Exit(exit.Code("attention", run(os.Args[1:], os.Stdout, os.Stderr))) }

// defaults are GPT-2, a small model, decoding from 1,024 and 8,192 keys, and a long text.
const defaults = "16x12x1024x1024x64,8x6x256x256x64,8x32x1x1024x128,8x32x1x8192x128,4x16x4096x4096x128"

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
		fmt.Fprintln(stderr, "attention:", err)
		return 2
	}
	r, err := o.measure()
	if err == nil {
		err = errors.Join(r.write(stdout, o.json), r.failed())
	}
	if err != nil {
		fmt.Fprintln(stderr, "attention:", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	f := flag.NewFlagSet("attention", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.device, "device", "cuda:0", "where to run: cuda:0 or host")
	shapes := f.String("shapes", defaults, "`list` of shapes BxHxTxSxD: sequences, heads, queries, keys, elements")
	types := f.String("types", "float16,bfloat16,float32", "`list` of float types")
	f.IntVar(&o.runs, "runs", 3, "`number` of runs of which the median counts")
	f.DurationVar(&o.duration, "duration", 20*time.Millisecond, "how long one run takes, about")
	f.StringVar(&o.python, "python", torch.Python, "Python `program` that may have PyTorch; empty leaves PyTorch out")
	f.DurationVar(&o.limit, "torch-limit", torch.Limit, "how long PyTorch may take; what it measured until then counts")
	f.StringVar(&o.json, "json", "", "`file` that gets all figures")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 || o.runs < 1 || o.duration <= 0 || o.limit <= 0 {
		return o, errors.New("want -runs of at least 1, a -duration and -torch-limit of more than 0, and no arguments")
	}
	for _, s := range strings.Split(*shapes, ",") {
		shape, ok := shapeOf(s)
		if !ok {
			return o, fmt.Errorf("-shapes: %q is no BxHxTxSxD", s)
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

// shapeOf is the shape of a text.
func shapeOf(text string) (s shape, ok bool) {
	parts := strings.Split(text, "x")
	to := []*int{&s.Batch, &s.Heads, &s.Queries, &s.Keys, &s.Width}
	if len(parts) != len(to) {
		return s, false
	}
	for i := range to {
		n, err := strconv.Atoi(parts[i])
		if err != nil || n < 1 {
			return s, false
		}
		*to[i] = n
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
