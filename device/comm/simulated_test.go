package comm_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/stretchr/testify/require"
)

func buffer(at device.Ptr, count int, t dtype.DType) comm.Buffer {
	return comm.Buffer{Ptr: at, Count: count, Type: t}
}

// The formulas of the ring, with numbers worked out by hand: 8 ranks, 800 elements of 4 bytes.
func TestSimulated_CountsWhatARingSends(t *testing.T) {
	d := sim.New(device.GiB)
	c, err := comm.Simulated(d, 3, 8)
	require.NoError(t, err)
	s := d.DefaultStream()
	whole, part := buffer(4096, 800, dtype.Float32), buffer(8192, 100, dtype.Float32)
	require.NoError(t, c.AllReduce(s, whole, whole, comm.Sum))
	require.NoError(t, c.AllReduce(s, whole, whole, comm.Mean))
	require.NoError(t, c.ReduceScatter(s, part, whole, comm.Sum))
	require.NoError(t, c.AllGather(s, whole, part))
	require.NoError(t, c.AllToAll(s, buffer(16384, 800, dtype.Float32), whole))
	require.NoError(t, c.Broadcast(s, whole, 0))
	require.NoError(t, c.Broadcast(s, whole, 4), "rank 3 is the last of the ring from 4 on")
	require.NoError(t, c.Barrier(context.Background()))
	want := comm.Stats{
		AllReduce:     comm.Traffic{Calls: 2, Bytes: 2 * 5600},
		ReduceScatter: comm.Traffic{Calls: 1, Bytes: 2800},
		AllGather:     comm.Traffic{Calls: 1, Bytes: 2800},
		AllToAll:      comm.Traffic{Calls: 1, Bytes: 2800},
		Broadcast:     comm.Traffic{Calls: 2, Bytes: 3200},
		Barrier:       comm.Traffic{Calls: 1},
	}
	require.Equal(t, want, c.Stats())
	require.Equal(t, comm.Traffic{Calls: 8, Bytes: 22800}, c.Stats().Total())
	require.NoError(t, d.Close())
}

// 2^62 bytes on 1,024 ranks: nothing on the way may be larger than an int64. 10 elements of 2 bytes on 3 ranks are 26 2/3 bytes.
func TestSent_OfLargeAndOddSizes(t *testing.T) {
	large := comm.Call{Operation: "ReduceScatter", Src: buffer(0, 1<<60, dtype.Float32)}
	require.Equal(t, int64(1<<62-1<<52), large.Sent(0, 1024))
	odd := comm.Call{Operation: "AllReduce", Src: buffer(0, 10, dtype.Float16)}
	require.Equal(t, int64(27), odd.Sent(0, 3))
	require.Zero(t, odd.Sent(0, 1), "one rank sends nothing")
}

func TestSimulated_HasTheStatsOfALoopback(t *testing.T) {
	calls := func(c comm.Comm) error {
		s, err := c.Device().NewStream()
		if err != nil {
			return err
		}
		p, err := c.Device().Malloc(4096)
		if err != nil {
			return err
		}
		all, mine := buffer(p, 30, dtype.BFloat16), buffer(p.Add(1024), 10, dtype.BFloat16)
		return errors.Join(c.AllGather(s, all, mine), c.AllReduce(s, mine, mine, comm.Max), c.ReduceScatter(s, mine, all, comm.Sum),
			c.Broadcast(s, all, 2), c.Barrier(context.Background()), s.Synchronize(context.Background()), c.Device().Free(p), s.Close())
	}
	real := group(t, 0, 3)
	require.NoError(t, errors.Join(each(real, calls)...))
	for rank, c := range real {
		d := sim.New(device.MiB)
		predicted, err := comm.Simulated(d, rank, 3)
		require.NoError(t, err)
		require.NoError(t, calls(predicted))
		require.Equal(t, c.Stats(), predicted.Stats())
		require.NoError(t, d.Close())
	}
}

func TestSimulated_NeedsASimulatedDevice(t *testing.T) {
	_, err := comm.Simulated(host.Default(), 0, 2)
	require.ErrorIs(t, err, comm.ErrUnavailable)
	for _, place := range [][2]int{{-1, 2}, {2, 2}, {0, 0}} {
		_, err = comm.Simulated(sim.New(1), place[0], place[1])
		require.ErrorIs(t, err, device.ErrInvalidValue)
	}
	_, err = comm.Simulated(nil, 0, 1)
	require.ErrorIs(t, err, device.ErrInvalidValue)
}

func TestSimulated_EndsLikeOthers(t *testing.T) {
	d := sim.New(device.MiB)
	c, err := comm.Simulated(d, 0, 2)
	require.NoError(t, err)
	cause := errors.New("enough")
	c.Abort(cause)
	err = c.Barrier(context.Background())
	require.ErrorIs(t, err, comm.ErrAborted)
	require.ErrorIs(t, err, cause)
	require.NoError(t, c.Close())
	require.ErrorIs(t, c.Barrier(context.Background()), device.ErrClosed)
	require.Zero(t, c.Stats().AllReduce.Calls)
}

