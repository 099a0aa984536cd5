// Command mutate measures what the tests notice: it changes one line of the library at a time, as a slip of the keyboard or of thought
// would, and runs the tests that ought to fail.
//
//	mutate [-n COUNT] [-seed SEED] [-time LIMIT] [-equivalent FILE] [FOLDER...]
//
// FOLDERs are packages of the module in the current folder, without them all that tests.txt lists. COUNT mutants are drawn from them, as
// many from each as its share of the lines. SEED repeats a draw; 0 takes a new one, and prints it. At LIMIT no further mutant is begun.
//
// # Mutants
//
// Comparisons turned and moved to their boundary, conditions negated, "and" for "or", minus for plus, constants one off, true for
// false, an error that is ignored or not returned, a statement left out (a Release, a defer), two arguments of one type exchanged. What
// only changes the text of an error or of a panic is left out, as are locks, whose absence shows under the race detector only. A mutant
// that does not compile is counted and replaced by another.
//
// The checkout stays as it is: a mutant is a file elsewhere, which the go command is given as an overlay.
//
// # Results
//
// The tests of the mutant's package run first, then those that tests.txt names for it, until something fails: the mutant is killed. So it
// is by tests that take much longer than without it. What nothing noticed has survived, and its lines are printed, unless
// equivalent.txt says why no test can notice it. The last line has the percentage that was killed of those not known to be equivalent.
//
// The exit code is 0 whatever survives, also after an interrupt, and 1 if the tests fail without a mutant or nothing could be run.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, ".", os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	count      int
	seed       uint64
	limit      time.Duration
	equivalent string
	tests      string
	list       bool
	folders    []string
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	flags.IntVar(&o.count, "n", 200, "how many mutants")
	flags.Uint64Var(&o.seed, "seed", 0, "of the draw; 0 is a new one")
	flags.DurationVar(&o.limit, "time", 0, "after which no mutant is begun; 0 is none")
	flags.StringVar(&o.equivalent, "equivalent", "internal/mutate/equivalent.txt", "file of the mutants that no test can notice")
	flags.StringVar(&o.tests, "tests", "internal/mutate/tests.txt", "file of the packages and of those that test them")
	flags.BoolVar(&o.list, "l", false, "list the drawn mutants and run nothing")
	err = flags.Parse(args)
	o.folders = flags.Args()
	for o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000) // short, to be typed
	}
	return o, err
}

func run(ctx context.Context, root string, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	table, err := readTests(o.tests)
	if err != nil {
		return err
	}
	known, err := readEquivalents(o.equivalent)
	if err != nil {
		return err
	}
	if len(o.folders) == 0 {
		o.folders = table.folders
	}
	packages, err := load(ctx, root, o.folders)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "seed %d, %d mutants of %d packages\n", o.seed, o.count, len(packages))
	mutants, broken := draw(packages, o.count, rand.New(rand.NewPCG(o.seed, 0)))
	if o.list {
		for _, m := range mutants {
			fmt.Fprintln(out, m)
		}
		return nil
	}
	return judge(ctx, root, o, table, known, mutants, broken, out)
}

// judge runs the tests for each mutant and reports.
func judge(ctx context.Context, root string, o options, table tests, known equivalents, mutants []*mutant, broken int, out io.Writer) error {
	r, err := newRunner(root, table)
	if err != nil {
		return err
	}
	defer r.close()
	score := score{broken: broken}
	start := time.Now()
	for i, m := range mutants {
		if o.limit > 0 && time.Since(start) > o.limit {
			score.left = len(mutants) - i
			break
		}
		began := time.Now()
		outcome, by, err := verdict(ctx, r, known, m)
		if ctx.Err() != nil { // interrupted: what the tests said then says nothing
			score.left = len(mutants) - i
			break
		}
		if err != nil {
			return err
		}
		score.add(outcome, m)
		fmt.Fprintf(out, "%3d/%d %-10s %s (%s) %s, %.0f s\n", i+1, len(mutants), outcome, m.place(), m.kind, by, time.Since(began).Seconds())
		if outcome == survived {
			fmt.Fprint(out, m.diff())
		}
	}
	score.print(out)
	return nil
}

func verdict(ctx context.Context, r *runner, known equivalents, m *mutant) (outcome, string, error) {
	if known.have(m) {
		return equivalent, "is in the list", nil
	}
	return r.try(ctx, m)
}
