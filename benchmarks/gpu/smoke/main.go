// Command smoke answers one question in some seconds: does this GPU do anything at all that the library asks of it, and what is the first
// thing that it does not do?
//
//	go run ./benchmarks/gpu/smoke [-device cuda:0] [-limit 10s] [-only REGEXP] [-json FILE]
//
// Each check is one kind of work: opening the device, its context, a copy, an element-wise kernel, a product by tensor cores and one by
// cuBLAS, a captured graph, an index out of range, a request for more memory than there is. A line for each is written as soon as it
// ends. A check that fails does not stop the others, unless the device is lost. One that takes longer than -limit ends the program, with
// the stacks of all goroutines: what the driver does not return from cannot be taken back.
//
// The exit code is 0 if all checks passed or had a reason to be skipped, 1 if one failed, 2 for wrong flags, and 3 if one hung.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/command"
)

func main() {
	code := run(os.Args[1:], os.Stdout, os.Stderr)
	if code != codeHung { // the end would hang as well
		code = command.Code("smoke", code)
	}
	os.Exit(code)
}

const codeHung = 3

// options are the flags.
type options struct {
	device string
	limit  time.Duration
	json   string

	checks []check
	open   func(name string) (device.Device, error)
	shut   func(device.Device) error
}

// run is main with its surroundings as arguments. It returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	o := options{open: device.Open, shut: shut}
	return command.Run("smoke", stderr, func() error { return o.parse(args, stderr) }, func() error {
		r := &report{}
		code := o.check(r, stdout, stderr)
		if err := harness.WriteJSON(o.json, r); err != nil {
			return err
		}
		return command.Exit(code)
	})
}

func (o *options) parse(args []string, stderr io.Writer) error {
	f := command.NewFlagSet("smoke", stderr)
	f.StringVar(&o.device, "device", "cuda:0", "where to run")
	f.DurationVar(&o.limit, "limit", 10*time.Second, "what one check may take")
	only := f.String("only", "", "regular `expression` of the checks to make; \"open\" is always made")
	harness.JSON(f, &o.json)
	if err := command.Parse(f, args); err != nil {
		return err
	}
	if f.NArg() > 0 || o.limit <= 0 {
		return errors.New("want a -limit of more than 0, and no arguments")
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	o.checks = slices.DeleteFunc(slices.Clone(checks), func(c check) bool { return c.name != "open" && !wanted.MatchString(c.name) })
	return nil
}

// What a check may end with.
const (
	passed  = "ok"
	failed  = "FAILED"
	skipped = "skipped"
	hung    = "HUNG"
)

// report is what is written to -json.
type report struct {
	Device string    `json:"device"`
	Checks []outcome `json:"checks"`
}

// outcome is that of a check.
type outcome struct {
	Name   string  `json:"name"`
	Result string  `json:"result"`
	Ms     float64 `json:"ms"`
	Says   string  `json:"says"`
}

// check makes all checks and writes a line for each. stdout is not buffered: what was written is there even if the process is killed.
func (o *options) check(r *report, stdout, stderr io.Writer) (code int) {
	s := &smoke{device: o.device, opener: o.open}
	for _, c := range o.checks {
		x := o.one(s, c)
		r.Device = s.name
		r.add(stdout, x)
		switch x.Result {
		case hung:
			fmt.Fprintf(stderr, "smoke: %q did not end within %v; all goroutines:\n", c.name, o.limit)
			_ = pprof.Lookup("goroutine").WriteTo(stderr, 2) // nobody is left to tell of an error
			return codeHung                                  // and nothing is given back: that would hang as well
		case failed:
			code = 1
		}
		if err := s.lost(); err != nil {
			fmt.Fprintf(stdout, "the checks end here: %v\n", err)
			code = 1
			break
		}
	}
	if s.dev != nil {
		x := outcome{Name: "close", Result: passed}
		if err := o.shut(s.dev); err != nil {
			x.Result, x.Says = failed, err.Error()
			code = 1
		}
		r.add(stdout, x)
	}
	return code
}

// add notes how a check ended.
func (r *report) add(stdout io.Writer, x outcome) {
	r.Checks = append(r.Checks, x)
	fmt.Fprintf(stdout, "%-7s  %-20s %9.1f ms  %s\n", x.Result, x.Name, x.Ms, x.Says)
}

// one makes a check, in a goroutine that is left alone if it hangs.
func (o *options) one(s *smoke, c check) outcome {
	type answer struct {
		says string
		err  error
	}
	answers := make(chan answer, 1)
	begin := time.Now()
	go func() {
		says, err := c.run(s)
		answers <- answer{says, err}
	}()
	x := outcome{Name: c.name}
	select {
	case a := <-answers:
		x.Says, x.Result = a.says, passed
		var reason *skip
		switch {
		case errors.As(a.err, &reason):
			x.Says, x.Result = reason.why, skipped
		case a.err != nil:
			x.Says, x.Result = a.err.Error(), failed
		}
	case <-time.After(o.limit):
		x.Result = hung
	}
	x.Ms = 1e3 * time.Since(begin).Seconds()
	return x
}