// What one rank can see alone is an error there, with the values, and nothing is enqueued or counted.
func TestCalls_RefuseWrongArguments(t *testing.T) {
	d := sim.New(device.GiB)
	c, err := comm.Simulated(d, 1, 4)
	require.NoError(t, err)
	s := d.DefaultStream()
	f := func(at device.Ptr, count int) comm.Buffer { return buffer(at, count, dtype.Float32) }
	var none context.Context // a mistake
	for want, err := range map[string]error{
		"the stream is nil":                       c.AllReduce(nil, f(64, 4), f(64, 4), comm.Sum),
		"the stream is not of ":                   c.AllReduce(host.Default().DefaultStream(), f(64, 4), f(64, 4), comm.Sum),
		"unknown Op(0)":                           c.AllReduce(s, f(64, 4), f(64, 4), 0),
		"unknown Op(9)":                           c.ReduceScatter(s, f(64, 4), f(128, 16), 9),
		"a buffer of -1 float32":                  c.Broadcast(s, f(64, -1), 0),
		"a buffer of type":                        c.Broadcast(s, comm.Buffer{Ptr: 64, Count: 1}, 0),
		"4 float32 at address 0x":                 c.Broadcast(s, f(0, 4), 0),
		"is not a multiple of 4":                  c.Broadcast(s, f(66, 4), 0),
		"a buffer of 4611686018427387904 float32": c.Broadcast(s, f(64, 1<<62), 0),
		"root 4 of 4 ranks":                       c.Broadcast(s, f(64, 4), 4),
		"root -1 of 4 ranks":                      c.Broadcast(s, f(64, 4), -1),
		"3 elements from 4 on 4 ranks: dst has as many as src":           c.AllReduce(s, f(64, 3), f(128, 4), comm.Sum),
		"4 elements from 15 on 4 ranks: src has dst's times the ranks":   c.ReduceScatter(s, f(64, 4), f(128, 15), comm.Sum),
		"15 elements from 4 on 4 ranks: dst has src's times the ranks":   c.AllGather(s, f(256, 15), f(128, 4)),
		"15 elements from 15 on 4 ranks: both have the same, a multiple": c.AllToAll(s, f(256, 15), f(1024, 15)),
		"dst at 0x104 overlaps src at 0x100":                             c.AllReduce(s, f(260, 4), f(256, 4), comm.Sum),
		"dst at 0x100 overlaps src at 0x100":                             c.ReduceScatter(s, f(256, 4), f(256, 16), comm.Sum),
		"dst at 0x200 overlaps src at 0x200":                             c.AllGather(s, f(512, 16), f(512, 4)),
		"dst at 0x300 overlaps src at 0x300":                             c.AllToAll(s, f(768, 16), f(768, 16)),
		"dst is of float32, src of float64":                              c.AllReduce(s, f(64, 4), buffer(128, 4, dtype.Float64), comm.Sum),
		"uint8 cannot be combined, only floating types and int64":        c.AllReduce(s, buffer(64, 4, dtype.Uint8), buffer(128, 4, dtype.Uint8), comm.Sum),
		"the context is nil":                                             c.Barrier(none),
	} {
		var e *comm.Error
		require.ErrorAs(t, err, &e, want)
		require.ErrorIs(t, err, device.ErrInvalidValue)
		require.Contains(t, e.Detail, want)
		require.Equal(t, 1, e.Rank)
	}
	require.Zero(t, c.Stats().Total())
}

func TestCalls_TakeMemoryInPlaceWhereTheySay(t *testing.T) {
	d := sim.New(device.GiB)
	c, err := comm.Simulated(d, 1, 4)
	require.NoError(t, err)
	s := d.DefaultStream()
	whole, mine := buffer(256, 16, dtype.Float32), buffer(256+16, 4, dtype.Float32)
	require.NoError(t, c.ReduceScatter(s, mine, whole, comm.Sum))
	require.NoError(t, c.AllGather(s, whole, mine))
	require.NoError(t, c.AllReduce(s, buffer(0, 0, dtype.Float32), buffer(0, 0, dtype.Float32), comm.Sum), "nothing needs no address")
}

// A mistake on a rank of a Base that nobody opened is an error, too.
func TestBase_ZeroIsAnError(t *testing.T) {
	var b comm.Base
	require.ErrorIs(t, b.Barrier(context.Background()), device.ErrInvalidValue)
	require.ErrorIs(t, b.AllReduce(host.Default().DefaultStream(), comm.Buffer{}, comm.Buffer{}, comm.Sum), device.ErrInvalidValue)
	require.Zero(t, b.Size())
}

func ExampleLoopback() {
	d := host.New()
	comms, err := comm.Loopback(d, d)
	if err != nil {
		fmt.Println(err)
		return
	}
	errs := each(comms, func(c comm.Comm) error {
		s := c.Device().DefaultStream()
		p, err := c.Device().Malloc(1)
		if err != nil {
			return err
		}
		if err := s.Fill(p, byte(10+c.Rank()), 1); err != nil {
			return err
		}
		if err := c.Broadcast(s, comm.Buffer{Ptr: p, Count: 1, Type: dtype.Uint8}, 1); err != nil {
			return err
		}
		got := make([]byte, 1)
		if err := s.CopyToHost(got, p); err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println("rank 0 has", got[0])
		}
		return c.Barrier(context.Background())
	})
	fmt.Println(errors.Join(errs...), d.Close())
	// Output:
	// rank 0 has 11
	// <nil> <nil>
}
