package nccl

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/internal/fakecuda"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/stretchr/testify/require"
)

// buffer is device memory for a test.
func buffer(d *cuda.Device, count int) (comm.Buffer, error) {
	p, err := d.Malloc(uint64(4 * max(count, 1)))
	return comm.Buffer{Ptr: p, Count: count, Type: dtype.Float32}, err
}

// sums makes n sums on a stream of the device's, and waits for all of them.
func sums(c comm.Comm, d *cuda.Device, n int) error {
	b, err := buffer(d, 1000)
	if err != nil {
		return err
	}
	s := d.DefaultStream()
	for range n {
		if err = c.AllReduce(s, b, b, comm.Sum); err != nil {
			break
		}
	}
	return errors.Join(err, s.Synchronize(context.Background()), d.Free(b.Ptr))
}

// blamed checks that an error is of a fault, and names the rank and the operation.
func blamed(t *testing.T, err, kind error, peer int, operation string) {
	t.Helper()
	require.ErrorIs(t, err, kind)
	var e *comm.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, peer, e.Peer, "%v", err)
	require.Equal(t, operation, e.Operation, "%v", err)
	require.Equal(t, "nccl", e.Backend)
}

const short = 300 * time.Millisecond

// A rank does something else than the others, which are in a sum. In time all of them have an error that names it.
func TestFaults_NameTheRankAndTheOperation(t *testing.T) {
	stay := func(c comm.Comm, _ *cuda.Device) error { // until the others have ended the group
		select {
		case <-c.(*rank).over:
			return c.(*rank).usable("Wait")
		case <-time.After(patient):
			return errors.New("the group does not end")
		}
	}
	for name, fault := range map[string]struct {
		kind   error
		check  bool
		limit  time.Duration
		finds  string
		victim func(c comm.Comm, d *cuda.Device) error
	}{
		"computes": {comm.ErrTimeout, false, short, "", stay},
		"aborts": {comm.ErrAborted, false, patient, "", func(c comm.Comm, d *cuda.Device) error {
			c.Abort(errors.New("out of luck"))
			return c.(*rank).usable("Abort")
		}},
		"another operation": {comm.ErrMismatch, false, short, "NCCL hangs", func(c comm.Comm, d *cuda.Device) error {
			b, err := buffer(d, 1000)
			return errors.Join(err, c.Broadcast(d.DefaultStream(), b, 0), stay(c, d), d.Free(b.Ptr))
		}},
		"another count": {comm.ErrMismatch, true, patient, "NCCL hangs", func(c comm.Comm, d *cuda.Device) error {
			b, err := buffer(d, 999)
			return errors.Join(err, c.AllReduce(d.DefaultStream(), b, b, comm.Sum), stay(c, d), d.Free(b.Ptr))
		}},
		"closes":        {comm.ErrPeer, false, patient, "NCCL hangs", func(c comm.Comm, d *cuda.Device) error { return c.Close() }},
		"a late stream": {comm.ErrTimeout, false, short, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			rig := cudatest.New(t, 3, func(l *fakecuda.Library) { l.Set("free_sync", "0") })
			if fault.finds != "" {
				rig.Expect(fault.finds)
			}
			began := time.Now()
			errs := onRig(t, rig, Options{TimeLimit: fault.limit, Check: fault.check}, func(c comm.Comm, d *cuda.Device) error {
				if err := sums(c, d, 3); err != nil {
					return err
				}
				switch {
				case c.Rank() != 1:
					return sums(c, d, 3)
				case fault.victim != nil:
					return fault.victim(c, d)
				}
				return lateStream(rig, c, d, stay)
			})
			require.Less(t, time.Since(began), patient/2)
			for _, r := range []int{0, 2} {
				blamed(t, errs[r], fault.kind, 1, "AllReduce")
			}
			require.Error(t, errs[1])
		})
	}
}

