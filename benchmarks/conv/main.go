// Command conv answers one question: how fast are convolutions, and what memory do they take, beside those of cuDNN through PyTorch?
//
//	go run ./benchmarks/conv [-device cuda:0] [-shapes 32x64x56x56:64x3x3:1:1,...] [-types float16,bfloat16,float32] [-runs 3] [-json FILE]
//
// A shape is NxCxHxW:OxKHxKW:STRIDE:PADDING:GROUPS: N images of C channels, O kernels of KH by KW; what is left out at the end is 1, 0,
// 1. The default shapes are layers of ResNet-50, and one with a group for each channel.
//
// # What is measured
//
// "forward" is the result, without a bias; "input" and "weight" are the gradients of the images and of the kernels. Images and kernels
// lie in memory as [N, C, H, W]. -strided measures also with images (and gradients of results) that lie as [N, H, W, C]
// ("strided us"): operations of ours take any strides, and make results in the first order.
//
// A cell is the median of the runs with the fastest and the slowest; a run makes calls for -duration, one behind the other, and waits
// for the last one. TFLOP/s count 2*N*O*OH*OW*C/GROUPS*KH*KW operations for each pass. "host us" is what the host takes to issue a
// call; where it is nearly all of the time ("bound"), the number says nothing about the kernels. "peak" is what a call allocates above
// what was there before, with its result and its workspace.
//
// # PyTorch
//
// Where -python has PyTorch for the device, it computes the same right afterwards, from the same inputs, with the same way of timing:
// with cudnn.benchmark, which tries all algorithms before, in both orders of memory ("nchw", "channels last"). float32 is computed
// in float32, and with products rounded to TF32 besides. Ratios are to the faster order without TF32. "difference" is the largest
// one between elements of the results at 512 places, in parts of the largest there.
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

func main() { os.Exit(exit.Code("conv", run(os.Args[1:], os.Stdout, os.Stderr))) }

// defaults are layers of ResNet-50 with 32 images: the first one, those of 3 by 3, with stride 2, expanding and reducing ones of 1 by
// 1; and one with a group for each channel, as MobileNet has it.
const defaults = "32x64x56x56:64x3x3:1:1,32x256x14x14:256x3x3:1:1,32x64x56x56:256x1x1,32x1024x14x14:256x1x1,32x128x56x56:128x3x3:2:1," +
	"32x3x224x224:64x7x7:2:3,32x128x28x28:128x3x3:1:1,32x512x7x7:512x3x3:1:1,32x128x56x56:128x3x3:1:1:128"

// options are the flags.
type options struct {
	device   string
	shapes   []shape
	types    []tensor.DType
	strided  bool
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
		fmt.Fprintln(stderr, "conv:", err)
		return 2
	}
	r, err := o.measure()
	if err == nil {
		err = errors.Join(r.write(stdout, o.json), r.failed())
	}
	if err != nil {
		fmt.Fprintln(stderr, "conv:", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	f := flag.NewFlagSet("conv", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.device, "device", "cuda:0", "where to run: cuda:0 or host")
	shapes := f.String("shapes", defaults, "`list` of shapes NxCxHxW:OxKHxKW:STRIDE:PADDING:GROUPS")
	types := f.String("types", "float16,bfloat16,float32", "`list` of float types")
	f.BoolVar(&o.strided, "strided", true, "measure also images that lie in memory as [N, H, W, C]")
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
			return o, fmt.Errorf("-shapes: %q is no NxCxHxW:OxKHxKW:STRIDE:PADDING:GROUPS of a result", s)
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

// shapeOf is the shape of a text, if it has a result.
func shapeOf(text string) (s shape, ok bool) {
	s = shape{Stride: 1, Groups: 1}
	parts := strings.Split(text, ":")
	if len(parts) < 2 || len(parts) > 5 || !numbers(parts[0], 1, &s.N, &s.C, &s.H, &s.W) || !numbers(parts[1], 1, &s.O, &s.KH, &s.KW) {
		return s, false
	}
	for i, to := range []*int{&s.Stride, &s.Padding, &s.Groups}[:len(parts)-2] {
		if !numbers(parts[2+i], i%2^1, to) { // no padding is 0
			return s, false
		}
	}
	h, w := s.result()
	return s, h > 0 && w > 0 && s.C%s.Groups == 0 && s.O%s.Groups == 0
}

// numbers reads numbers between x, of least each.
func numbers(text string, least int, to ...*int) bool {
	parts := strings.Split(text, "x")
	if len(parts) != len(to) {
		return false
	}
	for i := range to {
		n, err := strconv.Atoi(parts[i])
		if err != nil || n < least {
			return false
		}
		*to[i] = n
	}
	return true
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
