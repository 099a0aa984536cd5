package session

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// child is set in the process that presses Ctrl-C.
const child = "CISTERN_TEST_INTERRUPT"

// A second Ctrl-C ends the process, also one that a script has begun with the signal ignored.
func TestInterrupted_TwiceEndsTheProcessAtOnce(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot send itself Ctrl-C there")
	}
	if os.Getenv(child) != "" {
		pressTwice(t)
	}
	for _, command := range [][]string{{"exec"}, {"trap '' INT; exec"}} {
		c := exec.Command("sh", "-c", command[0]+` "$0" -test.run='^TestInterrupted_TwiceEndsTheProcessAtOnce$'`, os.Args[0])
		c.Env = append(os.Environ(), child+"=1")
		out, err := c.CombinedOutput()
		require.Error(t, err, "%s", out)
		require.Equal(t, InterruptedCode, c.ProcessState.ExitCode(), "%s: %s", command, out)
	}
}

func pressTwice(t *testing.T) {
	s, err := Open("sim:64MiB", 1)
	require.NoError(t, err)
	require.NoError(t, s.Interruption())
	self, err := os.FindProcess(os.Getpid())
	require.NoError(t, err)
	require.NoError(t, self.Signal(os.Interrupt))
	<-s.Interrupt().Done()
	require.ErrorIs(t, s.Interruption(), ErrInterrupted)
	require.NoError(t, self.Signal(os.Interrupt))
	<-time.After(time.Minute) // it does not come to that
	os.Exit(3)
}
