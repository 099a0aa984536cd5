package mpi

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// limit is the time limit of the groups that a fault hits: longer than what ranks of a busy machine wait for each other.
const limit = time.Second

// within is how soon all ranks end: the time limit and three seconds, as the package says, and as much again for a machine that is busy.
const within = 2 * (limit + 3*time.Second)

// faultProgram does collectives until something is wrong: on the victim, after some of them, what the arguments say.
func faultProgram(c comm.Comm, args arguments) error {
	s, err := c.Device().NewStream()
	if err != nil {
		return err
	}
	p, err := c.Device().Malloc(64 << 10)
	if err != nil {
		return err
	}
	b := comm.Buffer{Ptr: p, Count: 8000, Type: dtype.Float32}
	for i := range args.After + 1000 {
		if c.Rank() == args.Victim && i == args.After {
			err = faults[args.Fault](c, s, b)
		} else if err = c.AllReduce(s, b, b, comm.Mean); err == nil {
			err = s.Synchronize(context.Background())
		}
		if err != nil {
			break
		}
	}
	return errors.Join(err, s.Close(), c.Device().Free(p))
}

// followProgram is faultProgram for a stream that reads what the collectives of another one leave, as a program's does: it alone is waited for.
func followProgram(c comm.Comm, args arguments) error {
	side, err := c.Device().NewStream()
	if err != nil {
		return err
	}
	reader, err := c.Device().NewStream()
	if err != nil {
		return err
	}
	e, err := c.Device().NewEvent()
	if err != nil {
		return err
	}
	p, err := c.Device().Malloc(64 << 10)
	if err != nil {
		return err
	}
	b := comm.Buffer{Ptr: p, Count: 8000, Type: dtype.Float32}
	for i := range args.After + 1000 {
		if c.Rank() == args.Victim && i == args.After {
			err = faults[args.Fault](c, side, b)
		} else {
			err = errors.Join(c.AllReduce(side, b, b, comm.Mean), side.Record(e), reader.Wait(e), c.Follow(reader))
		}
		if err == nil {
			err = reader.CopyToHost(make([]byte, 8), p)
		}
		if failed := side.Synchronize(context.Background()); failed != nil && err == nil {
			err = fmt.Errorf("a number without an error: %v", failed)
		}
		if err != nil {
			break
		}
	}
	return errors.Join(err, e.Close(), side.Close(), reader.Close(), c.Device().Free(p))
}

// faults are what can happen to a rank. Those that return an error are a program's own.
var faults = map[string]func(c comm.Comm, s device.Stream, b comm.Buffer) error{
	"kill": func(comm.Comm, device.Stream, comm.Buffer) error { return syscall.Kill(os.Getpid(), syscall.SIGKILL) },
	"exit": func(comm.Comm, device.Stream, comm.Buffer) error { os.Exit(7); return nil },
	"stop": func(comm.Comm, device.Stream, comm.Buffer) error { return syscall.Kill(os.Getpid(), syscall.SIGSTOP) },
	"hang": func(c comm.Comm, _ device.Stream, _ comm.Buffer) error { // computes, until it looks at the group again
		for c.(*rank).engine.ended() == nil {
			_ = unix.Nanosleep(&unix.Timespec{Nsec: 1e7}, nil)
		}
		return c.Barrier(context.Background())
	},
	"memory": func(c comm.Comm, _ device.Stream, _ comm.Buffer) error {
		_, err := c.Device().Malloc(1 << 60)
		c.Abort(err)
		return err
	},
	"collective": func(c comm.Comm, s device.Stream, b comm.Buffer) error {
		b.Ptr++
		err := c.AllReduce(s, b, b, comm.Mean)
		c.Abort(err)
		return err
	},
	"size": func(c comm.Comm, s device.Stream, b comm.Buffer) error {
		b.Count /= 2
		return errors.Join(c.AllReduce(s, b, b, comm.Mean), s.Synchronize(context.Background()), c.Barrier(context.Background()))
	},
	"leave": func(c comm.Comm, _ device.Stream, _ comm.Buffer) error { return c.Close() },
	"other": func(c comm.Comm, s device.Stream, b comm.Buffer) error {
		return errors.Join(c.Barrier(context.Background()), errors.New("the barrier should have failed"))
	},
}

// expected are the kinds of errors on the other ranks.
var expected = map[string]string{"kill": "peer", "exit": "peer", "stop": "peer", "hang": "timeout", "memory": "aborted", "collective": "aborted",
	"other": "mismatch", "size": "mismatch", "leave": "mismatch"}

// suffer starts ranks, lets a fault happen, and checks how the others end.
func (l launcher) suffer(t *testing.T, program string, n int, args arguments, options ...string) {
	t.Helper()
	if args.Fault == "kill" && l.KillsAll {
		args.Fault = "exit" // what the launcher does is another test
	}
	args.TimeLimit = limit
	run := l.start(t, n, program, args, options...)
	run.until("the other ranks have not ended", func() bool {
		all := run.outcomes()
		delete(all, args.Victim)
		return len(all) == n-1
	})
	if args.Fault == "stop" {
		require.NoError(t, syscall.Kill(run.pids()[args.Victim], syscall.SIGKILL))
	}
	pids := run.pids()
	all, err := run.wait(patient)
	run.gone(pids)
	for rank, o := range all {
		if rank == args.Victim {
			continue
		}
		what := fmt.Sprintf("%+v: rank %d: %s\n%s", args, rank, o.Text, run.Output)
		require.Equal(t, expected[args.Fault], o.Kind, what)
		require.Equal(t, args.Victim, o.Peer, what)
		require.Equal(t, "AllReduce", o.Operation, what)
		require.Less(t, o.Seconds, within.Seconds(), what)
		require.Zero(t, o.Live, what)
	}
	if len(options) == 0 {
		require.Error(t, err, "the launcher says nothing")
	}
}

