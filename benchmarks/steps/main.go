// Command steps measures what training steps of a few models take in memory, beside what PyTorch's allocator recorded for the
// same models, and what they put on a GPU's streams.
//
//	mlp      784-512-512-10 with ReLU, batch 256, Adam
//	resnet   ResNet-18 in its form for 32x32 images, batch 64, SGD with momentum, an evaluation at batch 200 each 5 steps
//	gpt      6 layers, 384 wide, 6 heads, sequence 256, batch 8, vocabulary 8192, dropout 0.1, AdamW
//	gpt_ckpt the same with each layer checkpointed
//	gpt2     GPT-2 of 124 million parameters: 12 layers, 768 wide, sequence 1024, batch 4, vocabulary 50257, no dropout, AdamW; only by name
//
//	go run ./benchmarks/steps [-traces DIR] [-device sim:80GiB] [-model all] [-steps 6] [-amp off|fp16|bf16] [-json FILE]
//	go run ./benchmarks/steps -varying 1000      the curve over steps of varying shapes: is it flat?
//	go run ./benchmarks/steps -plan              with a plan, and how it did
//	go run ./benchmarks/steps -count -model gpt2 -amp bf16     operations of a step on a CUDA device, by kind
//
// With -traces the peaks that PyTorch 2.6's allocator reached on the recorded programs stand beside ours (PyTorch ran without
// fused attention, as recorded; see the README there). On a simulated device nothing is computed, but every allocation is
// made: the numbers are those of the host, which a test compares. With -count the device is one that counts launches and computes
// nothing either (benchmarks/internal/launches), and the third step is counted: kernels, products of cuBLAS and cuBLASLt, copies, and the bytes
// that they move at least.
package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cistern-ml/cistern/internal/command"
	"github.com/cistern-ml/cistern/internal/stepplan"
	"github.com/cistern-ml/cistern/tensor"
)

// options are the flags.
type options struct {
	device  string
	model   string
	traces  string
	amp     string
	json    string
	steps   int
	batch   int
	seq     int
	varying int
	plan    bool
	count   bool
	last    bool
}

func main() { command.Main("steps", run) }

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	return command.Run("steps", stderr, func() (err error) {
		o, err = parseFlags(args, stderr)
		return err
	}, func() error { return measure(o, stdout) })
}

// precisions are the values of -amp.
var precisions = map[string]tensor.DType{"off": tensor.Float32, "fp16": tensor.Float16, "bf16": tensor.BFloat16}

func parseFlags(args []string, stderr io.Writer) (options, error) {
	var o options
	f := command.NewFlagSet("steps", stderr)
	f.StringVar(&o.device, "device", "sim:80GiB", "where to run: host, sim:80GiB or cuda:0")
	f.StringVar(&o.model, "model", "all", "one of "+strings.Join(names(), ", ")+", or all")
	f.StringVar(&o.traces, "traces", "", "`folder` of recorded programs, for PyTorch's figures")
	f.StringVar(&o.amp, "amp", "off", "precision of matrix products: off, fp16 or bf16")
	command.OutputVar(f, &o.json, "json", "file to write the figures to")
	f.IntVar(&o.steps, "steps", 6, "training steps")
	f.IntVar(&o.batch, "batch", 0, "batch instead of the model's own")
	f.IntVar(&o.seq, "seq", 0, "length of gpt's sequences instead of its own")
	f.IntVar(&o.varying, "varying", 0, "train gpt for this many steps on sequences of varying length instead")
	f.BoolVar(&o.count, "count", false, "count the operations of a step on a CUDA device; -device and -steps have no say then")
	f.BoolVar(&o.last, "last", false, "images and the kernels of convolutions in channels_last")
	f.BoolVar(&o.plan, stepplan.Flag, false, stepplan.Usage)
	if err := command.Parse(f, args); err != nil {
		return o, err
	}
	var err error
	switch _, known := precisions[o.amp]; {
	case f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	case !known:
		err = fmt.Errorf("-amp is %q, must be off, fp16 or bf16", o.amp)
	case o.steps < 1 || o.varying < 0 || o.batch < 0 || o.seq < 0:
		err = fmt.Errorf("-steps %d, -varying %d, -batch %d, -seq %d: must be positive", o.steps, o.varying, o.batch, o.seq)
	case o.varying == 1:
		err = fmt.Errorf("-varying is 1, must be at least 2: the curve begins after the second step")
	case o.count && (o.varying > 0 || o.traces != "" || o.plan):
		err = errors.New("-count goes with -model, -amp, -last, -batch, -seq and -json only")
	case o.model != "all" && find(o.model) == nil:
		err = fmt.Errorf("-model is %q, must be one of %s, or all", o.model, strings.Join(names(), ", "))
	}
	return o, err
}
