package host

import (
	"context"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

func TestInlineWait_BlocksUntilTheOtherStreamHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New()
		s, err := d.NewStream()
		require.NoError(t, err)
		e, err := d.NewEvent()
		require.NoError(t, err)
		open := make(chan struct{})
		value := 0
		require.NoError(t, s.(device.Executor).Submit("gate", func() error { <-open; value = 1; return nil }))
		require.NoError(t, s.Record(e))
		seen := make(chan int, 1)
		go func() {
			_ = d.DefaultStream().Wait(e)
			seen <- value
		}()
		synctest.Wait()
		require.Empty(t, seen)
		close(open)
		require.Equal(t, 1, <-seen)
		require.NoError(t, d.Close())
	})
}

// Allocators take ErrClosed for the end of the stream's work. While Close waits for it, nobody may be told so.
func TestQueue_IsNotClosedBeforeItsWorkIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New()
		s, err := d.NewStream()
		require.NoError(t, err)
		open := make(chan struct{})
		require.NoError(t, s.(device.Executor).Submit("gate", func() error { <-open; return nil }))
		results := make(chan error, 3)
		go func() { results <- s.Close() }()
		synctest.Wait()
		require.ErrorIs(t, s.(device.Executor).Submit("late", nil), device.ErrClosed, "nothing more can be enqueued")
		done, err := s.Done()
		require.NoError(t, err)
		require.False(t, done)
		require.False(t, s.(device.CloseReporter).Closed())
		go func() { results <- s.Close() }()
		go func() {
			err := s.Synchronize(t.Context())
			require.ErrorIs(t, err, device.ErrClosed)
			results <- nil
		}()
		synctest.Wait()
		require.Empty(t, results)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, s.Synchronize(ctx), context.Canceled)
		close(open)
		for range 3 {
			require.NoError(t, <-results)
		}
		_, err = s.Done()
		require.ErrorIs(t, err, device.ErrClosed)
		require.NoError(t, d.Close())
	})
}

func TestQueue_HasAGoroutineOnlyWhileThereIsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it fails if a goroutine is left at the end
		d := New()
		for range 3 {
			s, err := d.NewStream()
			require.NoError(t, err)
			require.NoError(t, s.(device.Executor).Submit("nothing", func() error { return nil }))
			require.NoError(t, s.Synchronize(context.Background()))
		}
		synctest.Wait()
	})
}

func TestQueue_ForgetsWhoStoppedWaiting(t *testing.T) {
	d := New()
	defer d.Close()
	s, err := d.NewStream()
	require.NoError(t, err)
	open := make(chan struct{})
	require.NoError(t, s.(device.Executor).Submit("gate", func() error { <-open; return nil }))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, s.Synchronize(ctx), context.Canceled)
	q := s.(*queue)
	q.mu.Lock()
	require.Empty(t, q.mu.waiting)
	q.mu.Unlock()
	close(open)
}

func TestQueue_KeepsNoReferenceToFinishedWork(t *testing.T) {
	d := New()
	defer d.Close()
	s, err := d.NewStream()
	require.NoError(t, err)
	q := s.(*queue)
	for range 10 {
		require.NoError(t, q.Submit("nothing", func() error { return nil }))
	}
	require.NoError(t, q.Synchronize(context.Background()))
	idle := func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return !q.mu.serving
	}
	for !idle() { // the goroutine ends right after the last work
		runtime.Gosched()
	}
	for _, w := range append(q.mu.spare[:cap(q.mu.spare)], q.mu.pending[:cap(q.mu.pending)]...) {
		require.Nil(t, w.fn)
	}
	require.Empty(t, q.mu.waiting)
}

// TestQueues_KeepEveryOrderThatEventsMake runs random work on several streams from one goroutine and checks, when a piece of
// work runs, that all that must come before it has run: what was enqueued on its stream earlier, and what its stream waited for.
// Whoever has an event of a closed stream, as allocators keep events to record them again, has the queue too.
func TestQueue_KeepsNoRoomForWorkWhenItIsClosed(t *testing.T) {
	for _, idle := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d := New()
			s, err := d.NewStream()
			require.NoError(t, err)
			for range 1000 {
				require.NoError(t, s.(device.Executor).Submit("work", func() error { return nil }))
			}
			if idle {
				require.NoError(t, s.Synchronize(t.Context()))
				synctest.Wait()
			}
			require.NoError(t, s.Close())
			synctest.Wait()
			q := s.(*queue)
			require.Zero(t, cap(q.mu.pending)+cap(q.mu.spare))
			require.NoError(t, d.Close())
		})
	}
}

