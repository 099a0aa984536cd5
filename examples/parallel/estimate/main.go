// Estimate computes on paper what a training step on many GPUs takes, in time and memory: for those who are about to book them.
//
//	go run ./examples/parallel/estimate                                       the tables of docs/parallel.md
//	go run ./examples/parallel/estimate -params "32 4096 32" -gpus 64 -micro 2 one model, in layers, width and heads
//
// Memory is exact (parallel.Predict). Time comes from a model of a few published figures, which are in machines.go with their sources; the last table compares it with steps that others have
// measured. Nothing here was measured by this project.
package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/internal/command"
)

// options are the program's flags.
type options struct {
	params string
	gpus   int
	micro  int
	seq    int
}

func main() { command.Main("estimate", run) }

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	return command.Run("estimate", stderr, func() error { return o.parse(args, stderr) }, func() error { return o.print(stdout) })
}

func (o *options) parse(args []string, stderr io.Writer) error {
	f := session.NewChecked("estimate", stderr)
	f.StringVar(&o.params, "params", "", "layers, width and heads of one GPT instead of the tables")
	f.Count(&o.gpus, "gpus", 8, 1, 1<<20, "how many GPUs, eight in a machine")
	f.Count(&o.micro, "micro", 1, 1, session.MostBatch, "sequences that a GPU has at a time")
	f.Count(&o.seq, "seq", 2048, 1, 1<<20, "tokens of a sequence")
	return f.Parse(args)
}

func (o *options) print(w io.Writer) error {
	if o.params == "" {
		return writeTables(w)
	}
	var layers, width, heads int
	if n, err := fmt.Sscan(o.params, &layers, &width, &heads); n != 3 || err != nil || layers < 1 || heads < 1 || width < 1 || width%heads != 0 {
		return fmt.Errorf("-params is %q; want layers, width and heads, as in \"32 4096 32\", with a width that is a multiple of the heads", o.params)
	}
	m := model{name: strings.Join(strings.Fields(o.params), " "), layers: layers, width: width, heads: heads, seq: o.seq, micro: o.micro}
	return writeModels(w, []model{m}, []int{o.gpus})
}
