package parallel_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/comm/commtest"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/tensor"
)

// Random faults of trainings in one process, where one takes milliseconds: with those of processes, in package mpi's tests, they are 200 in full tests.
const (
	randomFaults    = 188
	fewRandomFaults = 16
	faultsAtOnce    = 16               // those that are waited for take no processor
	faultLimit      = 4 * time.Second  // of the groups that find a fault by it, longer than what ranks of a busy machine wait for each other
	otherLimit      = 30 * time.Second // of the others
	faultSlack      = 20 * time.Second // on top, until all have ended
)

// randomFault is what happens to one rank of a training.
type randomFault struct {
	kind          string
	stage, ranks  int
	victim        int
	limit         time.Duration
	at            int64 // of the victim's calls, from 1: collectives, or allocations
	all           []*rank
	training      training
	calls         *nth
	errs          []error
	took          []time.Duration
	survivorsDone chan struct{}
}

func (f *randomFault) String() string {
	return fmt.Sprintf("%s of rank %d of %d with ZeRO %d, call %d", f.kind, f.victim, f.ranks, f.stage, f.at)
}

// ways are what the others must find.
var ways = map[string]error{"kill": comm.ErrPeer, "stop": comm.ErrTimeout, "allocation": comm.ErrAborted, "collective": comm.ErrAborted}

// mortal is the Comm of a rank that is killed, or stopped, at one of its collectives: from then on nothing comes from it.
type mortal struct {
	comm.Comm
	calls *nth
	dead  atomic.Bool
	die   func()
}

func newMortal(c comm.Comm, calls *nth, die func()) comm.Comm {
	m := &mortal{calls: calls, die: die}
	m.Comm = commtest.Hooked{Comm: c, Before: m.lives}
	return m
}

func (m *mortal) lives(device.Stream, comm.Call) error {
	if !m.dead.Load() && m.calls.call() != nil {
		m.dead.Store(true)
		m.die()
	}
	if m.dead.Load() {
		return errInjected
	}
	return nil
}

func (m *mortal) Abort(cause error) {
	if !m.dead.Load() {
		m.Comm.Abort(cause)
	}
}

// prepare makes the ranks and what will happen.
func (f *randomFault) prepare(t *testing.T) {
	t.Helper()
	f.limit = otherLimit
	if f.kind == "stop" {
		f.limit = faultLimit
	}
	f.all, f.training, f.calls = ranksWithin(t, f.limit, f.ranks), small(f.stage), &nth{at: f.at}
	f.training.batch = 24 // two rows at least for each part of each rank
	f.training.defaults()
	f.errs, f.took, f.survivorsDone = make([]error, f.ranks), make([]time.Duration, f.ranks), make(chan struct{})
	r := f.all[f.victim]
	switch c := r.comm; f.kind {
	case "kill":
		r.comm = newMortal(c, f.calls, func() { _ = c.Close() })
	case "stop":
		r.comm = newMortal(c, f.calls, func() { <-f.survivorsDone })
	case "collective":
		r.comm = broken(c, f.calls)
	case "allocation":
		e, err := tensor.On(r.dev, tensor.WithAllocator(poor{r.alloc, f.calls}))
		require.NoError(t, err)
		r.exec, r.alloc = e, poor{r.alloc, f.calls}
	}
}

// run trains until all have ended.
func (f *randomFault) run() {
	began := time.Now()
	var survivors, victim sync.WaitGroup
	for i, r := range f.all {
		group := &survivors
		if i == f.victim {
			group = &victim
		}
		group.Go(func() {
			_, f.errs[i] = f.training.run(r)
			if f.errs[i] != nil {
				r.comm.Abort(f.errs[i])
			}
			f.took[i] = time.Since(began)
		})
	}
	survivors.Wait()
	close(f.survivorsDone)
	victim.Wait()
}

// check is what is wrong with the end of the ranks.
func (f *randomFault) check(t *testing.T) {
	t.Helper()
	if f.calls.calls.Load() < f.at { // it has never come so far
		require.NoError(t, errors.Join(f.errs...), "%v", f)
		return
	}
	require.ErrorIs(t, f.errs[f.victim], errInjected, "%v", f)
	for i, r := range f.all {
		require.NoError(t, r.dev.Synchronize(t.Context()), "%v", f)
		require.Zero(t, r.alloc.Stats().AllocatedBytes.All.Current, "%v: rank %d", f, i)
		require.Zero(t, r.alloc.Stats().NumDeferredFrees, "%v: rank %d", f, i)
		err := f.errs[i]
		if i == f.victim || err == nil && f.kind == "allocation" { // one that fails when the others have all they need harms nobody
			continue
		}
		var of *comm.Error
		require.ErrorAs(t, err, &of, "%v: rank %d", f, i)
		require.ErrorIs(t, err, ways[f.kind], "%v: rank %d", f, i)
		require.Equal(t, f.victim, of.Peer, "%v: rank %d: %v", f, i, err)
		require.NotEmpty(t, of.Operation, "%v: rank %d: %v", f, i, err)
		require.Less(t, f.took[i], faultLimit+faultSlack, "%v: rank %d", f, i)
	}
}

// callsOf counts what a rank does in a training that is not disturbed.
func callsOf(t *testing.T, kind string, stage, n int) int64 {
	t.Helper()
	f := &randomFault{kind: kind, stage: stage, ranks: n, at: 1 << 40}
	f.prepare(t)
	f.run()
	require.NoError(t, errors.Join(f.errs...))
	return f.calls.calls.Load()
}

func TestFaults_RandomOnes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	type counted struct {
		allocations bool
		stage, n    int
	}
	known := map[counted]int64{}
	var wg sync.WaitGroup
	slots := make(chan struct{}, faultsAtOnce)
	var all []*randomFault
	for i := range fulltests.Or(randomFaults, fewRandomFaults) {
		f := &randomFault{kind: []string{"kill", "stop", "allocation", "collective"}[i%4], stage: r.IntN(4), ranks: 2 + r.IntN(3)}
		f.victim = r.IntN(f.ranks)
		of := counted{f.kind == "allocation", f.stage, f.ranks}
		if known[of] == 0 {
			known[of] = callsOf(t, f.kind, f.stage, f.ranks)
		}
		f.at = 1 + r.Int64N(known[of])
		f.prepare(t)
		all = append(all, f)
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f.run()
		})
	}
	wg.Wait()
	for _, f := range all {
		f.check(t)
	}
}
