// Gpt2 loads GPT-2 from a folder with Hugging Face's files (config.json, model.safetensors or shards of it, vocab.json, merges.txt) and
// writes text; it can train adapters (LoRA) over it.
//
//	go run ./examples/gpt2 -model DIR -prompt "Once upon a time"         the likeliest tokens
//	go run ./examples/gpt2 -model DIR -temperature 0.8 -top-k 40         drawn tokens
//	go run ./examples/gpt2 -model DIR -dtype bf16                        weights in bfloat16, converted while they are loaded
//	go run ./examples/gpt2 -model DIR -lora FILE -text BOOK              train adapters on a text, and write them alone to FILE
//	go run ./examples/gpt2 -model DIR -lora FILE                         write text with these adapters
//
// Without -model it is the tiny model of random weights that the tests have, which writes nonsense. It ends with a table, and the memory
// summary of the device; -json writes the numbers to a file. Ctrl-C ends training after the step that runs, and writing after a token; the
// exit code is 130.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"

	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/internal/command"
	"github.com/cistern-ml/cistern/tensor"
)

// options are the program's flags.
type options struct {
	sampling
	folder, prompt, device, dtype string
	tokens                        int

	lora, text  string
	rank, steps int
	batch, seq  int
	seqGiven    bool
	alpha, lr   float64
	json        string
	plan        bool
	watch       session.Watch
}

// tiny is the model of the tests.
const tiny = "examples/gpt2/testdata/tiny"

// mostSeq is the default of -seq.
const mostSeq = 64

// dtypes are the values of -dtype.
var dtypes = map[string]tensor.DType{"f32": tensor.Float32, "bf16": tensor.BFloat16, "fp16": tensor.Float16}

func main() { command.Main("gpt2", run) }

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags, 130 after Ctrl-C.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	return command.Run("gpt2", stderr, func() error { return o.parse(args, stderr) }, func() error { return program(o, stdout, stderr) })
}

func (o *options) parse(args []string, stderr io.Writer) error {
	f := session.NewChecked("gpt2", stderr)
	f.StringVar(&o.folder, "model", tiny, "folder of the model")
	f.StringVar(&o.prompt, "prompt", "The cat sat on the", "text to continue")
	f.Count(&o.tokens, "tokens", 40, 0, session.MostWritten, "tokens to write")
	f.Number(&o.temperature, "temperature", 0, "0 for the likeliest token, else how even the chances are: 1 for those that the model gives",
		"be finite and not negative", func(v float64) bool { return v >= 0 && !math.IsInf(v, 0) })
	f.Count(&o.topK, "top-k", 0, 0, session.MostTokens, "draw from this many of the likeliest tokens (default: all)")
	f.Uint64Var(&o.seed, "seed", 1, "seed of all random numbers")
	f.DeviceFlag(&o.device, "where to run: host, host:4GiB, sim, sim:80GiB or cuda:0")
	f.StringVar(&o.dtype, "dtype", "f32", "type of the weights: f32, bf16 or fp16")
	f.StringVar(&o.lora, "lora", "", "file of adapters: read, or written if there is -text")
	f.StringVar(&o.text, "text", "", "text to train adapters on")
	f.Count(&o.rank, "rank", 8, 1, session.MostWidth, "rank of the adapters")
	f.Number(&o.alpha, "alpha", 16, "what the adapters' part is multiplied by, times their rank", "be finite",
		func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) })
	f.Count(&o.steps, "steps", 100, 0, session.MostSteps, "training steps")
	f.Count(&o.batch, "batch", 4, 1, session.MostBatch, "sequences of a training step")
	f.Count(&o.seq, "seq", mostSeq, 1, 1<<20, "tokens of a sequence; without the flag no more than the model looks at")
	f.Product(session.MostTokens, &o.batch, "batch", &o.seq, "seq")
	f.Positive(&o.lr, "lr", 1e-3, "learning rate")
	f.StringVar(&o.json, "json", "", "file to write the figures to")
	f.Writes(o.outputs)
	f.PlanFlag(&o.plan)
	o.watch.AddFlags(f)
	f.Check(o.check)
	if err := f.Read(args); err != nil {
		return err
	}
	f.Visit(func(f *flag.Flag) { o.seqGiven = o.seqGiven || f.Name == "seq" })
	return nil
}

// check refuses what cannot be done, besides what is out of bounds.
func (o *options) check() error {
	switch {
	case dtypes[o.dtype] == 0:
		return fmt.Errorf("-dtype is %q, must be f32, bf16 or fp16", o.dtype)
	case o.text != "" && o.lora == "":
		return errors.New("-text trains adapters: -lora names the file for them")
	case o.text != "" && o.dtype != "f32":
		return errors.New("adapters are trained in f32")
	}
	return nil
}

// outputs are the files that are written at the end.
func (o *options) outputs() []session.Output {
	all := []session.Output{{Flag: "json", File: o.json}}
	if o.text != "" {
		all = append(all, session.Output{Flag: "lora", File: o.lora})
	}
	return all
}
