// Command report puts together what a run of benchmarks/gpu/run.sh found.
//
//	report collect -run FOLDER -out FOLDER     on the machine with the GPU, after each step: results.json and summary.md
//	go run ./benchmarks/gpu/report import RESULTS...
//
// The second is for the machine with the repository: it takes one or more folders that run.sh made on the same GPU, writes the numbers
// to benchmarks/results/GPU/NAME-DATE.json, and the GPU's section of benchmarks/RESULTS.md, which it replaces or adds. Numbers of quick
// runs and of emulated drivers are refused.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags.
func run(args []string, stdout, stderr io.Writer) int {
	err := errUsage
	if len(args) > 0 {
		switch args[0] {
		case "collect":
			err = collectCommand(args[1:], stdout, stderr)
		case "import":
			err = importCommand(args[1:], stdout, stderr)
		}
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprintln(stderr, "report:", err)
		return 2
	case err != nil:
		fmt.Fprintln(stderr, "report:", err)
		return 1
	}
	return 0
}

var errUsage = errors.New("want report collect -run FOLDER -out FOLDER, or report import and folders of results")

func collectCommand(args []string, stdout, stderr io.Writer) error {
	var c collection
	f := flag.NewFlagSet("collect", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&c.run, "run", "", "`folder` with steps.tsv, facts.txt, COMMIT, GO, logs")
	f.StringVar(&c.out, "out", "", "`folder` that gets results.json and summary.md")
	f.StringVar(&c.device, "device", "cuda:0", "what the steps ran on")
	f.StringVar(&c.command, "command", "", "how the run was started")
	f.BoolVar(&c.quick, "quick", false, "the settings were quick ones")
	if err := f.Parse(args); err != nil {
		return usage(err)
	}
	if f.NArg() > 0 || c.run == "" || c.out == "" {
		return errUsage
	}
	return c.collect(stdout)
}

func importCommand(args []string, stdout, stderr io.Writer) error {
	var m importer
	f := flag.NewFlagSet("import", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&m.results, "results", "benchmarks/results", "`folder` that gets a folder for the GPU")
	f.StringVar(&m.tables, "tables", "benchmarks/RESULTS.md", "`file` that gets the GPU's section")
	f.BoolVar(&m.force, "force", false, "take quick and emulated runs too, to try this program")
	if err := f.Parse(args); err != nil {
		return usage(err)
	}
	if f.NArg() == 0 {
		return errUsage
	}
	return m.importAll(f.Args(), stdout)
}

func usage(err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	return errors.Join(errUsage, err)
}
