package eventqueue

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

// rig has queues of numbers, and streams that come as far as the test says.
type rig struct {
	t   *testing.T
	dev *sim.Device
	qs  Queues[int]
	err error // of making events
}

func newRig(t *testing.T, order Order) *rig {
	r := &rig{t: t, dev: sim.New(1<<20, sim.ManualStreams())}
	r.qs = New[int](order, func(s device.Stream) (device.Event, error) {
		if r.err != nil {
			return nil, r.err
		}
		return s.Device().NewEvent()
	})
	t.Cleanup(func() {
		for _, err := range r.qs.Close() {
			require.NoError(t, err)
		}
		require.Zero(t, r.qs.Len())
		require.Zero(t, r.dev.Live().Events, "all events are given back")
	})
	return r
}

func (r *rig) stream(id int) device.Stream { return r.dev.Stream(device.StreamID(id)) }

// add adds blocks for a stream.
func (r *rig) add(id int, blocks ...int) {
	for _, b := range blocks {
		r.qs.Add(r.stream(id), b)
		require.Empty(r.t, r.qs.Flaw())
	}
}

// poll completes the streams and returns what arrives.
func (r *rig) poll(complete ...int) (arrived []int) {
	for _, id := range complete {
		r.dev.Complete(device.StreamID(id))
	}
	r.qs.Poll(func(b int) { arrived = append(arrived, b) })
	require.Empty(r.t, r.qs.Flaw())
	return arrived
}

func TestPoll_ByStreamEmptiesTheHighestStreamFirst(t *testing.T) {
	r := newRig(t, ByStream)
	r.add(1, 10)
	r.add(3, 30)
	r.add(2, 20)
	r.add(1, 11)
	r.add(3, 31)
	require.Empty(t, r.poll())
	require.Equal(t, []int{30, 31, 20, 10, 11}, r.poll(1, 2, 3))
}

func TestPoll_ByAgeTakesWhatWasAddedFirst(t *testing.T) {
	r := newRig(t, ByAge)
	r.add(1, 10)
	r.add(3, 30)
	r.add(2, 20)
	r.add(1, 11)
	r.add(3, 31)
	require.Equal(t, []int{10, 30, 11, 31}, r.poll(1, 3), "stream 2 holds up only its own")
	require.Equal(t, 1, r.qs.Len())
	require.Equal(t, []int{20}, slices.Collect(r.qs.All()))
	require.Equal(t, []int{20}, r.poll(2))
}

func TestPoll_WithoutAnEventWaitsForTheWholeStream(t *testing.T) {
	r := newRig(t, ByAge)
	r.add(1, 0) // work that is not done
	r.err = device.ErrOutOfMemory
	r.add(1, 1)
	require.Empty(t, r.poll())
	require.Equal(t, []int{0, 1}, r.poll(1))
}

func TestPoll_OfAClosedStreamArrives(t *testing.T) {
	r := newRig(t, ByStream)
	s, err := r.dev.NewStream()
	require.NoError(t, err)
	r.qs.Add(s, 7)
	r.dev.Complete(s.ID())
	require.NoError(t, s.Close())
	require.Equal(t, []int{7}, r.poll())
}

func TestDrain_WaitsForAllEntries(t *testing.T) {
	r := newRig(t, ByStream)
	r.add(1, 1)
	r.add(2, 2, 3)
	var arrived []int
	require.NoError(t, r.qs.Drain(func(b int) { arrived = append(arrived, b) }))
	require.Equal(t, []int{2, 3, 1}, arrived)
	require.Empty(t, r.qs.Tails())
}

func TestTails_AreTheLastOfEachStream(t *testing.T) {
	r := newRig(t, ByStream)
	r.add(1, 1, 2)
	r.add(2, 3)
	require.Len(t, r.qs.Tails(), 2)
	for _, tail := range r.qs.Tails() {
		require.NoError(t, tail.Wait())
	}
	require.Equal(t, []int{3, 1, 2}, r.poll())
}

// Queues that never run dry are compacted, and keep their order.
func TestPoll_LongQueuesKeepTheirOrder(t *testing.T) {
	r := newRig(t, ByAge)
	next := 0
	for i := range 5000 {
		r.qs.Add(r.stream(1), i)
		if i%7 == 6 {
			r.dev.Complete(1)
			r.qs.Add(r.stream(1), -1) // so that the queue is not empty
			r.qs.Poll(func(b int) {
				if b >= 0 {
					require.Equal(t, next, b)
					next++
				}
			})
		}
	}
	require.Empty(t, r.qs.Flaw())
	require.Less(t, cap(r.qs.list[0].entries), 4096)
}

// In the steady state nothing is made: queues, room and events are used again.
func TestPoll_MakesNoGarbage(t *testing.T) {
	r := newRig(t, ByStream)
	arrived := 0
	arrive := func(int) { arrived++ }
	step := func() {
		for id := range 4 {
			r.qs.Add(r.stream(id), id)
			r.dev.Complete(device.StreamID(id))
		}
		r.qs.Poll(arrive)
	}
	step()
	made := r.dev.Live().Events
	before := testing.AllocsPerRun(100, func() {
		for id := range 4 {
			require.NoError(t, r.stream(id).Record(r.qs.pools[0].events[0]))
			r.dev.Complete(device.StreamID(id))
		}
	})
	require.LessOrEqual(t, testing.AllocsPerRun(100, step), before, "what the simulated device makes")
	require.Equal(t, made, r.dev.Live().Events)
	require.NotZero(t, arrived)
}

