// Command conv answers one question: how fast are convolutions, and what memory do they take, beside those of cuDNN through PyTorch?
//
//	go run ./benchmarks/conv [-device cuda:0] [-shapes 32x64x56x56:64x3x3:1:1,...] [-types float16,bfloat16,float32] [-runs 3] [-json FILE]
//
// A shape is NxCxHxW:OxKHxKW:STRIDE:PADDING:GROUPS: N images of C channels, O kernels of KH by KW; what is left out at the end is 1, 0,
// 1. The default shapes are layers of ResNet-50, one with a group for each channel, as MobileNet has it, one with two groups, and one whose
// channels are no multiple of 32.
//
// # What is measured
//
// "forward" is the result, without a bias; "input" and "weight" are the gradients of the images and of the kernels. Images and kernels
// lie in memory as [N, C, H, W]. -strided measures also with all operands in channels_last, images (and gradients of results) as [N, H, W, C] and
// kernels as [O, KH, KW, C/GROUPS] ("strided us"); results then lie so, too.
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
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/benchmarks/internal/peer"
	"github.com/cistern-ml/cistern/internal/command"
)

func main() { command.Main("conv", run) }

// defaults are the shapes of -shapes, those that tell most first: PyTorch's time may end before the last ones.
const defaults = "32x64x56x56:64x3x3:1:1,32x256x14x14:256x3x3:1:1,32x64x56x56:256x1x1,32x1024x14x14:256x1x1,32x128x56x56:128x3x3:2:1," +
	"32x3x224x224:64x7x7:2:3,32x128x28x28:128x3x3:1:1,32x512x7x7:512x3x3:1:1,32x128x56x56:128x3x3:1:1:128," +
	"32x128x28x28:128x3x3:1:1:2,32x72x28x28:72x3x3:1:1"

// options are the flags that other benchmarks have not.
type options struct {
	harness.Flags
	strided bool
}

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	p := peer.Program[shape, problem, *result]{Bench: o.bench(), Name: "conv", Shapes: defaults, Form: form, Read: shapeOf, Ours: o.measureShape,
		Define: func(f *flag.FlagSet) {
			f.BoolVar(&o.strided, "strided", true, "measure also operands with their channels last in memory")
		}}
	return p.Run(args, stdout, stderr)
}

// form is that of a shape's text.
const form = "NxCxHxW:OxKHxKW:STRIDE:PADDING:GROUPS"

func shapeOf(text string) (s shape, err error) {
	s = shape{Stride: 1, Groups: 1}
	wrong := fmt.Errorf("%q is no "+form+" of a result", text)
	parts := strings.Split(text, ":")
	if len(parts) < 2 || len(parts) > 5 || !harness.Numbers(parts[0], 1, &s.N, &s.C, &s.H, &s.W) || !harness.Numbers(parts[1], 1, &s.O, &s.KH, &s.KW) {
		return s, wrong
	}
	for i, to := range []*int{&s.Stride, &s.Padding, &s.Groups}[:len(parts)-2] {
		if !harness.Numbers(parts[2+i], i%2^1, to) { // no padding is 0
			return s, wrong
		}
	}
	if h, w := s.result(); h <= 0 || w <= 0 || s.C%s.Groups != 0 || s.O%s.Groups != 0 {
		return s, wrong
	}
	return s, nil
}
