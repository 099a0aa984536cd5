// Command run is what run.sh starts on a machine with a GPU, from the bundle that pack.sh made: it runs tests and benchmarks as steps, each
// in processes of its own and under a limit of time, and has the results written anew after each.
//
//	run [-q] [-t SECONDS] [-n] [-out FOLDER] [STEP...]
//
// STEP is a step's name, or that of a call, which is a list of steps that fit into eight minutes: one, two, three. -h has the list.
//
// # Limits
//
// What waits for a driver may wait for ever, so no step is trusted to end. Each has time reserved for it; what steps before it did not
// need is added, up to the most that it can use. A step that is not done shortly before its limit gets SIGQUIT, at which a Go program
// writes the stacks of its goroutines, and at the limit SIGKILL. So what comes last has its time even if everything before it hangs.
// Of what a step prints, the first and the last megabytes are kept. Nothing that a step has started outlives it, where the system is Linux.
//
// # Results
//
// FOLDER gets summary.md, results.json and logs.tar.gz (by the bundle's program report) at the start and after each step: what ends the run
// early takes only what was not yet run, and the summary says what that is. What was in FOLDER is moved to FOLDER.1 and so on. A step
// that fails does not stop the next, unless the device cannot be opened at all.
//
// The exit code is 0 if every step passed or had a reason to be skipped, 1 if one failed or results could not be written, 2 for wrong
// flags, 3 if nothing failed but there was no time left for some, 130 if a signal ended the run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/cistern-ml/cistern/internal/command"
)

func main() {
	command.Main("run", func(args []string, stdout, stderr io.Writer) int {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		return run(ctx, args, stdout, stderr)
	})
}

// options are the flags.
type options struct {
	bundle string // the unpacked one
	out    string
	device string
	total  time.Duration
	since  time.Time // when the time began to run
	quick  bool
	dry    bool
	steps  []string
}

// Exit codes, beside those of command.Run.
const (
	codeFailed      = 1
	codeNotRun      = 3
	codeInterrupted = 130
)

// run is main with its surroundings as arguments. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	var p plan
	return command.Run("run", stderr, func() (err error) {
		if err = o.parse(args, stderr); err == nil {
			p, err = planFor(o.steps)
		}
		return err
	}, func() error {
		if o.dry {
			p.print(stdout, o.total)
			return nil
		}
		r, err := newRunner(ctx, o, p, stderr)
		if err != nil {
			return err
		}
		defer r.close()
		r.all(ctx)
		fmt.Fprint(stdout, r.targets())
		return command.Exit(r.end(ctx))
	})
}

// end says where the results are, and what is left to do, and returns the exit code.
func (r *runner) end(ctx context.Context) int {
	if r.unwritten != nil {
		fmt.Fprintf(r.stderr, "run: THE RESULTS ARE NOT COMPLETE: %v\n", r.unwritten)
	} else {
		fmt.Fprintln(r.stderr, "results:", r.out)
	}
	if rest := r.notRun(); len(rest) > 0 {
		fmt.Fprintf(r.stderr, "not run: %s\nto go on: run.sh -out %s-rest %s\n", strings.Join(rest, " "), r.out, strings.Join(rest, " "))
	}
	switch {
	case ctx.Err() != nil:
		return codeInterrupted
	case r.failures > 0 || r.unwritten != nil:
		return codeFailed
	case len(r.notRun()) > 0:
		return codeNotRun
	}
	return 0
}

// devices are those that steps can run on.
var devices = regexp.MustCompile(`^(cuda(:\d+)?|(host|sim)(:.+)?)$`)

// oldest is how long before its start a run can have begun: what unpacking takes. More is a clock that was set.
const oldest = 2 * time.Minute

func (o *options) parse(args []string, stderr io.Writer) error {
	f := command.NewFlagSet("run", stderr)
	f.Usage = func() { usage(f, stderr) }
	f.StringVar(&o.bundle, "bundle", ".", "`folder` of the unpacked bundle; run.sh gives it")
	f.StringVar(&o.out, "out", "", "`folder` that gets the results; by default results-STEP, of the first step or call")
	f.StringVar(&o.device, "device", "cuda:0", "what to run on; run.sh takes it from DEVICE")
	f.BoolVar(&o.quick, "q", false, "quick: few cases and steps, as for the emulated driver")
	f.BoolVar(&o.dry, "n", false, "only print the steps and their limits")
	seconds := f.Int("t", 470, "`seconds` that everything may take")
	begun := f.Int64("begun", 0, "Unix `time` at which the time began to run; run.sh gives it")
	for rest := args; ; rest = rest[1:] { // flags may stand behind steps
		if err := command.Parse(f, rest); err != nil {
			return err
		}
		if rest = f.Args(); len(rest) == 0 {
			break
		}
		o.steps = append(o.steps, rest[0])
	}
	if len(o.steps) == 0 {
		o.steps = []string{"one"}
	}
	if o.out == "" {
		o.out = "results-" + o.steps[0]
	}
	switch {
	case *seconds < 10:
		return errors.New("want -t of at least 10")
	case !devices.MatchString(o.device):
		return fmt.Errorf("%q is no device: want cuda:0, or host", o.device)
	}
	o.total, o.since = time.Duration(*seconds)*time.Second, time.Now()
	if age := time.Since(time.Unix(*begun, 0)); *begun > 0 && age > 0 && age < oldest {
		o.since = o.since.Add(-age)
	}
	return nil
}

func usage(f *flag.FlagSet, w io.Writer) {
	fmt.Fprintf(w, "usage: run.sh [-q] [-t SECONDS] [-n] [-out FOLDER] [STEP...]\n\ncalls, which are lists of steps:\n")
	for _, c := range calls {
		fmt.Fprintf(w, "  %-6s %s\n", c.name, strings.Join(c.steps, " "))
	}
	fmt.Fprintf(w, "steps:\n")
	for _, s := range steps {
		fmt.Fprintf(w, "  %-20s %s\n", s.name, s.about)
	}
	fmt.Fprintf(w, "environment: DEVICE (cuda:0), PYTHON (that has PyTorch), CUDA_CACHE_PATH (the driver's compiled kernels), CISTERN_CUBLAS_LIBRARY,\n"+
		"  and further flags of a step's program: STEP_ARGS, as GEMM_ARGS or TRAIN_SMALL_ARGS; TEST_ARGS of tests and sanitizers\nflags:\n")
	f.PrintDefaults()
}