// The entries of a block are taken out wherever they stand; the others keep their order, and the events are used again.
func TestDrop_TakesABlockOutOfAllQueues(t *testing.T) {
	r := newRig(t, ByStream)
	r.add(1, 1, 2, 1, 3)
	r.add(2, 2)
	r.add(3, 4)
	r.qs.AddLate(r.stream(3), 2)
	drop := func(b int) int {
		n := r.qs.Drop(func(x int) bool { return x == b })
		require.Empty(t, r.qs.Flaw())
		return n
	}
	require.Equal(t, 2, drop(1))
	require.Equal(t, 0, drop(1))
	require.Equal(t, 3, drop(2), "stream 2 has none left, and what waits for a capture is one, too")
	require.Equal(t, []int{4, 3}, slices.Collect(r.qs.All()))
	made := r.dev.Live().Events
	r.add(2, 5, 6)
	require.Equal(t, made, r.dev.Live().Events)
	require.Equal(t, []int{4, 5, 6, 3}, r.poll(1, 2, 3))
	require.Zero(t, r.qs.Len())
}

func TestMarks_AreNilWhereNothingWasRecorded(t *testing.T) {
	r := newRig(t, ByStream)
	r.add(1, 1)
	r.qs.AddLate(r.stream(1), 2)
	r.qs.AddCaptured(r.stream(1), 3, 7)
	r.err = device.ErrOutOfMemory
	r.add(1, 4)
	recorded := map[int]bool{}
	for b, e := range r.qs.Marks() {
		recorded[b] = e != nil
	}
	require.Equal(t, map[int]bool{1: true, 2: false, 3: false, 4: false}, recorded)
	for range r.qs.Marks() {
		break // a reader may stop
	}
	r.qs.Drop(func(int) bool { return true })
}

// A stream that was put behind another comes after what was there then, and the event is free again.
func TestOrder_OnTheDevice(t *testing.T) {
	r := newRig(t, ByStream)
	require.NoError(t, r.stream(1).Fill(0, 0, 0))
	require.NoError(t, r.qs.Order(r.stream(1), r.stream(2)))
	require.NoError(t, r.qs.Order(r.stream(3), r.stream(4)))
	require.Equal(t, 1, r.dev.Live().Events)
	done := func(id int) bool {
		done, err := r.stream(id).Done()
		require.NoError(t, err)
		return done
	}
	require.False(t, done(1))
	r.dev.Complete(2)
	require.True(t, done(1))
	require.False(t, done(3), "recorded again, it is another wait")

	r.err = device.ErrOutOfMemory
	require.NoError(t, r.qs.Order(r.stream(1), r.stream(2)), "it is there")
	r.qs.Close()
	require.ErrorIs(t, r.qs.Order(r.stream(1), r.stream(2)), device.ErrOutOfMemory)
	r.err = nil
	for _, kind := range []sim.CallKind{sim.CallEventRecord, sim.CallStreamWait} {
		r.dev.FailNext(kind, 1, device.ErrOutOfMemory)
		require.Error(t, r.qs.Order(r.stream(1), r.stream(2)), kind)
	}
	require.Equal(t, 1, r.dev.Live().Events, "kept for the next time")
	require.ErrorIs(t, r.qs.Order(captured{r.stream(1)}, r.stream(2)), errCaptured)
}

// captured is a stream in a capture.
type captured struct{ device.Stream }

func (captured) CaptureID() uint64                 { return 7 }
func (captured) BeginCapture() error               { return nil }
func (captured) EndCapture() (device.Graph, error) { return nil, nil }

func TestFlaw_SeesEachContradiction(t *testing.T) {
	for want, breakIt := range map[string]func(*Queues[int]) func(){
		"out of order": func(qs *Queues[int]) func() {
			qs.list[0].entries[0].number += 10
			return func() { qs.list[0].entries[0].number -= 10 }
		},
		"not the only one": func(qs *Queues[int]) func() {
			list := qs.list
			qs.list = append(list, list[1])
			return func() { qs.list = list }
		},
		"in its place": func(qs *Queues[int]) func() {
			slices.Reverse(qs.list)
			return func() { slices.Reverse(qs.list) }
		},
		"is empty": func(qs *Queues[int]) func() {
			q := qs.list[0]
			q.head = len(q.entries)
			return func() { q.head = 0 }
		},
		"counted": func(qs *Queues[int]) func() {
			qs.count++
			return func() { qs.count-- }
		},
	} {
		r := newRig(t, ByAge)
		r.add(1, 1, 2)
		r.add(2, 3, 4)
		fix := breakIt(&r.qs)
		require.Contains(t, r.qs.Flaw(), want)
		fix()
		require.Empty(t, r.qs.Flaw())
	}
}
