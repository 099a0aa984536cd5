// Package command is what the programs of this module have in common, examples and benchmarks: a main that ends devices, flags that return
// errors, and exit codes.
package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/cistern-ml/cistern/device"
)

// Main is main of a benchmark whose run returns an exit code. It ends the process's devices (device.Shutdown) before the process.
func Main(program string, run func(args []string, stdout, stderr io.Writer) int) {
	os.Exit(Code(program, run(os.Args[1:], os.Stdout, os.Stderr)))
}

// Code ends the process's devices (device.Shutdown) and returns the exit code: code, or 1 if that is 0 and they ended badly, which it
// writes to the standard error under the program's name.
func Code(program string, code int) int { return after(device.Shutdown(), os.Stderr, program, code) }

func after(err error, w io.Writer, program string, code int) int {
	if err == nil {
		return code
	}
	write(w, program, err)
	return max(code, 1)
}

// NewFlagSet is a flag set that returns errors, and writes them and its help to stderr.
func NewFlagSet(program string, stderr io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet(program, flag.ContinueOnError)
	f.SetOutput(stderr)
	return f
}

// Parse reads the flags. An error of reading has been written to the standard error with the flags' help: Run does not repeat it. Files
// of OutputVar that cannot be written are an error too.
func Parse(f *flag.FlagSet, args []string) error {
	err := f.Parse(args)
	switch {
	case err == nil:
		return checkOutputs(f)
	case errors.Is(err, flag.ErrHelp):
		return err
	}
	return written{err}
}

// written is an error that was written already.
type written struct{ error }

func (w written) Unwrap() error { return w.error }

// Exit is an error of a program's work that has written what there is to say: Run returns the code, and writes nothing. It is nil for 0.
func Exit(code int) error {
	if code == 0 {
		return nil
	}
	return written{exit(code)}
}

// exit is an error with an exit code.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }
func (e exit) ExitCode() int { return int(e) }

// Run calls work, if parse has read the flags, and returns the exit code: 2 for wrong flags, 1 for files of OutputVar that cannot be
// written, 0 after -h, and for an error of work 1 or what its method ExitCode returns, if it has one. It writes an error to stderr, as a
// line under the program's name.
func Run(program string, stderr io.Writer, parse, work func() error) int {
	switch err := parse(); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		if !errors.As(err, new(written)) {
			write(stderr, program, err)
		}
		if errors.As(err, new(unwritable)) {
			return 1 // the flags are as they should be
		}
		return 2
	}
	err := work()
	if err == nil {
		return 0
	}
	if !errors.As(err, new(written)) {
		write(stderr, program, err)
	}
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return 1
}

// write writes an error as one line: joined ones stand on several.
func write(w io.Writer, program string, err error) {
	fmt.Fprintf(w, "%s: %s\n", program, strings.ReplaceAll(err.Error(), "\n", "; "))
}
