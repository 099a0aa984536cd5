package harness

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

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
	fmt.Fprintf(w, "%s: %v\n", program, err)
	return max(code, 1)
}

// Run calls work, if parse has read the flags, and returns the exit code: 1 for an error of work, 2 for wrong flags, and 0 after -h. It
// writes errors to stderr, under the program's name.
func Run(program string, stderr io.Writer, parse, work func() error) int {
	switch err := parse(); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		if !errors.As(err, new(written)) {
			fmt.Fprintf(stderr, "%s: %v\n", program, err)
		}
		return 2
	}
	if err := work(); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", program, err)
		return 1
	}
	return 0
}