// A stream that waits for a collective on another one, as a program's for the communication stream, must not go on with what an abort has left.
func TestFollow_HandsTheErrorOfACollectiveOn(t *testing.T) {
	rig := cudatest.New(t, 2, func(l *fakecuda.Library) { l.Set("free_sync", "0") })
	errs := onRig(t, rig, Options{TimeLimit: short}, func(c comm.Comm, d *cuda.Device) error {
		b, err := buffer(d, 1000)
		if err != nil {
			return err
		}
		side, err := d.NewStream()
		if err != nil {
			return err
		}
		reader, err := d.NewStream()
		if err != nil {
			return err
		}
		e, err := d.NewEvent()
		if err != nil {
			return err
		}
		read := func() error { return reader.CopyToHost(make([]byte, 8), b.Ptr) }
		sum := func() error {
			return errors.Join(c.AllReduce(side, b, b, comm.Sum), side.Record(e), reader.Wait(e), c.Follow(reader))
		}
		if err := errors.Join(sum(), read()); err != nil {
			return fmt.Errorf("the group is whole: %w", err)
		}
		if c.Rank() == 0 {
			err = sum()
		} else {
			<-c.(*rank).over
		}
		if first := read(); err == nil {
			err = first
		}
		if c.Rank() == 1 && err == nil {
			err = c.Follow(reader) // rank 1 has cut nothing off
		} else if c.Follow(reader) == nil {
			err = errors.New("what is known is not told")
		}
		_ = errors.Join(side.Close(), reader.Close(), e.Close())
		return errors.Join(err, d.Free(b.Ptr))
	})
	blamed(t, errs[0], comm.ErrTimeout, 1, "AllReduce")
	require.ErrorIs(t, errs[0], device.ErrLaunch)
	blamed(t, errs[1], comm.ErrTimeout, 1, "Close") // it was told of nothing before
}

// lateStream enqueues what the others do, on a stream that does not come to it.
func lateStream(rig *cudatest.Rig, c comm.Comm, d *cuda.Device, stay func(comm.Comm, *cuda.Device) error) error {
	b, err := buffer(d, 1000)
	if err != nil {
		return err
	}
	s, err := d.NewStream()
	if err != nil {
		return err
	}
	own := s.(*cuda.Stream)
	if err := s.Fill(b.Ptr, 0, 4); err != nil {
		return err
	}
	rig.HoldStream(own.Handle())
	err = errors.Join(s.Fill(b.Ptr, 0, 4), c.AllReduce(s, b, b, comm.Sum), stay(c, d))
	rig.ReleaseStream(own.Handle())
	_ = s.Close()
	return errors.Join(err, d.Free(b.Ptr))
}

// What NCCL notices itself, and what a call of it answers, ends the group too.
func TestFaults_OfTheLibrary(t *testing.T) {
	for name, set := range map[string]func(rig *cudatest.Rig){
		"asynchronous": func(rig *cudatest.Rig) { rig.Set("nccl_async", "3") },
		"a call":       func(rig *cudatest.Rig) { rig.Fail("ncclAllReduce", 1, 2) },
	} {
		t.Run(name, func(t *testing.T) {
			rig := cudatest.New(t, 2, func(l *fakecuda.Library) { l.Set("free_sync", "0") })
			arrived := make(chan bool, 2)
			set2 := make(chan bool)
			go func() {
				<-arrived
				<-arrived
				set(rig)
				close(set2)
			}()
			errs := onRig(t, rig, Options{TimeLimit: patient}, func(c comm.Comm, d *cuda.Device) error {
				if err := sums(c, d, 2); err != nil {
					return err
				}
				arrived <- true
				<-set2
				for {
					if err := sums(c, d, 1); err != nil {
						return err
					}
				}
			})
			for _, err := range errs {
				require.ErrorIs(t, err, comm.ErrLibrary)
				require.ErrorContains(t, err, "nccl")
			}
		})
	}
}

