// Command load answers one question: what does a program pay before its first kernels run? The driver compiles PTX for its GPU when
// a kernel is loaded, and keeps the result in a cache of its own.
//
//	go run ./benchmarks/load -cache FOLDER [-device cuda:0] [-ptx kernels/cuda/ptx] [-parallel N] [-timeout 60s] [-json FILE]
//
// # What is measured
//
// The kernels of each module of -ptx are loaded one by one, as package kernels/cuda does with those that a program uses, in a new process for
// each module, -parallel of them at a time: first with the driver's cache in -cache, a folder that
// should be empty then, and afterwards again, from what is in it. The time is that of the calls that load a kernel, look it up and ask for its
// attributes, because drivers put work, and errors, off until then; it is without the start of the process. The start of the device
// (its context) is the time of the first copy to it. A process that loads all modules one after another follows, from the cache.
//
// The driver's compiler tells what it made of each kernel: registers of a thread, bytes of shared memory of a block, bytes of local
// memory of a thread. Local memory is a warning: registers that did not suffice.
//
// # What fails
//
// A kernel that does not load is listed, with what the compiler says of it, and the others are loaded all the same. A process that crashes, or
// takes longer than -timeout, costs the rest of its module. Each module's numbers are written to the standard error as soon as
// they are known, and -json after each of the three passes. The exit code is 1 if anything failed.
package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/internal/command"
)

func main() { command.Main("load", run) }

// options are the flags.
type options struct {
	device   string
	ptx      string
	cache    string
	parallel int
	timeout  time.Duration
	json     string
	child    bool
	files    []string // of a child

	talking sync.Mutex // held while a line is written to stderr
	stderr  io.Writer
}

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error or if anything did not load, 2 for wrong flags.
func run(args []string, stdout, stderr io.Writer) int {
	var o *options
	return command.Run("load", stderr, func() (err error) {
		o, err = parse(args, stderr)
		return err
	}, func() error {
		if o.child {
			return o.load(stdout)
		}
		return o.parent(startProcess, stdout)
	})
}

// parent measures and writes the table.
func (o *options) parent(start starter, stdout io.Writer) error {
	r, err := o.measure(start)
	if err != nil {
		return err
	}
	if err := r.write(stdout); err != nil {
		return err
	}
	if n := len(r.Failures); n > 0 {
		return fmt.Errorf("%d failures, listed above", n)
	}
	return nil
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{stderr: stderr}
	f := command.NewFlagSet("load", stderr)
	f.StringVar(&o.device, "device", "cuda:0", "where to run")
	f.StringVar(&o.ptx, "ptx", "kernels/cuda/ptx", "`folder` of *.ptx.lzma or *.ptx")
	f.StringVar(&o.cache, "cache", "", "`folder` for the driver's cache, made if it is not there")
	f.IntVar(&o.parallel, "parallel", runtime.NumCPU(), "`number` of processes at a time")
	f.DurationVar(&o.timeout, "timeout", time.Minute, "how long a process may take")
	harness.JSON(f, &o.json)
	f.BoolVar(&o.child, "child", false, "load the modules that are named, and write the figures as JSON")
	if err := command.Parse(f, args); err != nil {
		return o, err
	}
	o.files = f.Args()
	if !o.child && (o.cache == "" || len(o.files) > 0) || o.parallel < 1 || o.timeout <= 0 {
		return o, errors.New("want a -cache, -parallel of at least 1, a -timeout of more than 0, and no arguments")
	}
	return o, nil
}
