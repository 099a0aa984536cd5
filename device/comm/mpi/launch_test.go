package mpi

import (
	"testing"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/stretchr/testify/require"
)

func clearLaunch(t *testing.T) {
	for _, l := range launchers {
		t.Setenv(l.variable, "")
	}
}

func TestCheckLaunch_ComparesWithTheInnermostLauncher(t *testing.T) {
	clearLaunch(t)
	require.Empty(t, checkLaunch(1, "MPI"), "no launcher")
	t.Setenv("SLURM_NTASKS", "8")
	require.Contains(t, checkLaunch(1, "MPICH (libmpich.so.12)"),
		"Slurm started 8 ranks (SLURM_NTASKS), but for MPICH (libmpich.so.12) the group has 1")
	require.Empty(t, checkLaunch(8, "MPI"))
	t.Setenv("OMPI_COMM_WORLD_SIZE", "2")
	require.Empty(t, checkLaunch(2, "MPI"), "mpirun -n 2 in a job of 8 tasks")
	require.Contains(t, checkLaunch(1, "MPI"), "Open MPI's mpirun started 2 ranks")
}

func TestOpen_WithoutALibrarySaysWhatToInstall(t *testing.T) {
	_, err := Open(host.Default(), Options{Library: "/nonexistent/libmpi.so"})
	require.ErrorIs(t, err, comm.ErrUnavailable)
	var e *comm.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "Open", e.Operation)
	for _, word := range []string{"/nonexistent/libmpi.so", "openmpi-bin", "mpich", LibraryVariable} {
		require.Contains(t, e.Error(), word)
	}
}

func TestOpen_RefusesWhatCannotBeARank(t *testing.T) {
	_, err := Open(nil, Options{})
	require.ErrorIs(t, err, device.ErrInvalidValue)
	_, err = Open((*host.Device)(nil), Options{})
	require.ErrorIs(t, err, device.ErrInvalidValue)
	_, err = Open(sim.New(device.MiB), Options{})
	require.ErrorIs(t, err, comm.ErrUnavailable)
	require.ErrorContains(t, err, "comm.Simulated")
	_, err = Open(host.Default(), Options{TimeLimit: -1})
	require.ErrorIs(t, err, device.ErrInvalidValue)
}
