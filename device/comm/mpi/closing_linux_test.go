package mpi

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/dtype"
)

// endsProgram goes through what can be done at the end of a group that is whole.
func endsProgram(c comm.Comm, _ arguments) error {
	if _, err := Open(c.Device(), Options{}); !errors.Is(err, comm.ErrUnavailable) {
		return fmt.Errorf("MPI opens twice: %w", err)
	}
	// A barrier that its context cuts short has been called: the others do not miss it.
	ctx, cancel := context.WithCancel(context.Background())
	if c.Rank() == 1 {
		cancel()
	}
	err := c.Barrier(ctx)
	cancel()
	if err != nil && !(c.Rank() == 1 && errors.Is(err, context.Canceled)) {
		return err
	}
	if err := c.Barrier(context.Background()); err != nil {
		return err
	}
	var all sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		all.Go(func() { errs[i] = c.Close() })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := c.Barrier(context.Background()); !errors.Is(err, device.ErrClosed) {
		return fmt.Errorf("a barrier after Close: %w", err)
	}
	if err := c.Follow(c.Device().DefaultStream()); !errors.Is(err, device.ErrClosed) {
		return fmt.Errorf("Follow after Close: %w", err)
	}
	c.Abort(errors.New("too late to matter"))
	return nil
}

// abortedProgram lets one rank abort while the others compute, and goes on using the group.
func abortedProgram(c comm.Comm, args arguments) error {
	// Or a rank may still be in Open. The others may learn of the abort before they see that all have come.
	if err := c.Barrier(context.Background()); err != nil && (c.Rank() == args.Victim || !errors.Is(err, comm.ErrAborted)) {
		return err
	}
	cause := errors.New("the loss is NaN")
	if c.Rank() == args.Victim {
		var all sync.WaitGroup
		for range 3 { // at once: the first counts
			all.Go(func() { c.Abort(cause) })
		}
		all.Wait()
	}
	for c.(*rank).engine.ended() == nil { // computes
		doze()
	}
	p, err := c.Device().Malloc(4096)
	if err != nil {
		return err
	}
	b := comm.Buffer{Ptr: p, Count: 16, Type: dtype.Float32}
	for range 3 {
		err = c.AllReduce(c.Device().DefaultStream(), b, b, comm.Sum)
		if !errors.Is(err, comm.ErrAborted) || errors.Is(err, cause) != (c.Rank() == args.Victim) {
			return fmt.Errorf("after Abort: %w", err)
		}
		var e *comm.Error
		if !errors.As(err, &e) || e.Peer != args.Victim || e.Rank != c.Rank() {
			return fmt.Errorf("after Abort: %+v", e)
		}
	}
	if n := c.Stats().AllReduce.Calls; n != 0 {
		return fmt.Errorf("%d calls that failed are counted", n)
	}
	return c.Device().Free(p)
}

// lateProgram brings one rank to Close when the others have given it up. It is told; they know, and are not told again.
func lateProgram(c comm.Comm, args arguments) error {
	var err error
	if c.Rank() == args.Victim {
		for c.(*rank).engine.ended() == nil {
			doze()
		}
	} else if err = c.Barrier(context.Background()); !errors.Is(err, comm.ErrTimeout) {
		return fmt.Errorf("the barrier: %w", err)
	}
	err = c.Close()
	var e *comm.Error
	switch told := errors.As(err, &e); {
	case c.Rank() != args.Victim && err != nil:
		return fmt.Errorf("told again: %w", err)
	case c.Rank() == args.Victim && (!told || !errors.Is(err, comm.ErrTimeout) || e.Operation != "Close" || e.Peer != args.Victim):
		return fmt.Errorf("not told: %v", err)
	}
	return nil
}

func TestClose_TellsARankThatTheOthersHaveGivenUp(t *testing.T) {
	withLaunchers(t, func(t *testing.T, l launcher) {
		run := l.start(t, 3, "late", arguments{TimeLimit: limit, Victim: 1}, l.Recover...)
		all, err := run.wait(patient)
		for rank := range 3 {
			o, there := all[rank]
			fine := o.Text == "" && rank != 1 || o.Kind == "timeout" && o.Operation == "Close" && o.Peer == 1 && rank == 1 // of the second Close
			if !there || !fine {
				t.Fatalf("rank %d: %+v of %v, %v\n%s", rank, o, all, err, run.Output)
			}
		}
	})
}

func TestClose_IsSaidAndHarmlessTwice(t *testing.T) {
	withLaunchers(t, func(t *testing.T, l launcher) { l.succeed(t, 2, "ends", arguments{TimeLimit: time.Minute}) })
}

// Ranks that are in no collective learn of it as well. Open MPI's launcher counts it as a failure that the ranks have not ended MPI.
func TestAbort_ReachesRanksThatCompute(t *testing.T) {
	withLaunchers(t, func(t *testing.T, l launcher) {
		run := l.start(t, 3, "aborted", arguments{TimeLimit: time.Minute, Victim: 2}, l.Recover...)
		all, err := run.wait(patient)
		for rank := range 3 {
			o, there := all[rank]
			if !there || o.Text != "" || o.Live != 0 {
				t.Fatalf("rank %d: %+v of %v, %v\n%s", rank, o, all, err, run.Output)
			}
		}
	})
}
