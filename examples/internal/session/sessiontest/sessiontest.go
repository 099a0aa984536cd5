// Package sessiontest tests what all example programs do with Ctrl-C and with files that they cannot write.
package sessiontest

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/examples/internal/session"
)

// Run is the main of a program with its surroundings as arguments.
type Run func(args []string, stdout, stderr io.Writer) int

// Interrupt runs a program that would run for very long, presses Ctrl-C when it has begun to write progress, and returns what it
// printed. It must end with the exit code for that.
func Interrupt(t *testing.T, run Run, args ...string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot send itself Ctrl-C there")
	}
	var stdout bytes.Buffer
	stderr := &presser{t: t}
	require.Equal(t, session.InterruptedCode, run(args, &stdout, stderr), "%s", &stderr.text)
	require.Contains(t, stderr.text.String(), "interrupted")
	return stdout.String()
}

// child is set in the process that InterruptTwice begins.
const child = "CISTERN_TEST_INTERRUPT_TWICE"

// InterruptTwice runs a program in a process of its own, which is stuck when it writes progress: a second Ctrl-C must end it, also one that a
// script has begun with the signal ignored.
func InterruptTwice(t *testing.T, run Run, args ...string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot send itself Ctrl-C there")
	}
	if os.Getenv(child) != "" {
		run(args, io.Discard, &stuck{t: t})
		os.Exit(3) // it does not come to that
	}
	for _, ignored := range []string{"", "trap '' INT; "} {
		c := exec.Command("sh", "-c", ignored+`exec "$0" -test.run="^$1\$"`, os.Args[0], t.Name())
		c.Env = append(os.Environ(), child+"=1")
		out, err := c.CombinedOutput()
		require.Error(t, err, "%s", out)
		require.Equal(t, session.InterruptedCode, c.ProcessState.ExitCode(), "%s: %s", ignored, out)
	}
}

// stuck presses Ctrl-C until the process ends, for a minute at most, and writes nothing.
type stuck struct{ t *testing.T }

func (s *stuck) Write([]byte) (int, error) {
	self, err := os.FindProcess(os.Getpid())
	require.NoError(s.t, err)
	for range 6000 {
		require.NoError(s.t, self.Signal(os.Interrupt))
		<-time.After(10 * time.Millisecond)
	}
	os.Exit(4)
	return 0, nil
}

// presser presses Ctrl-C when something was written to it.
type presser struct {
	t    *testing.T
	text bytes.Buffer
	once sync.Once
}

func (p *presser) Write(b []byte) (int, error) {
	p.once.Do(func() {
		self, err := os.FindProcess(os.Getpid())
		require.NoError(p.t, err)
		require.NoError(p.t, self.Signal(os.Interrupt))
	})
	return p.text.Write(b)
}

// Outputs checks that a program refuses files that it cannot write, given to each of its flags, before it does anything, and that
// finding out leaves nothing behind.
func Outputs(t *testing.T, run Run, flags []string, args ...string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "file.png")
	require.NoError(t, os.WriteFile(file, []byte("before"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder.png"), 0o700))
	for _, flag := range flags {
		for _, bad := range []string{filepath.Join(dir, "absent", "x.png"), filepath.Join(dir, "folder.png"), filepath.Join(file, "x.png")} {
			var stdout, stderr bytes.Buffer
			require.Equal(t, 1, run(append(args[:len(args):len(args)], "-"+flag, bad), &stdout, &stderr), "%s %s", flag, bad)
			require.Contains(t, stderr.String(), "-"+flag+" cannot be written")
			require.Empty(t, stdout.String())
			require.NotContains(t, stderr.String(), "%", "no progress: nothing was trained")
		}
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "before", string(text))
}
