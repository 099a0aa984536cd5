// Package exit is the end of a benchmark.
package exit

import (
	"fmt"
	"io"
	"os"

	"github.com/cistern-ml/cistern/device"
)

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
