// Command alloc answers one question: what does an allocation and its free cost, and what do streams cost each other? It
// measures Cistern's caching allocator beside two others in the same run: a mutex and a map of free lists, the least that
// anybody would write, and no cache at all, a call of the operating system for each request.
//
//	go run ./benchmarks/alloc -traces DIR [-runs 7] [-duration 200ms] [-holes 65536] [-json]
//
// DIR holds bench_mix64.trace.gz and gpt_fixed.trace.gz. Without -traces only the made-up workloads run.
//
// # How to read the table
//
// A cell is the median, over the runs, of the nanoseconds of one allocation and its free, per thread, with the lowest and
// the highest run behind it; all pools are warm. The runs of all cells take turns, so that a machine whose speed drifts is
// slow for all. Compare cells of one table only; on a busy machine compare the lowest runs, and let the runs be short and
// many.
//
// The caching allocator and the map stand on a driver that does nothing: what is timed is theirs alone. The caching
// allocator also splits, merges, keeps its statistics, counts exact peaks and refuses double frees; the map does none of
// that. The last column is what both took from that driver, in the same order: the memory that the program would hold. The
// naive allocator's memory is real but nobody touches a byte of it, so it is spared the page faults that a program would
// pay for; it has no cache, so no holes.
package main

import (
	"errors"
	"io"
	"time"

	"github.com/cistern-ml/cistern/internal/command"
)

func main() { command.Main("alloc", run) }

// options are the flags.
type options struct {
	traces   string
	runs     int
	duration time.Duration
	holes    int
	json     bool
}

// run is the program; it returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	return command.Run("alloc", stderr, func() error { return o.parse(args, stderr) }, func() error {
		r, err := o.measure()
		if err != nil {
			return err
		}
		return r.write(stdout, o.json)
	})
}

func (o *options) parse(args []string, stderr io.Writer) error {
	f := command.NewFlagSet("alloc", stderr)
	f.StringVar(&o.traces, "traces", "", "`folder` of bench_mix64.trace.gz and gpt_fixed.trace.gz, or none: made-up workloads only")
	f.IntVar(&o.runs, "runs", 7, "`number` of measurements of which the median counts")
	f.DurationVar(&o.duration, "duration", 200*time.Millisecond, "how long one measurement takes, about")
	f.IntVar(&o.holes, "holes", 65536, "`number` of cached holes of different sizes in the workload of that name")
	f.BoolVar(&o.json, "json", false, "write one JSON object")
	if err := command.Parse(f, args); err != nil {
		return err
	}
	if f.NArg() > 0 || o.runs < 1 || o.duration <= 0 || o.holes < 1 {
		return errors.New("want -runs and -holes of at least 1, a -duration of more than 0, and no arguments")
	}
	return nil
}

// measure runs everything.
func (o options) measure() (*report, error) {
	workloads, err := allWorkloads(o.traces, o.holes)
	if err != nil {
		return nil, err
	}
	results, err := measureAll(workloads, subjects, o.runs, o.duration)
	if err != nil {
		return nil, err
	}
	return &report{Machine: thisMachine(), Runs: o.runs, Duration: o.duration.String(), Results: results}, nil
}
