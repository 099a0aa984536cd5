package comm_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/comm/commtest"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/stretchr/testify/require"
)

// each runs a function for each rank at the same time and returns the errors by rank.
func each(comms []comm.Comm, f func(c comm.Comm) error) []error {
	errs := make([]error, len(comms))
	var all sync.WaitGroup
	for rank, c := range comms {
		all.Go(func() { errs[rank] = f(c) })
	}
	all.Wait()
	return errs
}

// group is a Loopback of n ranks on n host devices, which must be empty when the test ends.
func group(t *testing.T, limit time.Duration, n int) []comm.Comm {
	var devices []device.Device
	for range n {
		d := host.New(host.CheckBounds())
		devices = append(devices, d)
		t.Cleanup(func() {
			count, bytes := d.Live()
			require.Zero(t, count, "%d bytes are left on %v", bytes, d.ID())
			require.NoError(t, d.Close())
		})
	}
	comms, err := comm.LoopbackWithin(limit, devices...)
	require.NoError(t, err)
	return comms
}

// counts are those of the conformance suite, with -short, as under the race detector, only small ones.
func counts() []int {
	if testing.Short() {
		return []int{0, 1, 7, 1030}
	}
	return nil
}

func TestLoopback_Conforms(t *testing.T) {
	for _, n := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			comms := group(t, time.Minute, n)
			require.NoError(t, errors.Join(each(comms, func(c comm.Comm) error { return commtest.Check(c, counts()...) })...))
			require.NoError(t, errors.Join(each(comms, comm.Comm.Close)...))
		})
	}
}

func TestLoopback_OnOneDeviceForAllRanksConforms(t *testing.T) {
	d := host.New()
	comms, err := comm.Loopback(d, d, d, d)
	require.NoError(t, err)
	require.NoError(t, errors.Join(each(comms, func(c comm.Comm) error { return commtest.Check(c, counts()...) })...))
	count, _ := d.Live()
	require.Zero(t, count)
}

// floats is device memory of n float32.
func floats(t *testing.T, c comm.Comm, n int) comm.Buffer {
	p, err := c.Device().Malloc(uint64(4*n) + 8)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Device().Free(p)) })
	return comm.Buffer{Ptr: p, Count: n, Type: dtype.Float32}
}

func TestLoopback_TellsAllRanksWhoCallsSomethingElse(t *testing.T) {
	for _, one := range []struct {
		name string
		call func(c comm.Comm, s device.Stream, b comm.Buffer) error // of the last rank
		text string
	}{
		{"operation", func(c comm.Comm, s device.Stream, b comm.Buffer) error { return c.Broadcast(s, b, 1) }, "Broadcast(8 float32, root 1)"},
		{"op", func(c comm.Comm, s device.Stream, b comm.Buffer) error { return c.AllReduce(s, b, b, comm.Max) }, "AllReduce(max, 8 float32)"},
		{"size", func(c comm.Comm, s device.Stream, b comm.Buffer) error {
			b.Count = 7
			return c.AllReduce(s, b, b, comm.Sum)
		}, "AllReduce(sum, 7 float32)"},
		{"tag", func(c comm.Comm, s device.Stream, b comm.Buffer) error {
			b.Tag = "unit 3"
			return c.AllReduce(s, b, b, comm.Sum)
		}, "AllReduce(sum, 8 float32, unit 3)"},
		{"type", func(c comm.Comm, s device.Stream, b comm.Buffer) error {
			b.Type = dtype.BFloat16
			return c.AllReduce(s, b, b, comm.Sum)
		}, "AllReduce(sum, 8 bfloat16)"},
		{"barrier", func(c comm.Comm, _ device.Stream, _ comm.Buffer) error { return c.Barrier(context.Background()) }, "Barrier()"},
	} {
		t.Run(one.name, func(t *testing.T) {
			comms := group(t, time.Minute, 3)
			bufs := []comm.Buffer{floats(t, comms[0], 8), floats(t, comms[1], 8), floats(t, comms[2], 8)}
			errs := each(comms, func(c comm.Comm) error {
				s := c.Device().DefaultStream()
				if c.Rank() == 2 {
					return one.call(c, s, bufs[2])
				}
				return c.AllReduce(s, bufs[c.Rank()], bufs[c.Rank()], comm.Sum)
			})
			for rank, err := range errs {
				require.ErrorIs(t, err, comm.ErrMismatch)
				var e *comm.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, rank, e.Rank)
				require.NotEqual(t, rank, e.Peer)
				require.Contains(t, e.Detail, "AllReduce(sum, 8 float32)")
				require.Contains(t, e.Detail, one.text)
				require.Contains(t, e.Detail, "rank 2")
			}
		})
	}
}