// The n-th call of the driver or of NCCL fails on some rank: all ranks end, and hold nothing.
func TestFaults_OfAnyCallLeaveNothing(t *testing.T) {
	for nth := 1; ; nth += fulltests.Or(1, 7) {
		total := 0
		t.Run(fmt.Sprint(nth), func(t *testing.T) {
			rig := cudatest.New(t, 2, func(l *fakecuda.Library) { l.Set("free_sync", "0") })
			rig.Expect("")
			fine(t, together(2, func(rank int) error { return rig.Devices[rank].DefaultStream().Synchronize(t.Context()) }))
			rig.Fail("*", nth, 2)
			before := rig.Total()
			_ = onRig(t, rig, Options{TimeLimit: short}, func(c comm.Comm, d *cuda.Device) error {
				err := sums(c, d, 2)
				if err != nil {
					c.Abort(err)
				}
				return err
			})
			total = rig.Total() - before
			rig.ClearFaults()
		})
		if nth > total {
			return
		}
	}
}

// All ranks that have come name the one that has not, by each way of meeting: also those whose limit ends with rank 0's.
func TestOpen_NamesTheRanksThatDoNotCome(t *testing.T) {
	const n, absent = 3, 1
	for name, way := range map[string]func(t *testing.T) (group func(rank int) Group, limit time.Duration){
		"file": func(t *testing.T) (func(rank int) Group, time.Duration) {
			meetAt := filepath.Join(t.TempDir(), "meet")
			t.Cleanup(func() { require.NoFileExists(t, meetAt) })
			return func(rank int) Group { return ByFile(rank, n, meetAt) }, short
		},
		"address": func(t *testing.T) (func(rank int) Group, time.Duration) {
			address := freeAddress(t)
			return func(rank int) Group { return ByAddress(rank, n, address) }, short
		},
		"comm": func(t *testing.T) (func(rank int) Group, time.Duration) {
			start, err := comm.LoopbackWithin(short, host.New(), host.New(), host.New())
			require.NoError(t, err)
			return func(rank int) Group { return ByComm(start[rank]) }, patient
		},
		"comm that waits longer": func(t *testing.T) (func(rank int) Group, time.Duration) {
			start, err := comm.LoopbackWithin(2*short, host.New(), host.New(), host.New())
			require.NoError(t, err)
			return func(rank int) Group { return ByComm(start[rank]) }, short
		},
	} {
		t.Run(name, func(t *testing.T) {
			rig := cudatest.New(t, n)
			group, limit := way(t)
			for rank, err := range together(n, func(rank int) error {
				if rank == absent {
					return nil
				}
				return second(Open(rig.Devices[rank], group(rank), Options{TimeLimit: limit, Library: rig.Path()}))
			}) {
				if rank == absent {
					continue
				}
				blamed(t, err, comm.ErrTimeout, absent, "Open")
				require.ErrorContains(t, err, fmt.Sprintf("nccl: rank %d: Open: ", rank))
				require.ErrorContains(t, err, "for rank 1")
			}
		})
	}
}

// A rank that comes to Close when the others have given it up is told, once; one that was told before is not told again, nor one that has aborted.
func TestClose_TellsARankThatTheOthersHaveGivenUp(t *testing.T) {
	t.Run("given up", func(t *testing.T) {
		closing := make([]error, 2)
		errs := withGroup(t, 2, Options{TimeLimit: time.Second}, func(c comm.Comm, d *cuda.Device) error {
			if c.Rank() == 1 {
				<-c.(*rank).over
				closing[1] = c.Close()
				return nil
			}
			err := sums(c, d, 1)
			closing[0] = c.Close()
			return err
		})
		blamed(t, errs[0], comm.ErrTimeout, 1, "AllReduce")
		require.NoError(t, closing[0])
		blamed(t, closing[1], comm.ErrTimeout, 1, "Close")
	})
	t.Run("aborted", func(t *testing.T) {
		var opened sync.WaitGroup // both have: who is in Open yet is told there
		opened.Add(2)
		for rank, err := range withGroup(t, 2, Options{TimeLimit: patient}, func(c comm.Comm, _ *cuda.Device) error {
			opened.Done()
			opened.Wait()
			if c.Rank() == 0 {
				c.Abort(errors.New("mine"))
				return c.Close()
			}
			<-c.(*rank).over
			c.Abort(errors.New("mine too"))
			return c.Close()
		}) {
			require.NoError(t, err, "rank %d", rank)
		}
	})
}

