package mpi

import (
	"os/exec"
	"testing"
	"time"

	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/comm/commtest"
	"github.com/cistern-ml/cistern/internal/fakecuda"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/internal/ranktest"
	"github.com/stretchr/testify/require"
)

// programs are what ranks can run.
var programs = map[string]func(c comm.Comm, args arguments) error{
	"place":   placeProgram,
	"times":   timesProgram,
	"fault":   faultProgram,
	"follow":  followProgram,
	"rounds":  roundsProgram,
	"ends":    endsProgram,
	"aborted": abortedProgram,
	"late":    lateProgram,
	"conform": func(c comm.Comm, args arguments) error { return commtest.Check(c, args.Counts...) },
}

func TestMPI_Conforms(t *testing.T) {
	withLaunchers(t, func(t *testing.T, l launcher) {
		args := arguments{TimeLimit: time.Minute}
		if !fulltests.Enabled() {
			args.Counts = []int{0, 1, 7, 5001}
		}
		l.succeed(t, 2, "conform", args)
		l.succeed(t, 3, "conform", arguments{TimeLimit: time.Minute, Counts: []int{7}}) // thirds are not exact
	})
}

// Small pieces stand for large counts: what does not fit in one message, or in scratch memory, goes in several.
func TestMPI_ConformsInPieces(t *testing.T) {
	withLaunchers(t, func(t *testing.T, l launcher) {
		l.succeed(t, 4, "conform", arguments{TimeLimit: time.Minute, Pieces: 4096, Check: true, Counts: []int{1, 3001}})
	})
}

// GPUs of the emulated driver: their memory is copied to the host and back.
func TestMPI_ConformsOnGPUs(t *testing.T) {
	driver := fakecuda.Build(t)
	withLaunchers(t, func(t *testing.T, l launcher) {
		l.succeed(t, 2, "conform", arguments{TimeLimit: time.Minute, Driver: driver, Counts: []int{0, 7, 3001}})
	})
}

// The launcher of one library with the other library would make n groups of one.
func TestOpen_TellsThatTheLauncherIsAnotherLibrarys(t *testing.T) {
	t.Setenv(LibraryVariable, "libmpich.so.12")
	l := launcher{ranktest.Launchers()[0]}
	for _, command := range []string{l.Command[0], "mpiexec.hydra"} {
		if _, err := exec.LookPath(command); err != nil {
			ranktest.Lacking(t, "%s is not installed: apt-get install openmpi-bin mpich", command)
		}
	}
	run := l.start(t, 2, "place", arguments{})
	all, err := run.wait(patient)
	require.Error(t, err)
	require.Equal(t, "unavailable", all[-1].Kind)
	require.Contains(t, all[-1].Text, "Open MPI's mpirun started 2 ranks (OMPI_COMM_WORLD_SIZE), but for MPICH (libmpich.so.12) the group has 1")
}

// Without a launcher the group is one rank.
func TestOpen_AloneIsAGroupOfOne(t *testing.T) {
	withLaunchers(t, func(t *testing.T, l launcher) {
		library := map[string]string{"OpenMPI": "libmpi.so.40", "MPICH": "libmpich.so.12"}[l.Name]
		t.Setenv(LibraryVariable, library)
		run := startLine(t, []string{ranktest.Binary(t)}, "conform", arguments{})
		all, err := run.wait(patient)
		require.NoError(t, err, run.Output.String())
		require.Empty(t, all[0].Text)
	})
}
