// Parallel measures data-parallel training beside PyTorch's: the GPT of examples/parallel on some ranks of this machine by MPI, and the same in DistributedDataParallel over gloo.
//
//	go run ./benchmarks/parallel [-ranks 2] [-runs 5] [-steps 20] [-layers 4] [-width 256] [-json FILE] [-python /usr/bin/python3] [-mpirun mpirun]
//
//	go run ./benchmarks/parallel -links 1e9 [-ranks 2] [-steps 20] [-layers 4] [-width 256] [-json FILE]
//
// The second form measures how much of the communication backward hides, with links of so many bytes a second between ranks of this process, in front of nothing else: what a pass takes with links that take no
// time, what is on the links, and what both take together.
//
// The runs of both take turns; each rank has one thread, on both sides. A figure is the mean over all steps of a run, of the slowest rank, and of all runs the least counts. Memory is the most that any rank had
// resident. Run it when the machine has nothing else to do.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/benchmarks/internal/torch"
	"github.com/cistern-ml/cistern/internal/command"
)

// options are the program's flags; what both sides train is in JSON for PyTorch's.
type options struct {
	Ranks  int    `json:"ranks"`
	Steps  int    `json:"steps"`
	Layers int    `json:"layers"`
	Width  int    `json:"width"`
	Heads  int    `json:"heads"`
	Seq    int    `json:"seq"`
	Vocab  int    `json:"vocab"`
	Batch  int    `json:"batch"`
	File   string `json:"file"` // where PyTorch's ranks meet

	links                float64
	runs                 int
	json, python, mpirun string
}

// row is one side's figures.
type row struct {
	Side    string  `json:"side"`
	Ranks   int     `json:"ranks"`
	Seconds float64 `json:"seconds_per_step"`
	Memory  int64   `json:"rss_bytes"` // of the rank with most
	Loss    float64 `json:"last_loss"`
}

func main() { command.Main("parallel", run) }

func run(args []string, stdout, stderr io.Writer) int {
	var o options
	return command.Run("parallel", stderr, func() error { return o.parse(args, stderr) }, func() error {
		if o.links > 0 {
			return o.overlap(stdout)
		}
		return o.compare(stdout)
	})
}

func (o *options) parse(args []string, stderr io.Writer) error {
	f := flag.NewFlagSet("parallel", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&o.Ranks, "ranks", 2, "`number` of ranks")
	f.IntVar(&o.Steps, "steps", 20, "`number` of steps of a run")
	f.IntVar(&o.Layers, "layers", 4, "layers of the GPT")
	f.IntVar(&o.Width, "width", 256, "its width")
	f.IntVar(&o.Heads, "heads", 4, "heads of its attention")
	f.IntVar(&o.Seq, "seq", 128, "tokens of a sequence")
	f.IntVar(&o.Vocab, "vocab", 512, "tokens there are")
	f.IntVar(&o.Batch, "batch", 16, "sequences of a step, of all ranks")
	f.IntVar(&o.runs, "runs", 5, "`number` of runs of which the best counts")
	f.Float64Var(&o.links, "links", 0, "measure overlap instead, with links of so many `bytes` a second")
	f.StringVar(&o.mpirun, "mpirun", "mpirun", "`program` that starts ranks")
	f.StringVar(&o.python, "python", torch.Python, "Python `program` that has PyTorch; nothing to measure without it")
	command.OutputVar(f, &o.json, "json", "`file` that gets all figures")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 || min(o.Ranks, o.Steps, o.Layers, o.Width, o.Heads, o.Seq, o.Vocab, o.Batch, o.runs) < 1 || o.Batch%o.Ranks != 0 || !(o.links >= 0) {
		return fmt.Errorf("want positive numbers, a batch that the ranks can divide, and no arguments")
	}
	return nil
}

// compare runs both sides in turn.
func (o *options) compare(w io.Writer) error {
	dir, err := os.MkdirTemp("", "parallel")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "train")
	if err := build(program); err != nil {
		return err
	}
	var rows []row
	for i := range o.runs {
		ours, err := o.ours(program, filepath.Join(dir, "figures.json"))
		if err != nil {
			return fmt.Errorf("ours: %w", err)
		}
		rows = best(rows, ours)
		if o.python == "" {
			continue
		}
		o.File = filepath.Join(dir, fmt.Sprint("meet", i))
		peer, err := o.peer()
		if err != nil {
			return fmt.Errorf("PyTorch: %w", err)
		}
		rows = best(rows, peer)
	}
	if o.json != "" {
		if err := harness.WriteJSON(o.json, rows); err != nil {
			return err
		}
	}
	return tell(w, rows)
}

// best keeps the fastest run of each side, and the most memory that one took.
func best(rows []row, r row) []row {
	for i := range rows {
		if q := &rows[i]; q.Side == r.Side {
			memory := max(q.Memory, r.Memory)
			if r.Seconds < q.Seconds {
				*q = r
			}
			q.Memory = memory
			return rows
		}
	}
	return append(rows, r)
}

func tell(w io.Writer, rows []row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "side\tranks\tms a step\tMB resident\tratio\t")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%d\t%.1f\t%.1f\t%.2f\t\n", r.Side, r.Ranks, 1e3*r.Seconds, float64(r.Memory)/1e6, r.Seconds/rows[0].Seconds)
	}
	return t.Flush()
}