// Ranks that take the group for different ones hear of it at once.
func TestOpen_ComparesWhatTheGroupIs(t *testing.T) {
	for name, other := range map[string]struct {
		size    int
		options Options
	}{"size": {3, Options{TimeLimit: patient}}, "check": {2, Options{TimeLimit: patient, Check: true}}, "time limit": {2, Options{TimeLimit: 2 * patient}}} {
		t.Run(name, func(t *testing.T) {
			rig := cudatest.New(t, 2)
			meetAt := filepath.Join(t.TempDir(), "meet")
			began := time.Now()
			for _, err := range together(2, func(rank int) error {
				size, options := 2, Options{TimeLimit: patient}
				if rank == 1 {
					size, options = other.size, other.options
				}
				options.Library = rig.Path()
				_, err := Open(rig.Devices[rank], ByFile(rank, size, meetAt), options)
				return err
			}) {
				require.ErrorIs(t, err, comm.ErrMismatch)
			}
			require.Less(t, time.Since(began), patient/2)
		})
	}
}

// A rank that has no library, or no GPU, says so to the others, by each way of meeting.
func TestOpen_TellsTheOthersOfARankThatCannotCome(t *testing.T) {
	const n = 3
	ways := map[string]func(t *testing.T) func(rank int) Group{
		"file": func(t *testing.T) func(rank int) Group {
			meetAt := filepath.Join(t.TempDir(), "meet")
			return func(rank int) Group { return ByFile(rank, n, meetAt) }
		},
		"address": func(t *testing.T) func(rank int) Group {
			address := freeAddress(t)
			return func(rank int) Group { return ByAddress(rank, n, address) }
		},
		"comm": func(t *testing.T) func(rank int) Group {
			start, err := comm.Loopback(host.New(), host.New(), host.New())
			require.NoError(t, err)
			return func(rank int) Group { return ByComm(start[rank]) }
		},
	}
	rig := cudatest.New(t, n)
	for name, way := range ways {
		for _, absent := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s, rank %d", name, absent), func(t *testing.T) {
				group, began := way(t), time.Now()
				errs := together(n, func(rank int) error {
					options := Options{TimeLimit: patient, Library: rig.Path()}
					var dev device.Device = rig.Devices[rank]
					if rank == absent && rank == 0 {
						dev = host.Default()
					} else if rank == absent {
						options.Library = "/nonexistent/libnccl.so.2"
					}
					return second(Open(dev, group(rank), options))
				})
				why := map[int]string{0: "is no NVIDIA GPU", 1: "/nonexistent/libnccl.so.2"}[absent]
				for rank, err := range errs {
					if rank != absent {
						blamed(t, err, comm.ErrUnavailable, absent, "Open")
					}
					require.ErrorIs(t, err, comm.ErrUnavailable)
					require.ErrorContains(t, err, why)
				}
				require.Less(t, time.Since(began), lookout/2)
			})
		}
	}
}

func TestOpen_SaysWhatRank0HasNotSaid(t *testing.T) {
	rig := cudatest.New(t, 1)
	open := func(g Group) error {
		_, err := Open(rig.Devices[0], g, Options{TimeLimit: short, Library: rig.Path()})
		return err
	}
	blamed(t, open(ByFile(1, 2, filepath.Join(t.TempDir(), "meet"))), comm.ErrTimeout, 0, "Open")
	err := open(Group{Rank: 1, Size: 2, Exchange: func(context.Context, []byte) error { return nil }})
	require.ErrorIs(t, err, comm.ErrUnavailable)
	require.NotContains(t, err.Error(), "%!")
	for _, address := range []string{"nonsense", "host:noport", ""} {
		require.ErrorIs(t, open(ByAddress(1, 2, address)), device.ErrInvalidValue, address)
	}
}

