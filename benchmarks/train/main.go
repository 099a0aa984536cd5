// Command train answers one question: how fast are whole training steps, and what memory do they take, beside PyTorch on the same
// device in the same run?
//
//	gpt2       GPT-2 with 124 million parameters (vocabulary 50304, its output matrix the embedding, no dropout), 16 x 1024 tokens, bf16, AdamW
//	resnet50   128 images of 224x224, fp16 with a GradScaler, SGD with momentum
//	gpt        6 layers, 384 wide, 8 x 256 tokens, vocabulary 8192, bf16, AdamW: here the way to the device begins to count
//	mlp        784-512-512-10, batch 256, float32, AdamW: here nothing else counts
//
//	go run ./benchmarks/train [-device cuda:0] [-model gpt2,resnet50] [-modes eager,compile] [-amp bf16,fp16,off] [-json FILE]
//	go run ./benchmarks/train -device host -quick        tiny models, to try the program
//	go run ./benchmarks/train -device sim:140GiB         peaks of memory only
//	go run ./benchmarks/train -plan                      our eager steps with a plan, and how it did as a remark
//
// # What is measured
//
// Both sides start from the same weights and train on the same batch, which is on the device: a file has them. After -warm steps come
// -runs runs of -steps steps, one behind the other, each run until the loss of its last step has been read; nothing waits in between.
// A number is the median of the runs, with the fastest and the slowest. Losses are those of the first step and of each run's last:
// one sees that both sides learn the same. Peaks of memory are the allocators' own, from the end of the warm-up on; memory that the
// warm-up reserved stays reserved. The first step's time has what is loaded, compiled and chosen at first use.
//
// TFLOP/s are an estimate: 6 for each item and parameter that is multiplied with, which leaves positions out, and for attention
// 12 * layers * width * length for each token, as if it were not causal. There is none for ResNets.
//
// # PyTorch
//
// Modes are eager, with F.scaled_dot_product_attention, fused optimizers, cuDNN's benchmark mode, and images in channels_last;
// contiguous, with images in the default memory format; compile, which is eager with torch.compile around model and loss, whose first
// step is the compilation; and graph: the whole step, forward, backward and optimizer, captured by torch.cuda.graph and replayed, which is
// compared with ours, of autograd/stepgraph. TF32 is off.
//
// Both sides' captured steps copy the batch to where the graph reads it, each time, as steps with new batches do. Those that do not count
// are eager ones, but for the last: it captures, and is replayed. "by own eager" is the speed of a way by that of the same side's eager steps.
//
// Every training, ours too, is a process of its own with -limit to itself, and all have -budget. What goes wrong is a remark, and what
// was measured until then counts. The file of -json is written anew after each. It is an error only if our side trained nothing.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/benchmarks/internal/torch"
	"github.com/cistern-ml/cistern/internal/command"
	"github.com/cistern-ml/cistern/internal/stepplan"
)

func main() {
	command.Main("train", func(args []string, stdout, stderr io.Writer) int { return run(args, stdout, stderr, nil) })
}

// options are the flags.
type options struct {
	device   string
	programs []*program
	modes    []string
	amp      []string // nil for each program's own
	python   string
	profile  string
	plan     bool
	limit    time.Duration // of a process
	budget   time.Duration // of all; 0 for none
	json     string
	child    string // the task of a process

	script     string // the file of PyTorch's side
	own, other starter
	stderr     io.Writer
}

// run is main with its surroundings as arguments; own, if it is not nil, trains our side. It returns the exit code: 1 for an error, 2
// for wrong flags.
func run(args []string, stdout, stderr io.Writer, own starter) int {
	var o *options
	return command.Run("train", stderr, func() (err error) {
		o, err = parseFlags(args, stderr)
		return err
	}, func() error {
		o.own, o.other, o.stderr = o.ours, o.pytorch, stderr
		if own != nil {
			o.own = own
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return o.program(ctx, stdout)
	})
}

func (o *options) program(ctx context.Context, stdout io.Writer) error {
	if o.child != "" {
		t := &task{}
		if err := json.Unmarshal([]byte(o.child), t); err != nil {
			return err
		}
		return t.train(stdout)
	}
	within := ctx
	if o.budget > 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, o.budget)
		defer cancel()
	}
	r, err := o.measure(within)
	if err != nil {
		return err
	}
	return errors.Join(r.print(stdout), ctx.Err(), r.failed())
}

// failed is an error if our side trained nothing.
func (r *report) failed() error {
	for _, x := range r.Results {
		for _, s := range x.Subjects {
			if s.Name == "cistern" && s.Allocated > 0 {
				return nil
			}
		}
	}
	return errors.New("nothing was trained")
}

// overrides are flags that change all models of a kind, if they are not 0.
type overrides struct{ batch, layers, width, heads, seq, vocab, image, warm, runs, steps int }

