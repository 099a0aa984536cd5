package nccl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/comm/commtest"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/internal/fakecuda"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/stretchr/testify/require"
)

func TestConformance(t *testing.T) {
	suite := commtest.Suite{Loose: true, Counts: []int{0, 1, 7, 20_011}[:fulltests.Or(4, 3)]}
	for _, n := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			fine(t, withGroup(t, n, Options{TimeLimit: patient}, func(c comm.Comm, _ *cuda.Device) error { return suite.Check(c) }))
		})
	}
}

// freeAddress is an address of this machine at which nobody listens.
func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

func TestOpen_WithoutALibrarySaysWhatToInstall(t *testing.T) {
	rig := cudatest.New(t, 1)
	_, err := Open(rig.Devices[0], Group{Size: 1}, Options{Library: "/nonexistent/libnccl.so.2"})
	require.ErrorIs(t, err, comm.ErrUnavailable)
	for _, word := range []string{"/nonexistent/libnccl.so.2", "libnccl2", "nvidia-nccl-cu12", LibraryVariable} {
		require.ErrorContains(t, err, word)
	}
}

func TestOpen_RefusesWhatIsTooOld(t *testing.T) {
	rig := cudatest.New(t, 1, func(l *fakecuda.Library) { l.Set("nccl_version", "21303") })
	_, err := Open(rig.Devices[0], Group{Size: 1}, Options{Library: rig.Path()})
	require.ErrorIs(t, err, comm.ErrUnavailable)
	require.ErrorContains(t, err, "is version 2.13.3, and 2.14.0 is the oldest that will do")
}

// Versions differ in how a communicator is made: the id goes by value before 2.23, the configuration is shorter before 2.17.
func TestOpen_WithOlderVersions(t *testing.T) {
	for _, version := range []string{"21403", "21701", "22203"} {
		t.Run(version, func(t *testing.T) {
			fine(t, withGroup(t, 2, Options{TimeLimit: patient}, func(c comm.Comm, d *cuda.Device) error { return sums(c, d, 3) },
				func(l *fakecuda.Library) { l.Set("nccl_version", version) }))
		})
	}
}

// Calls that answer ncclInProgress are waited for before the next one.
func TestConformance_WhenCallsAreInProgress(t *testing.T) {
	fine(t, withGroup(t, 2, Options{TimeLimit: patient}, func(c comm.Comm, _ *cuda.Device) error {
		return commtest.Suite{Loose: true, Counts: []int{0, 7}}.Check(c)
	}, func(l *fakecuda.Library) { l.Set("nccl_in_progress", "3") }))
}

func TestOpen_RefusesWhatCannotBeARank(t *testing.T) {
	rig := cudatest.New(t, 1)
	d := rig.Devices[0]
	for text, err := range map[string]error{
		"package mpi takes all devices": second(Open(host.Default(), Group{Size: 1}, Options{})),
		"the device is nil":             second(Open(nil, Group{Size: 1}, Options{})),
		"rank 2 of 2":                   second(Open(d, Group{Rank: 2, Size: 2}, Options{})),
		"without a way to exchange":     second(Open(d, Group{Size: 2}, Options{})),
		"rank 0 of 0":                   second(Open(d, ByComm(nil), Options{})),
		"time limit -1ns":               second(Open(d, Group{Size: 1}, Options{TimeLimit: -1})),
	} {
		require.ErrorContains(t, err, text)
	}
}

func second[T any](_ T, err error) error { return err }

// The ranks of a loopback group meet by it.
func TestByComm(t *testing.T) {
	rig := cudatest.New(t, 2, func(l *fakecuda.Library) { l.Set("free_sync", "0") })
	start, err := comm.Loopback(host.New(), host.New())
	require.NoError(t, err)
	fine(t, together(2, func(rank int) error {
		c, err := Open(rig.Devices[rank], ByComm(start[rank]), Options{Library: rig.Path(), TimeLimit: patient})
		if err != nil {
			return err
		}
		if c.Rank() != rank || c.Size() != 2 || c.Backend() != "nccl" {
			return fmt.Errorf("%s: rank %d of %d", c.Backend(), c.Rank(), c.Size())
		}
		return errors.Join(sums(c, rig.Devices[rank], 1), c.Close(), c.Close())
	}))
}

func TestByFile_RefusesAnOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meet")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	err := ByFile(0, 2, path).Exchange(t.Context(), make([]byte, GreetingBytes))
	require.ErrorIs(t, err, os.ErrExist)
	require.ErrorContains(t, err, "started before")
}

// A stranger who finds the port is no rank.
func TestMeeting_TakesNoStrangers(t *testing.T) {
	rig := cudatest.New(t, 2, func(l *fakecuda.Library) { l.Set("free_sync", "0") })
	address := freeAddress(t)
	meetAt := filepath.Join(t.TempDir(), "meet")
	group := func(rank int) Group {
		g := ByFile(rank, 2, meetAt)
		exchange := g.Exchange
		g.Exchange = func(ctx context.Context, greeting []byte) error {
			if rank == 0 { // it listens, and the others do not know yet
				c, err := net.Dial("tcp", address)
				require.NoError(t, err)
				_, err = c.Write([]byte(`{"kind":"hello","rank":1,"size":2,"token":"AAAA"}` + "\n"))
				require.NoError(t, err)
				t.Cleanup(func() {
					_, err := c.Read(make([]byte, 1))
					require.Error(t, err, "the stranger was answered")
				})
			}
			return exchange(ctx, greeting)
		}
		return g
	}
	fine(t, together(2, func(rank int) error {
		c, err := Open(rig.Devices[rank], group(rank), Options{Library: rig.Path(), TimeLimit: patient, Address: address})
		if err != nil {
			return err
		}
		return errors.Join(sums(c, rig.Devices[rank], 1), c.Close())
	}))
}

func TestEnqueue_RefusesCaptures(t *testing.T) {
	errs := withGroup(t, 1, Options{TimeLimit: patient}, func(c comm.Comm, d *cuda.Device) error {
		s, err := d.NewStream()
		if err != nil {
			return err
		}
		b, err := buffer(d, 4)
		if err != nil {
			return err
		}
		own := s.(*cuda.Stream)
		if err := own.BeginCapture(); err != nil {
			return err
		}
		refused := c.AllReduce(s, b, b, comm.Sum)
		g, err := own.EndCapture()
		if err == nil {
			err = g.Close()
		}
		if !errors.Is(refused, comm.ErrUnavailable) {
			return fmt.Errorf("in a capture: %v", refused)
		}
		return errors.Join(err, s.Close(), d.Free(b.Ptr))
	})
	fine(t, errs)
}