func TestLoopback_NamesTheRankThatDoesNotCome(t *testing.T) {
	comms := group(t, 50*time.Millisecond, 3)
	bufs := []comm.Buffer{floats(t, comms[0], 8), floats(t, comms[1], 8)}
	errs := each(comms[:2], func(c comm.Comm) error {
		b := bufs[c.Rank()]
		return c.AllReduce(c.Device().DefaultStream(), b, b, comm.Sum)
	})
	for rank, err := range errs {
		require.ErrorIs(t, err, comm.ErrTimeout)
		var e *comm.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, comm.Error{Backend: "loopback", Operation: "AllReduce", Rank: rank, Peer: 2, Err: comm.ErrTimeout,
			Detail: "AllReduce(sum, 8 float32) has waited for 50ms for rank 2"}, *e)
	}
	late := comms[2].Barrier(context.Background())
	require.ErrorIs(t, late, comm.ErrTimeout, "who comes late finds that it is over")
}

func TestLoopback_TimeLimitOnAQueueIsTheErrorOfTheNextWait(t *testing.T) {
	comms := group(t, 20*time.Millisecond, 2)
	b := floats(t, comms[0], 8)
	s, err := comms[0].Device().NewStream()
	require.NoError(t, err)
	require.NoError(t, comms[0].AllReduce(s, b, b, comm.Sum))
	err = s.Synchronize(context.Background())
	require.ErrorIs(t, err, comm.ErrTimeout)
	require.ErrorIs(t, err, device.ErrLaunch)
	require.EqualError(t, err, fmt.Sprintf("%v: AllReduce: operation failed on the device: loopback: rank 0: AllReduce: time limit exceeded: rank 1 "+
		"(AllReduce(sum, 8 float32) has waited for 20ms for rank 1)", comms[0].Device().ID()))
	require.NoError(t, s.Close())
}

// A stream that has waited for a collective on another one must not go on with what a lost group has left.
func TestFollow_HandsTheErrorOfACollectiveOn(t *testing.T) {
	comms := group(t, 20*time.Millisecond, 2)
	c, b := comms[0], floats(t, comms[0], 8)
	s, reader, e := stream(t, c), stream(t, c), event(t, c)
	read := func() error { return reader.CopyToHost(make([]byte, 32), b.Ptr) }
	require.NoError(t, errors.Join(reader.Fill(b.Ptr, 0, 32), c.Follow(reader), read()), "nothing has failed")
	require.NoError(t, errors.Join(c.AllReduce(s, b, b, comm.Sum), s.Record(e), reader.Wait(e), c.Follow(reader)))
	err := read()
	require.ErrorIs(t, err, comm.ErrTimeout)
	require.ErrorIs(t, err, device.ErrLaunch)
	var of *comm.Error
	require.ErrorAs(t, err, &of)
	require.Equal(t, 1, of.Peer)
	require.Equal(t, "AllReduce", of.Operation)
	require.ErrorIs(t, s.Synchronize(t.Context()), comm.ErrTimeout, "and the collective's own stream has it as well")
	require.ErrorIs(t, c.Follow(reader), comm.ErrTimeout, "what is known is told at once")
	require.ErrorIs(t, c.Follow(c.Device().DefaultStream()), comm.ErrTimeout)
	require.NoError(t, comms[1].Follow(stream(t, comms[1])), "rank 1 has called nothing")
	for _, wrong := range []device.Stream{nil, (*cuda.Stream)(nil), comms[1].Device().DefaultStream()} {
		require.ErrorIs(t, c.Follow(wrong), device.ErrInvalidValue)
	}
}

func stream(t *testing.T, c comm.Comm) device.Stream {
	s, err := c.Device().NewStream()
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func event(t *testing.T, c comm.Comm) device.Event {
	e, err := c.Device().NewEvent()
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func TestLoopback_AbortReachesWaitersAndLaterCalls(t *testing.T) {
	cause := errors.New("no memory for the batch")
	comms := group(t, time.Minute, 3)
	bufs := []comm.Buffer{floats(t, comms[0], 8), floats(t, comms[1], 8)}
	errs := each(comms, func(c comm.Comm) error {
		if c.Rank() == 2 {
			c.Abort(cause)
			c.Abort(errors.New("a later one"))
			return c.Barrier(context.Background())
		}
		return c.AllReduce(c.Device().DefaultStream(), bufs[c.Rank()], bufs[c.Rank()], comm.Sum)
	})
	for rank, err := range errs {
		require.ErrorIs(t, err, comm.ErrAborted)
		require.ErrorIs(t, err, cause)
		var e *comm.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, rank, e.Rank)
		require.Equal(t, 2, e.Peer)
	}
}

func TestLoopback_CloseReleasesThoseWhoWait(t *testing.T) {
	comms := group(t, time.Minute, 2)
	errs := each(comms, func(c comm.Comm) error {
		if c.Rank() == 1 {
			return c.Close()
		}
		return c.Barrier(context.Background())
	})
	require.NoError(t, errs[1])
	require.ErrorIs(t, errs[0], comm.ErrPeer)
	require.ErrorIs(t, comms[1].Barrier(context.Background()), device.ErrClosed)
	require.NoError(t, comms[1].Close(), "closing twice is harmless")
}

func TestLoopback_BarrierThatAContextCutShortHasBeenCalled(t *testing.T) {
	comms := group(t, time.Minute, 2)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, comms[0].Barrier(ctx), context.Canceled)
	require.NoError(t, comms[1].Barrier(context.Background()), "rank 0 has come")
	require.NoError(t, errors.Join(each(comms, func(c comm.Comm) error { return c.Barrier(context.Background()) })...))
}