func parseFlags(args []string, stderr io.Writer) (o *options, err error) {
	o = &options{}
	var v overrides
	f := command.NewFlagSet("train", stderr)
	f.StringVar(&o.device, "device", "cuda:0", "where to run: cuda:0, host, or sim:140GiB for memory only")
	chosen := f.String("model", "all", "`list` of models: "+strings.Join(names(), ", ")+", or all")
	ways := f.String("modes", strings.Join(modes, ","), "`list` of PyTorch's modes; ours are eager and graph of these")
	precision := f.String("amp", "", "`list` of precisions of matrix products, off, fp16 or bf16, instead of each model's own")
	quick := f.Bool("quick", false, "tiny models and few steps, to try the program")
	for _, n := range []struct {
		to         *int
		name, what string
	}{
		{&v.batch, "batch", "samples of a step"}, {&v.layers, "layers", "layers of GPTs"}, {&v.width, "width", "width of GPTs"},
		{&v.heads, "heads", "heads of GPTs"}, {&v.seq, "seq", "tokens of GPTs' sequences"}, {&v.vocab, "vocab", "GPTs' vocabulary"},
		{&v.image, "image", "edge of ResNets' images"}, {&v.warm, "warm", "steps that do not count, at least 1"},
		{&v.runs, "runs", "runs of which the median counts"}, {&v.steps, "steps", "steps of a run"},
	} {
		f.IntVar(n.to, n.name, 0, n.what+"; 0 for the default")
	}
	f.StringVar(&o.python, "python", torch.Python, "Python `program` that may have PyTorch; empty leaves PyTorch out")
	f.DurationVar(&o.limit, "limit", 2*time.Minute, "limit of each training's process")
	f.DurationVar(&o.budget, "budget", 0, "time after which no training begins, and the one in work is stopped; 0 for none")
	harness.JSON(f, &o.json)
	f.StringVar(&o.profile, "profile", "", "profile the steps that count, on a GPU: `prefix` of files with totals by kernel, and traces")
	f.BoolVar(&o.plan, stepplan.Flag, false, "our eager side: "+stepplan.Usage)
	f.StringVar(&o.child, "child", "", "for processes of this program: the `task`")
	if err := command.Parse(f, args); err != nil {
		return o, err
	}
	if f.NArg() > 0 || o.limit <= 0 || o.budget < 0 {
		return o, errors.New("want a -limit of more than 0, a -budget that is not negative, and no arguments")
	}
	if o.modes, err = choose("modes", *ways, modes); err != nil {
		return o, err
	}
	if *precision != "" {
		if o.amp, err = choose("amp", *precision, []string{"bf16", "fp16", "off"}); err != nil {
			return o, err
		}
	}
	if *chosen == "all" {
		*chosen = strings.Join(names(), ",")
	}
	list, err := choose("model", *chosen, names())
	if err != nil {
		return o, err
	}
	o.programs, err = v.programs(list, *quick)
	return o, err
}

// choose reads a list of some of all, which it returns in their order.
func choose(flag, list string, all []string) (chosen []string, err error) {
	given := strings.Split(list, ",")
	for _, s := range given {
		if !slices.Contains(all, s) {
			return nil, fmt.Errorf("-%s: %q is none of %s", flag, s, strings.Join(all, ", "))
		}
	}
	for _, s := range all {
		if slices.Contains(given, s) {
			chosen = append(chosen, s)
		}
	}
	return chosen, nil
}

// programs are those that were chosen, changed as the flags say.
func (v *overrides) programs(chosen []string, quick bool) (list []*program, err error) {
	for _, p := range programs {
		if !slices.Contains(chosen, p.Model) {
			continue
		}
		q := *p
		q.Warm, q.Runs, q.Steps = 5, 5, 10
		if quick {
			q.task = p.quick
			q.Warm, q.Runs, q.Steps = 2, 2, 2
		}
		if err := v.change(&q.task); err != nil {
			return nil, err
		}
		list = append(list, &q)
	}
	return list, nil
}

// change sets what the flags say, and refuses what cannot be.
func (v *overrides) change(t *task) error {
	set := func(to *int, value int) {
		if value != 0 {
			*to = value
		}
	}
	set(&t.Batch, v.batch)
	set(&t.Warm, v.warm)
	set(&t.Runs, v.runs)
	set(&t.Steps, v.steps)
	switch t.Kind {
	case "gpt":
		set(&t.Layers, v.layers)
		set(&t.Width, v.width)
		set(&t.Heads, v.heads)
		set(&t.Seq, v.seq)
		set(&t.Vocab, v.vocab)
	case "resnet":
		set(&t.Image, v.image)
	}
	shape, _, _ := t.shapes()
	if slices.Min(append(shape, t.Warm, t.Runs, t.Steps)) < 1 {
		return fmt.Errorf("%s: batch, length, image, -warm, -runs and -steps must be at least 1", t.Model)
	}
	_, err := t.model()
	return err
}
