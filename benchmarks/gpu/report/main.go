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
	"io"

	"github.com/cistern-ml/cistern/internal/command"
)

func main() { command.Main("report", run) }

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags.
func run(args []string, stdout, stderr io.Writer) int {
	var work func(stdout io.Writer) error
	return command.Run("report", stderr, func() (err error) {
		work, err = parse(args, stderr)
		return err
	}, func() error { return work(stdout) })
}

var errUsage = errors.New("want report collect -run FOLDER -out FOLDER, or report import and folders of results")

// parse reads the command's name and its flags, and returns what it does.
func parse(args []string, stderr io.Writer) (work func(stdout io.Writer) error, err error) {
	if len(args) == 0 {
		return nil, errUsage
	}
	switch f := command.NewFlagSet("report "+args[0], stderr); args[0] {
	case "collect":
		return collectCommand(f, args[1:])
	case "import":
		return importCommand(f, args[1:])
	}
	return nil, errUsage
}

func collectCommand(f *flag.FlagSet, args []string) (work func(stdout io.Writer) error, err error) {
	var c collection
	f.StringVar(&c.run, "run", "", "`folder` with steps.tsv, facts.txt, COMMIT, GO, logs")
	f.StringVar(&c.out, "out", "", "`folder` that gets results.json and summary.md")
	f.StringVar(&c.device, "device", "cuda:0", "what the steps ran on")
	f.StringVar(&c.command, "command", "", "how the run was started")
	f.BoolVar(&c.quick, "quick", false, "the settings were quick ones")
	if err := command.Parse(f, args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 || c.run == "" || c.out == "" {
		return nil, errUsage
	}
	return c.collect, nil
}

func importCommand(f *flag.FlagSet, args []string) (work func(stdout io.Writer) error, err error) {
	var m importer
	f.StringVar(&m.results, "results", "benchmarks/results", "`folder` that gets a folder for the GPU")
	f.StringVar(&m.tables, "tables", "benchmarks/RESULTS.md", "`file` that gets the GPU's section")
	f.BoolVar(&m.force, "force", false, "take quick and emulated runs too, to try this program")
	if err := command.Parse(f, args); err != nil {
		return nil, err
	}
	if f.NArg() == 0 {
		return nil, errUsage
	}
	return func(stdout io.Writer) error { return m.importAll(f.Args(), stdout) }, nil
}
