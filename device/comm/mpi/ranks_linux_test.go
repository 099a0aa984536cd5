package mpi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/internal/ranktest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The ranks of these tests are this test binary, started by a launcher: TestMain runs the program that the environment names instead of
// the tests.
const (
	programVariable   = "CISTERN_MPI_TEST_PROGRAM"
	folderVariable    = "CISTERN_MPI_TEST_FOLDER"
	argumentsVariable = "CISTERN_MPI_TEST_ARGUMENTS"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(programVariable); name != "" {
		os.Exit(rankMain(name))
	}
	os.Exit(m.Run())
}

// outcome is how a rank has ended, in a file of the test's folder.
type outcome struct {
	Text               string // of the error, "" without
	Kind               string // its sentinel
	Operation, Backend string
	Rank, Peer         int
	Live               int     // allocations left on the device
	Seconds            float64 // from the beginning of the program, after Open
}

var sentinels = map[string]error{"aborted": comm.ErrAborted, "timeout": comm.ErrTimeout, "mismatch": comm.ErrMismatch, "peer": comm.ErrPeer,
	"library": comm.ErrLibrary, "unavailable": comm.ErrUnavailable}

// arguments are what the test tells the program.
type arguments struct {
	TimeLimit time.Duration
	Check     bool
	Victim    int    // the rank of a fault
	Fault     string // what happens to it
	After     int    // how many collectives come before it
	Pieces    int    // if not 0, bytes of messages and of scratch memory
	Counts    []int  // for commtest.Check
	Driver    string // the file of a driver without a GPU, whose device the rank uses
}

// rankMain is one rank: it opens the group, runs the program, and writes the outcome.
func rankMain(name string) int {
	var args arguments
	if err := json.Unmarshal([]byte(os.Getenv(argumentsVariable)), &args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	if args.Pieces > 0 {
		messageBytes, scratchBytes = args.Pieces, args.Pieces
	}
	d, err := testDevice(args.Driver)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	if args.Fault == "late" {
		if leastOpening = limit; launchedAs(args.Victim) {
			lateToOpen()
		}
	}
	options := Options{TimeLimit: args.TimeLimit, Check: args.Check}
	if launchedAs(args.Victim) {
		switch args.Fault {
		case "check":
			options.Check = true
		case "limit":
			options.TimeLimit *= 2
		}
	}
	c, err := Open(d, options)
	if err != nil {
		record(outcome{Rank: -1, Peer: -1, Text: err.Error()}, err)
		return 4
	}
	pid := filepath.Join(os.Getenv(folderVariable), fmt.Sprintf("pid%d", c.Rank()))
	if err := os.WriteFile(pid, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return 6
	}
	began := time.Now()
	err = programs[name](c, args)
	o := outcome{Rank: c.Rank(), Peer: -1, Seconds: time.Since(began).Seconds()}
	if d, ok := d.(*host.Device); ok {
		o.Live, _ = d.Live()
	}
	record(o, err)
	if closeErr := errors.Join(c.Close(), d.Close()); closeErr != nil && err == nil {
		record(o, closeErr)
		return 5
	}
	if err != nil {
		return 1
	}
	return 0
}

// lateToOpen waits until the test says that it has seen what it wants.
func lateToOpen() {
	for {
		if _, err := os.Stat(filepath.Join(os.Getenv(folderVariable), mayCome)); err == nil {
			return
		}
		_ = unix.Nanosleep(&unix.Timespec{Nsec: 1e7}, nil)
	}
}

// launchedAs reports whether the launcher has started this process as a rank.
func launchedAs(rank int) bool {
	return os.Getenv("OMPI_COMM_WORLD_RANK") == strconv.Itoa(rank) || os.Getenv("PMI_RANK") == strconv.Itoa(rank)
}

// testDevice is the device of a rank.
func testDevice(driver string) (device.Device, error) {
	if driver == "" {
		return host.New(), nil
	}
	all, err := cuda.OpenLibrary(driver)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// record writes the outcome.
func record(o outcome, err error) {
	if err != nil {
		o.Text = err.Error()
		for kind, sentinel := range sentinels {
			if errors.Is(err, sentinel) {
				o.Kind = kind
			}
		}
		var e *comm.Error
		if errors.As(err, &e) {
			o.Operation, o.Peer, o.Backend = e.Operation, e.Peer, e.Backend
		}
	}
	b, _ := json.Marshal(o)
	name := filepath.Join(os.Getenv(folderVariable), fmt.Sprintf("rank%d.pid%d", o.Rank, os.Getpid()))
	if err := os.WriteFile(name+".tmp", b, 0o600); err == nil {
		_ = os.Rename(name+".tmp", name+".json")
	}
}

// launcher is a program that starts ranks.
type launcher struct{ ranktest.Launcher }

// withLaunchers runs a test for each launcher that is installed.
func withLaunchers(t *testing.T, f func(t *testing.T, l launcher)) {
	ranktest.WithLaunchers(t, func(t *testing.T, l ranktest.Launcher) { f(t, launcher{l}) })
}

// launched is a group of ranks that was started.
type launched struct {
	*ranktest.Process
	t      *testing.T
	folder string
}

// start starts n ranks of a program.
func (l launcher) start(t *testing.T, n int, program string, args arguments, options ...string) *launched {
	line := append(append([]string{}, l.Command...), options...)
	return startLine(t, append(line, "-n", strconv.Itoa(n), ranktest.Binary(t)), program, args)
}

// startLine starts a command that runs ranks of a program.
func startLine(t *testing.T, line []string, program string, args arguments) *launched {
	arguments, err := json.Marshal(args)
	require.NoError(t, err)
	folder := t.TempDir()
	return &launched{ranktest.Start(t, line, programVariable+"="+program, folderVariable+"="+folder, argumentsVariable+"="+string(arguments)), t, folder}
}

// wait waits for the launcher and returns the outcomes by rank and its error.
func (r *launched) wait(limit time.Duration) (map[int]outcome, error) {
	r.t.Helper()
	late, err := r.Wait(limit)
	if late {
		r.t.Fatalf("the ranks have not ended within %v; %v; output:\n%s", limit, r.outcomes(), r.Output)
	}
	return r.outcomes(), err
}

func (r *launched) outcomes() map[int]outcome {
	files, err := filepath.Glob(filepath.Join(r.folder, "*.json"))
	require.NoError(r.t, err)
	all := make(map[int]outcome)
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(r.t, err)
		var o outcome
		require.NoError(r.t, json.Unmarshal(b, &o), file)
		all[o.Rank] = o
	}
	return all
}

// pids are the processes of the ranks that have opened the group.
func (r *launched) pids() map[int]int {
	files, err := filepath.Glob(filepath.Join(r.folder, "pid*"))
	require.NoError(r.t, err)
	all := make(map[int]int)
	for _, file := range files {
		rank, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(file), "pid"))
		require.NoError(r.t, err)
		if b, err := os.ReadFile(file); err == nil && len(b) > 0 {
			all[rank], err = strconv.Atoi(string(b))
			require.NoError(r.t, err)
		}
	}
	return all
}