func TestOpen_RefusesTwoRanksOfOneNumberOrDevice(t *testing.T) {
	rig := cudatest.New(t, 2)
	rig.Expect("do not make a communicator")
	meetAt := filepath.Join(t.TempDir(), "meet")
	errs := together(3, func(i int) error {
		rank := min(i, 1)
		_, err := Open(rig.Devices[rank], ByFile(rank, 3, meetAt), Options{TimeLimit: 2 * short, Library: rig.Path()})
		return err
	})
	require.ErrorContains(t, errors.Join(errs...), "two processes are rank 1")
	t.Run("device", func(t *testing.T) {
		meetAt := filepath.Join(t.TempDir(), "meet")
		for _, err := range together(2, func(rank int) error {
			_, err := Open(rig.Devices[0], ByFile(rank, 2, meetAt), Options{TimeLimit: patient, Library: rig.Path()})
			return err
		}) {
			require.ErrorIs(t, err, comm.ErrLibrary)
			require.ErrorContains(t, err, "invalid usage")
		}
	})
}

func TestComm_AfterCloseIsClosed(t *testing.T) {
	fine(t, withGroup(t, 2, Options{TimeLimit: patient}, func(c comm.Comm, d *cuda.Device) error {
		if err := c.Close(); err != nil {
			return err
		}
		b, err := buffer(d, 4)
		if err != nil {
			return err
		}
		if err := c.AllReduce(d.DefaultStream(), b, b, comm.Sum); !errors.Is(err, device.ErrClosed) {
			return fmt.Errorf("after Close: %v", err)
		}
		if err := c.Barrier(context.Background()); !errors.Is(err, device.ErrClosed) {
			return fmt.Errorf("after Close: %v", err)
		}
		if err := c.Follow(d.DefaultStream()); !errors.Is(err, device.ErrClosed) {
			return fmt.Errorf("after Close: %v", err)
		}
		return d.Free(b.Ptr)
	}))
}

// A stream that the program has closed is its own error, and does not end the group.
func TestComm_RefusesClosedStreams(t *testing.T) {
	fine(t, withGroup(t, 2, Options{TimeLimit: patient}, func(c comm.Comm, d *cuda.Device) error {
		s, err := d.NewStream()
		if err != nil {
			return err
		}
		b, err := buffer(d, 4)
		if err := errors.Join(err, s.Close()); err != nil {
			return err
		}
		if err := c.AllReduce(s, b, b, comm.Sum); !errors.Is(err, device.ErrClosed) {
			return fmt.Errorf("a collective: %v", err)
		}
		if err := c.Follow(s); !errors.Is(err, device.ErrClosed) {
			return fmt.Errorf("Follow: %v", err)
		}
		return errors.Join(sums(c, d, 1), d.Free(b.Ptr))
	}))
}

// An error of the driver in a collective's call ends the group at once, and is told whole on its rank, in one line on all.
func TestFaults_OfTheDriverEndTheGroup(t *testing.T) {
	for name, at := range map[string]int{"before": 1, "behind": 2} {
		t.Run(name, func(t *testing.T) {
			rig := cudatest.New(t, 2, func(l *fakecuda.Library) { l.Set("free_sync", "0") })
			rig.Expect("")
			began := time.Now()
			armed := make(chan bool)
			errs := onRig(t, rig, Options{TimeLimit: patient}, func(c comm.Comm, d *cuda.Device) error {
				if err := sums(c, d, 1); err != nil {
					return err
				}
				if err := c.Barrier(t.Context()); err != nil {
					return err
				}
				if c.Rank() == 1 {
					<-armed
					return sums(c, d, 1)
				}
				defer close(armed)
				b, err := buffer(d, 4)
				if err != nil {
					return err
				}
				rig.Fail("cuEventRecord", at, 2)
				err = c.AllReduce(d.DefaultStream(), b, b, comm.Sum)
				_ = d.DefaultStream().Synchronize(context.Background())
				return errors.Join(err, d.Free(b.Ptr))
			})
			require.Less(t, time.Since(began), patient/2)
			blamed(t, errs[0], comm.ErrLibrary, 0, "AllReduce")
			require.ErrorIs(t, errs[0], device.ErrOutOfMemory)
			require.ErrorIs(t, errs[1], comm.ErrLibrary)
			for _, err := range errs {
				for line := range strings.Lines(err.Error()) { // another one where a wait for the stream has failed as well
					require.Equal(t, 1, strings.Count(line, comm.ErrLibrary.Error()), "%v", err)
				}
			}
		})
	}
}