func TestLoopback_MemoryThatIsNotThereIsAnErrorOfAllRanks(t *testing.T) {
	comms := group(t, time.Minute, 2)
	good := floats(t, comms[0], 8)
	gone, err := comms[1].Device().Malloc(1 << 20)
	require.NoError(t, err)
	require.NoError(t, comms[1].Device().Free(gone))
	bad := comm.Buffer{Ptr: gone, Count: 8, Type: dtype.Float32}
	for _, err := range each(comms, func(c comm.Comm) error {
		b := []comm.Buffer{good, bad}[c.Rank()]
		return c.AllReduce(c.Device().DefaultStream(), b, b, comm.Sum)
	}) {
		var e *comm.Error
		require.ErrorAs(t, err, &e)
		var p *device.PanicError
		require.ErrorAs(t, e, &p)
	}
}

func TestLoopback_NeedsDevicesWhoseStreamsRunFunctions(t *testing.T) {
	_, err := comm.Loopback()
	require.ErrorIs(t, err, device.ErrInvalidValue)
	_, err = comm.Loopback(host.Default(), nil)
	require.ErrorIs(t, err, device.ErrInvalidValue)
	_, err = comm.Loopback(notExecutor{host.Default()})
	require.ErrorIs(t, err, comm.ErrUnavailable)
}

// notExecutor is a device like a GPU: its stream runs no Go functions.
type notExecutor struct{ device.Device }

func (d notExecutor) DefaultStream() device.Stream { return plain{d.Device.DefaultStream()} }

type plain struct{ device.Stream }

// Of three ranks the one that calls something else than the two others is to blame, in whatever order they come; of two that come it is the higher number.
func TestLoopback_BlamesTheRankThatDiffersFromMost(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {1, 0}} {
		synctest.Test(t, func(t *testing.T) { // its Wait makes the order, and its time is over at once
			devices := []device.Device{host.New(), host.New(), host.New()}
			comms, err := comm.LoopbackWithin(time.Minute, devices...)
			require.NoError(t, err)
			errs := make([]error, 3)
			var wg sync.WaitGroup
			for _, rank := range order {
				c := comms[rank]
				wg.Go(func() { errs[rank] = reduceSome(c, 8-4*(rank%2)) })
				synctest.Wait()
			}
			wg.Wait()
			for _, rank := range order {
				var e *comm.Error
				require.ErrorAs(t, errs[rank], &e, "%v", order)
				require.ErrorIs(t, e, comm.ErrMismatch)
				if rank != 1 {
					require.Equal(t, 1, e.Peer, "%v: rank %d", order, rank)
				}
				require.Contains(t, e.Detail, "rank 1 AllReduce(sum, 4 float32)", "%v", order)
			}
			for i, c := range comms {
				require.NoError(t, errors.Join(c.Close(), devices[i].Close()))
			}
		})
	}
}

// reduceSome sums so many numbers.
func reduceSome(c comm.Comm, count int) error {
	p, err := c.Device().Malloc(64)
	if err != nil {
		return err
	}
	b := comm.Buffer{Ptr: p, Count: count, Type: dtype.Float32}
	return errors.Join(c.AllReduce(c.Device().DefaultStream(), b, b, comm.Sum), c.Device().Free(p))
}

func TestLoopback_AClosedStreamAndAClosedGroupAreTold(t *testing.T) {
	d := host.New()
	comms, err := comm.Loopback(d)
	require.NoError(t, err)
	s, err := d.NewStream()
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.ErrorIs(t, comms[0].Follow(s), device.ErrClosed)
	err = comms[0].AllReduce(s, comm.Buffer{Type: dtype.Float32}, comm.Buffer{Type: dtype.Float32}, comm.Sum)
	require.EqualError(t, err, "loopback: rank 0: AllReduce: "+device.ErrClosed.Error()+" (the stream is closed)")
	require.NoError(t, comms[0].Follow(d.DefaultStream()))
	require.NoError(t, comms[0].Close())
	require.ErrorIs(t, comms[0].Follow(d.DefaultStream()), device.ErrClosed)
}

// The reason of an abort stands at the same place on the rank that has it as an error, and on those that have its text.
func TestError_OfAnAbortReadsTheSameEverywhere(t *testing.T) {
	own := (&comm.Fault{Peer: 1, Err: comm.AbortCause(errors.New("out of luck"))}).On("nccl", 1, "AllReduce")
	require.EqualError(t, own, "nccl: rank 1: AllReduce: the group was aborted: rank 1 (out of luck)")
	other := (&comm.Fault{Peer: 1, Err: comm.ErrAborted, Detail: "out of luck"}).On("nccl", 1, "AllReduce")
	require.EqualError(t, other, own.Error())
}