func TestQueues_KeepEveryOrderThatEventsMake(t *testing.T) {
	const steps = 3000
	random := rand.New(rand.NewPCG(1, 2))
	d := New()
	defer d.Close()
	o := newOrder(t, d, steps)
	for range steps {
		i, e := random.IntN(len(o.queues)), random.IntN(len(o.events))
		switch random.IntN(3) {
		case 0:
			require.NoError(t, o.queues[i].Record(o.events[e]))
			o.marked[e].stream, o.marked[e].at = i, o.put[i]
		case 1:
			require.NoError(t, o.queues[i].Wait(o.events[e]))
			need := &o.needs[i][o.marked[e].stream]
			*need = max(*need, o.marked[e].at)
		case 2:
			o.submit(t, i)
		}
	}
	require.NoError(t, d.Synchronize(context.Background()))
	for i := range o.queues {
		require.Len(t, o.ran[i], o.put[i])
	}
}

// order is what the test above knows about the work that it enqueued on the streams.
type order struct {
	queues [4]device.Executor
	events [3]device.Event
	marked [3]struct{ stream, at int } // what each event stands for
	put    [4]int                      // pieces of work enqueued on each stream
	needs  [4][4]int                   // for each stream, how far each other must have come
	ran    [4]chan struct{}            // holds one value for each piece of work that ran
}

func newOrder(t *testing.T, d *Device, steps int) *order {
	t.Helper()
	o := &order{}
	for i := range o.queues {
		s, err := d.NewStream()
		require.NoError(t, err)
		o.queues[i], o.ran[i] = s.(device.Executor), make(chan struct{}, steps)
	}
	for i := range o.events {
		e, err := d.NewEvent()
		require.NoError(t, err)
		o.events[i] = e
	}
	return o
}

// submit enqueues work on stream i that checks what must have run before it.
func (o *order) submit(t *testing.T, i int) {
	t.Helper()
	need := o.needs[i]
	need[i] = o.put[i]
	o.put[i]++
	require.NoError(t, o.queues[i].Submit("check", func() error {
		for other, count := range need {
			if len(o.ran[other]) < count {
				t.Errorf("work on stream %d ran when stream %d had done %d of %d", i, other, len(o.ran[other]), count)
			}
		}
		o.ran[i] <- struct{}{}
		return nil
	}))
}

func BenchmarkQueue_SubmitAndRun(b *testing.B) {
	d := New()
	defer d.Close()
	s, err := d.NewStream()
	require.NoError(b, err)
	f := func() error { return nil }
	b.ReportAllocs()
	for b.Loop() {
		_ = s.(device.Executor).Submit("nothing", f)
	}
	_ = s.Synchronize(context.Background())
}

func BenchmarkInline_RecordAndQuery(b *testing.B) {
	d := New()
	defer d.Close()
	e, err := d.NewEvent()
	require.NoError(b, err)
	s := d.DefaultStream()
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Record(e)
		_, _ = e.Done()
	}
}

func BenchmarkMalloc_AndFirstTouch64MiB(b *testing.B) {
	d := New()
	defer d.Close()
	for b.Loop() {
		p, err := d.Malloc(64 << 20)
		require.NoError(b, err)
		_ = d.DefaultStream().Fill(p, 1, 64<<20)
		_ = d.Free(p)
	}
}

// jointWork notes in what company it ran.
type jointWork struct {
	name string
	most int // how many of those that follow it takes along
	ran  *[][]string
}

func (w *jointWork) Joins(next []device.Joint) int { return min(w.most, len(next)) }

func (w *jointWork) Run(next []device.Joint) error {
	names := []string{w.name}
	for _, n := range next {
		names = append(names, n.(*jointWork).name)
	}
	*w.ran = append(*w.ran, names)
	return nil
}

func TestQueue_RunsWorkTogetherThatWaitsBehindEachOther(t *testing.T) {
	d := New()
	s, err := d.NewStream()
	require.NoError(t, err)
	q := s.(device.JointExecutor)
	begun, open := make(chan struct{}), make(chan struct{})
	require.NoError(t, q.Submit("gate", func() error { close(begun); <-open; return nil }))
	<-begun // what is put from now on is taken together
	var ran [][]string
	put := func(name string, most int) {
		require.NoError(t, q.SubmitJoint(name, &jointWork{name, most, &ran}))
	}
	put("a", 2)
	put("b", 9)
	put("c", 9)
	put("d", 9)
	put("e", 0)
	require.NoError(t, q.Submit("between", func() error { ran = append(ran, nil); return nil }))
	put("f", 2*mostJoint)
	for range 2 * mostJoint {
		put("g", 2*mostJoint)
	}
	e, err := d.NewEvent()
	require.NoError(t, err)
	require.NoError(t, q.Record(e))
	close(open)
	require.NoError(t, e.Synchronize(context.Background()))
	require.Equal(t, [][]string{{"a", "b", "c"}, {"d", "e"}, nil}, ran[:3])
	require.Len(t, ran[3], mostJoint)
	require.Len(t, ran[4], mostJoint)
	require.Len(t, ran[5], 1)
	require.Len(t, ran, 6)
	require.NoError(t, d.Close())
}
