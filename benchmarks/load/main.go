// Command load answers one question: what does a program pay before its first kernels run? The driver compiles PTX for its GPU when
// a kernel is loaded, and keeps the result in a cache of its own.
//
//	go run ./benchmarks/load -cache FOLDER [-device cuda:0] [-ptx kernels/cuda/ptx] [-parallel N] [-json FILE]
//
// # What is measured
//
// The kernels of each module of -ptx are loaded one by one, as package kernels/cuda does with those that a program uses, in a new process for
// each module, -parallel of them at a time: first with the driver's cache in -cache, a folder that
// should be empty then, and afterwards again, from what is in it. The time is that of the calls that load, without the start of the
// process; the start of the device (its context) is the time of the first copy to it. A process that loads all modules one after
// another follows, from the cache.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// options are the flags.
type options struct {
	device   string
	ptx      string
	cache    string
	parallel int
	json     string
	child    bool
	files    []string // of a child
}

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags.
func run(args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "load:", err)
		return 2
	}
	if o.child {
		err = o.load(stdout)
	} else {
		var r *report
		if r, err = o.measure(startProcess); err == nil {
			err = r.write(stdout, o.json)
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "load:", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	f := flag.NewFlagSet("load", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.device, "device", "cuda:0", "where to run")
	f.StringVar(&o.ptx, "ptx", "kernels/cuda/ptx", "`folder` of *.ptx.gz")
	f.StringVar(&o.cache, "cache", "", "`folder` for the driver's cache, made if it is not there")
	f.IntVar(&o.parallel, "parallel", runtime.NumCPU(), "`number` of processes at a time")
	f.StringVar(&o.json, "json", "", "`file` that gets all figures")
	f.BoolVar(&o.child, "child", false, "load the modules that are named, and write the figures as JSON")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.files = f.Args()
	if !o.child && (o.cache == "" || len(o.files) > 0) || o.child && len(o.files) == 0 || o.parallel < 1 {
		return o, errors.New("want a -cache, -parallel of at least 1, and no arguments")
	}
	return o, nil
}
