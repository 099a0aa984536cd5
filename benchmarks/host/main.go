// Command host answers one question: is the host device faster than PyTorch on the same processor?
//
//	go run ./benchmarks/host -peer torch|gomlx|gorgonia [-only regexp] [-threads 1] [-runs 30] [-python /usr/bin/python3] [-json FILE] [-plot FILE]
//
// # What is measured
//
// Each case is one call, of the library and of PyTorch (torch_host.py has the same cases by the same names). The runs of both take turns, so
// that what else the machine does disturbs both alike. A run makes a few calls, after some that do not count; on Linux the runs begin on each
// processor in turn, those of both sides on the same. All cases are measured three times, with a third of the runs each and a new process of
// the peer, for the memory that a process happens to have makes it faster or slower. Of all runs the best counts. A figure is the processor
// time of the calls, of all threads, over the elements of the case (or over the calls, of cases that have no elements), the lowest of those
// runs that take at most a tenth longer on the clock than the best one; ratio is PyTorch's figure over ours, so that above 1 we are ahead,
// and ratio_wall is that of the times on the clock; ratio_median and ratio_median_wall are those of the medians of all runs. With several
// threads a side that shares the work of small operations has more processor time for less time on the clock.
//
// Of whole steps also the memory is measured: the most that a process has resident which takes six of them and does nothing else.
//
// The other Go libraries, GoMLX on its backend of Go and Gorgonia, have the step of the multilayer perceptron only. They are in a module of their own, in the
// folder peers, which is built first.
//
// With -divided whole steps run on one processor, with the work cut as for several: how much of them is in parallel sections, how many these are, and how many
// times as fast the step could be at most on 2 processors and on 8, where none has more of them than pieces.
//
// -json writes a list of objects with case, threads, cistern_ns, peer_ns, ratio, ratio_wall, ratio_median and ratio_median_wall, and of steps
// cistern_rss_bytes and peer_rss_bytes. -plot draws the ratios of all cases, those farthest behind first.
package main

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/benchmarks/internal/torch"
	"github.com/cistern-ml/cistern/internal/command"
	"github.com/cistern-ml/cistern/internal/plotfile"
)

func main() { command.Main("host", run) }

// options are the flags.
type options struct {
	peer    string
	python  string
	only    *regexp.Regexp
	threads int
	runs    int
	json    string
	plot    string
	peers   string
	serve   bool
	divided bool
}

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	return command.Run("host", stderr, func() error { return o.parse(args, stderr) }, func() error {
		if o.serve {
			runtime.GOMAXPROCS(o.threads)
			return serve(os.Stdin, stdout)
		}
		if o.divided {
			rows, err := o.divide(stdout)
			return errors.Join(harness.WriteJSON(o.json, rows), err)
		}
		rows, err := o.measure()
		return errors.Join(write(stdout, rows), harness.WriteJSON(o.json, rows), drawRatios(o.plot, rows), err)
	})
}

func (o *options) parse(args []string, stderr io.Writer) (err error) {
	f := command.NewFlagSet("host", stderr)
	f.StringVar(&o.peer, "peer", "", "what to compare with: torch, gomlx, gorgonia, or nothing")
	f.StringVar(&o.peers, "peers", filepath.Join("benchmarks", "host", "peers"), "`folder` of the module with gomlx and gorgonia")
	f.BoolVar(&o.serve, "serve", false, "read cases from the input and answer what they took: a process whose memory is measured")
	f.StringVar(&o.python, "python", torch.Python, "Python `program` that has PyTorch")
	only := f.String("only", "", "`expression` that the names of cases match")
	f.BoolVar(&o.divided, "divided", false, "measure how much of whole steps processors can share, and how fast several could be, rather than compare")
	f.IntVar(&o.threads, "threads", 1, "`number` of threads")
	f.IntVar(&o.runs, "runs", 30, "`number` of runs of which the best counts")
	harness.JSON(f, &o.json)
	command.OutputVar(f, &o.plot, "plot", "PNG or SVG `file` that gets a plot of all ratios")
	if err := command.Parse(f, args); err != nil {
		return err
	}
	if o.only, err = regexp.Compile(*only); err != nil {
		return err
	}
	return o.check(f)
}

func (o *options) check(f *flag.FlagSet) error {
	if f.NArg() > 0 || o.runs < 1 || o.threads < 1 || !slices.Contains(append(goPeers, "", "torch"), o.peer) {
		return errors.New("want -runs and -threads of at least 1, a -peer that is torch, gomlx, gorgonia or empty, and no arguments")
	}
	if o.divided && (o.peer != "" || o.plot != "" || o.threads != 1 || o.serve) {
		return errors.New("-divided goes with -only, -runs and -json only")
	}
	if o.plot != "" && (o.peer == "" || !plotfile.Drawable(o.plot)) {
		return errors.New("-plot wants a -peer, and a file of type .png or .svg")
	}
	return nil
}