// until waits until a condition holds, and fails when it does not though the launcher has ended.
func (r *launched) until(what string, condition func() bool) {
	r.t.Helper()
	var ended bool
	require.Eventually(r.t, func() bool {
		if condition() || ended {
			return true
		}
		ended = len(r.Ended) > 0 // and once more, for what came before the end
		return false
	}, patient, 10*time.Millisecond, "%s; %v", what, r.outcomes())
	require.True(r.t, condition(), "%s, and the launcher has ended; %v\n%s", what, r.outcomes(), r.Output)
}

// gone waits until the processes of the ranks have ended.
func (r *launched) gone(pids map[int]int) {
	r.t.Helper()
	for rank, pid := range pids {
		r.until(fmt.Sprintf("rank %d lives", rank), func() bool {
			state, _, ok := processState(pid)
			return !ok || state == 'Z'
		})
	}
}

// patient is how long a test waits for what should take seconds, on a machine that may be busy.
const patient = 60 * time.Second

// succeed runs a program on n ranks, none of which may fail.
func (l launcher) succeed(t *testing.T, n int, program string, args arguments) {
	t.Helper()
	run := l.start(t, n, program, args)
	all, err := run.wait(patient)
	require.NoError(t, err, "%v\n%s", all, run.Output)
	require.Len(t, all, n, run.Output.String())
	for rank, o := range all {
		require.Empty(t, o.Text, "rank %d", rank)
		require.Zero(t, o.Live, "rank %d", rank)
	}
}

// place checks that the launcher has made the group that it was asked for.
func placeProgram(c comm.Comm, _ arguments) error {
	for _, variable := range []string{"OMPI_COMM_WORLD_RANK", "PMI_RANK"} {
		if text := os.Getenv(variable); text != "" && text != strconv.Itoa(c.Rank()) {
			return fmt.Errorf("rank %d, and %s is %s", c.Rank(), variable, text)
		}
	}
	if c.Backend() != "mpi" {
		return errors.New(c.Backend())
	}
	return c.Barrier(context.Background())
}

func TestOpen_IsTheLaunchersGroup(t *testing.T) {
	withLaunchers(t, func(t *testing.T, l launcher) { l.succeed(t, 3, "place", arguments{}) })
}