func TestFaults_NameTheRankAndTheOperation(t *testing.T) {
	withLaunchers(t, func(t *testing.T, l launcher) {
		for i, fault := range []string{"kill", "stop", "hang", "memory", "other", "exit", "collective", "size", "leave"} {
			if i >= fulltests.Or(9, 5) {
				break
			}
			t.Run(fault, func(t *testing.T) {
				t.Parallel() // most of the time they wait
				l.suffer(t, "fault", 3, arguments{Victim: 1, Fault: fault, After: 3}, l.Recover...)
			})
		}
		for _, fault := range []string{"other", "size"}[:fulltests.Or(2, 1)] {
			t.Run("checked "+fault, func(t *testing.T) {
				t.Parallel()
				l.suffer(t, "fault", 3, arguments{Victim: 1, Fault: fault, After: 3, Check: true}, l.Recover...)
			})
		}
	})
}

func TestFollow_HandsTheErrorOfALostGroupOn(t *testing.T) {
	withLaunchers(t, func(t *testing.T, l launcher) {
		for _, fault := range []string{"stop", "memory", "other"}[:fulltests.Or(3, 2)] {
			t.Run(fault, func(t *testing.T) {
				t.Parallel()
				l.suffer(t, "follow", 3, arguments{Victim: 1, Fault: fault, After: 3}, l.Recover...)
			})
		}
	})
}

// Full tests have 200 random faults: these of processes, which take most of a second of a processor each, and those of autograd/parallel's tests, of goroutines.
var moreFaults = flag.Int("faults", fulltests.Or(6, 2), "how many random faults each launcher's ranks suffer")

func TestFaults_RandomOnes(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	var names []string
	for name := range faults {
		names = append(names, name)
	}
	slices.Sort(names)
	withLaunchers(t, func(t *testing.T, l launcher) {
		for range *moreFaults {
			n := 2 + r.IntN(3)
			args := arguments{Victim: r.IntN(n), Fault: names[r.IntN(len(names))], After: r.IntN(40)}
			args.Check = args.Fault == "other" || args.Fault == "size" || r.IntN(2) == 0
			t.Run(fmt.Sprintf("%s of %d after %d", args.Fault, n, args.After), func(t *testing.T) {
				t.Parallel()
				t.Logf("seed %d: %d ranks, %+v", seed, n, args)
				l.suffer(t, "fault", n, args, l.Recover...)
			})
		}
	})
}

// Without the launcher's patience a rank that was killed takes the others with it, and the launcher says so.
func TestFaults_TheLauncherEndsAllWhenOneIsKilled(t *testing.T) {
	withLaunchers(t, func(t *testing.T, l launcher) {
		run := l.start(t, 3, "fault", arguments{TimeLimit: time.Minute, Victim: 2, Fault: "kill", After: 5})
		_, err := run.wait(patient)
		require.Error(t, err)
		require.Contains(t, run.Output.String(), "9", "the signal")
		run.gone(run.pids())
	})
}

func TestFaults_CtrlCEndsAll(t *testing.T) {
	withLaunchers(t, func(t *testing.T, l launcher) {
		run := l.start(t, 3, "fault", arguments{TimeLimit: time.Minute, Victim: 1, Fault: "hang", After: 1})
		run.until("the ranks have not started", func() bool { return len(run.pids()) == 3 })
		pids := run.pids()
		require.NoError(t, run.Command.Process.Signal(syscall.SIGINT))
		if _, err := run.wait(patient); l.Name != "MPICH" { // its launcher says 0 now and then
			require.Error(t, err)
		}
		run.gone(pids)
	})
}

// roundsProgram does as many collectives as it takes until the test has stopped a rank and let it go on, which a file says.
func roundsProgram(c comm.Comm, _ arguments) error {
	p, err := c.Device().Malloc(4096)
	if err != nil {
		return err
	}
	s, b := c.Device().DefaultStream(), comm.Buffer{Ptr: p, Count: 1, Type: dtype.Int64}
	var over [8]byte
	for over[0] == 0 {
		if _, err := os.Stat(filepath.Join(os.Getenv(folderVariable), "enough")); err == nil {
			over[0] = 1
		}
		if err := errors.Join(s.CopyToDevice(p, over[:]), c.AllReduce(s, b, b, comm.Min), s.CopyToHost(over[:], p)); err != nil {
			return err
		}
	}
	return c.Device().Free(p)
}

// A rank that stands still for less than the time limit, as in a debugger, harms nobody.
func TestFaults_ARankThatGoesOnIsNone(t *testing.T) {
	withLaunchers(t, func(t *testing.T, l launcher) {
		run := l.start(t, 3, "rounds", arguments{TimeLimit: time.Minute})
		run.until("the ranks have not started", func() bool { return len(run.pids()) == 3 })
		victim := run.pids()[1]
		for range 3 {
			require.NoError(t, syscall.Kill(victim, syscall.SIGSTOP))
			run.until("the rank does not stop", func() bool { state, _, _ := processState(victim); return state == 'T' })
			require.NoError(t, syscall.Kill(victim, syscall.SIGCONT))
		}
		require.NoError(t, os.WriteFile(filepath.Join(run.folder, "enough"), nil, 0o600))
		all, err := run.wait(patient)
		require.NoError(t, err, "%v\n%s", all, run.Output)
		require.Len(t, all, 3)
	})
}
