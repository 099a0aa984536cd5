// Parallel trains a GPT, or a network that reads digits, on several ranks at once, and tells for each of them what memory it took and how fast it was.
//
//	go run ./examples/parallel -ranks 2                      two ranks in this process, on the host
//	go run ./examples/parallel -ranks 4 -zero 2              gradients and optimizer state are sharded; -zero 3: parameters too
//	go run ./examples/parallel -ranks 2 -accumulate 4        four parts of a batch are added up before anything is sent
//	go run ./examples/parallel -ranks 2 -amp bf16            matrix products in bfloat16 (fp16: float16, with gradients scaled alike on all ranks)
//	go run ./examples/parallel -model digits -ranks 2        a network for handwritten digits, of the test set of MNIST
//	go run ./examples/parallel -ranks 2 -save run            a checkpoint at the end, to which each rank writes its part
//	go run ./examples/parallel -ranks 4 -zero 3 -resume run  goes on from it, with as many ranks and the stage that one likes
//	mpirun -n 2 go run ./examples/parallel                   each rank a process, by MPI; the same flags
//	mpirun -n 2 ./train -backend nccl -device cuda:0         each rank the GPU of its number on the machine; MPI starts them, NCCL moves the bytes
//	go run ./examples/parallel -device sim:80GiB -ranks 64 -zero 3 -layers 12 -width 768 -heads 12 -seq 1024 -vocab 50304 -batch 512
//	                                                         what would a rank of 64 take? Simulated devices keep the books without computing
//
// Before it trains, each rank is simulated: the table has the peak of memory that was predicted so beside the one that was measured. -json writes the figures to a file.
package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/internal/command"
)

// options are the program's flags.
type options struct {
	Model      string  `json:"model"`
	Ranks      int     `json:"ranks"`
	ZeRO       int     `json:"zero"`
	Accumulate int     `json:"accumulate"`
	AMP        string  `json:"amp"`
	Steps      int     `json:"steps"`
	Batch      int     `json:"batch"`
	Layers     int     `json:"layers"`
	Width      int     `json:"width"`
	Heads      int     `json:"heads"`
	Seq        int     `json:"seq"`
	Vocab      int     `json:"vocab"`
	LR         float64 `json:"lr"`
	Clip       float64 `json:"clip"`
	Seed       uint64  `json:"seed"`
	Plan       bool    `json:"plan"`

	backend string
	device  string
	text    string
	json    string
	save    string
	resume  string
}

func main() { command.Main("parallel", run) }

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	return command.Run("parallel", stderr, func() error { return o.parse(args, stderr) }, func() error { return o.train(stdout) })
}

func (o *options) parse(args []string, stderr io.Writer) error {
	f := session.NewChecked("parallel", stderr)
	f.StringVar(&o.Model, "model", "gpt", "what to train: gpt or digits")
	f.Count(&o.Ranks, "ranks", 0, 0, 1<<16, "how many ranks to run in this process (default: those of the MPI launcher, or 1)")
	f.Count(&o.ZeRO, "zero", 0, 0, 3, "what is sharded: 1 the optimizer's state, 2 gradients too, 3 parameters too")
	f.Count(&o.Accumulate, "accumulate", 1, 1, session.MostBatch, "parts of a rank's batch that are added up before gradients are sent")
	f.StringVar(&o.AMP, "amp", "off", "precision of matrix products: off, bf16 or fp16")
	f.Count(&o.Steps, "steps", 20, 1, session.MostSteps, "steps of training")
	f.Count(&o.Batch, "batch", 16, 1, session.MostBatch, "examples in a step, of all ranks and parts together")
	f.Count(&o.Layers, "layers", 2, 1, 1<<10, "layers of the GPT")
	f.Count(&o.Width, "width", 64, 1, session.MostWidth, "width of the GPT, or of the hidden layers")
	f.Count(&o.Heads, "heads", 4, 1, 1<<10, "heads of the GPT's attention")
	f.Count(&o.Seq, "seq", 32, 1, session.MostWidth, "characters in an example of the GPT")
	f.Count(&o.Vocab, "vocab", 0, 0, session.MostTokens, "tokens of the GPT (default: the characters of the text)")
	f.Positive(&o.LR, "lr", 1e-3, "learning rate")
	f.Positive(&o.Clip, "clip", 1, "norm to which the gradients of all ranks together are clipped")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of all random numbers")
	f.StringVar(&o.backend, "backend", "mpi", "what moves the bytes between ranks that an MPI launcher has started: mpi, or nccl between GPUs")
	f.DeviceFlag(&o.device, "where each rank runs: host, host:4GiB, cuda:0, or sim:80GiB to predict alone")
	f.StringVar(&o.text, "text", "", "text for the GPT (default: one that comes with Go)")
	f.PlanFlag(&o.Plan)
	f.File(&o.json, "json", "", "file to write the figures to")
	f.StringVar(&o.save, "save", "", "folder to which a checkpoint is written at the end, one that all ranks see")
	f.StringVar(&o.resume, "resume", "", "folder with a checkpoint from which to go on, of the same model")
	f.Check(o.fits)
	return f.Read(args)
}

// fits refuses what flags cannot mean together.
func (o *options) fits() error {
	switch {
	case o.Model != "gpt" && o.Model != "digits":
		return fmt.Errorf("-model is %q, must be gpt or digits", o.Model)
	case o.AMP != "off" && o.AMP != "bf16" && o.AMP != "fp16":
		return fmt.Errorf("-amp is %q, must be off, bf16 or fp16", o.AMP)
	case (o.save != "" || o.resume != "") && strings.HasPrefix(o.device, "sim"):
		return errors.New("-save and -resume are for devices that have values, not for -device " + o.device)
	case o.backend != "mpi" && o.backend != "nccl":
		return fmt.Errorf("-backend is %q, must be mpi or nccl", o.backend)
	case o.Width%o.Heads != 0:
		return fmt.Errorf("-width is %d, must be a multiple of -heads, which is %d", o.Width, o.Heads)
	}
	return o.divides(max(o.Ranks, 1))
}

// divides refuses a batch that ranks and parts do not divide.
func (o *options) divides(ranks int) error {
	if o.Batch%(ranks*o.Accumulate) != 0 {
		return fmt.Errorf("-batch is %d, must be a multiple of %d ranks times -accumulate, which is %d", o.Batch, ranks, o.Accumulate)
	}
	return nil
}
