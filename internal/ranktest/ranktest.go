// Package ranktest starts the ranks of tests as processes: the test's own binary, whose TestMain runs a rank where the environment says so, by itself or under the launchers of both MPI libraries.
package ranktest

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Launcher is a program that starts ranks.
type Launcher struct {
	Name     string
	Command  []string // with the options that it always needs; then come others, "-n", how many, and what they run
	Recover  []string // options with which it lets the other ranks live when one dies
	Packages string   // of Debian
	KillsAll bool     // when one was killed by a signal, in spite of Recover
}

// Launchers are Open MPI's and MPICH's.
func Launchers() []Launcher {
	return []Launcher{
		{"OpenMPI", []string{"mpirun.openmpi", "--oversubscribe", "--bind-to", "none"}, []string{"--enable-recovery"}, "openmpi-bin libopenmpi-dev", false},
		{"MPICH", []string{"mpiexec.hydra"}, []string{"-disable-auto-cleanup"}, "mpich libmpich-dev", true},
	}
}

// WithLaunchers runs a test for each launcher that is installed. CISTERN_TEST_MPI=require makes a missing one a failure.
func WithLaunchers(t *testing.T, f func(t *testing.T, l Launcher)) {
	for _, l := range Launchers() {
		t.Run(l.Name, func(t *testing.T) {
			if _, err := exec.LookPath(l.Command[0]); err != nil {
				Lacking(t, "%s is not installed: apt-get install %s", l.Command[0], l.Packages)
			}
			f(t, l)
		})
	}
}

// Lacking skips a test, or fails it where everything must be there.
func Lacking(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CISTERN_TEST_MPI") == "require" {
		t.Fatalf(format, args...)
	}
	t.Skipf("SKIPPED: "+format, args...)
}

// Process is a launcher that was started, or a rank without one. It is ended with the test, and with it all that it has started.
type Process struct {
	Command *exec.Cmd
	Output  *bytes.Buffer
	Ended   chan error // has its end
}

// Binary is this test's.
func Binary(t testing.TB) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return self
}

// Start starts a command with more of an environment.
func Start(t testing.TB, line []string, environment ...string) *Process {
	t.Helper()
	// Open MPI's launchers trip over each other when several make their folder at the same time. Its sockets need a short path.
	temporary, err := os.MkdirTemp("", "mpi")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(temporary) })
	p := &Process{Command: exec.Command(line[0], line[1:]...), Output: new(bytes.Buffer), Ended: make(chan error, 1)}
	p.Command.Stdout, p.Command.Stderr = p.Output, p.Output
	p.Command.Env = append(append(os.Environ(), environment...),
		"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "OMPI_MCA_btl_vader_single_copy_mechanism=none", "TMPDIR="+temporary)
	together(p.Command)
	require.NoError(t, p.Command.Start())
	go func() { p.Ended <- p.Command.Wait() }()
	t.Cleanup(p.Kill)
	return p
}

// Kill ends it, and what it has started.
func (p *Process) Kill() { kill(p.Command) }

// Wait waits for the end, and returns its error. After the limit it is killed, and late is true.
func (p *Process) Wait(limit time.Duration) (late bool, err error) {
	select {
	case err := <-p.Ended:
		return false, err
	case <-time.After(limit):
		p.Kill()
		return true, <-p.Ended
	}
}
