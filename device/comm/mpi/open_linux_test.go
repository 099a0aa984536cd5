package mpi

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mayCome is the file by which a test lets a late rank come to Open.
const mayCome = "may-come"

// texts are the errors of all ranks, also of those that have no number.
func (r *launched) texts() (all []string) {
	files, err := filepath.Glob(filepath.Join(r.folder, "*.json"))
	require.NoError(r.t, err)
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(r.t, err)
		all = append(all, string(b))
	}
	return all
}

// A rank that does not come to Open is waited for within the time limit. MPI does not say who it is, but on one machine the processes do.
func TestOpen_WaitsWithinTheTimeLimit(t *testing.T) {
	withLaunchers(t, func(t *testing.T, l launcher) {
		run := l.start(t, 3, "place", arguments{TimeLimit: limit, Victim: 1, Fault: "late"}, l.Recover...)
		run.until("no rank has given up", func() bool { return len(run.texts()) > 0 })
		host, err := os.Hostname()
		require.NoError(t, err)
		text := run.texts()[0]
		require.Contains(t, text, "timeout")
		// On a busy machine another rank may not have come by then either.
		require.Regexp(t, `mpi: rank [02]: Open: time limit exceeded:? (rank 1 )?\(MPI_Init_thread of .* has not returned within 1s on `+host+`, one of 3 ranks by (OMPI_COMM_WORLD_SIZE|PMI_SIZE): a rank has not come to Open, or is lost: `+
			`of this machine's ranks, .*1 \(process \d+\).* (has|have) not loaded the library, as Open does; end the process`, text)
		// Not before: the other rank, which gives up a moment later, would find that the late one has come, and that it is the first which is gone.
		require.NoError(t, os.WriteFile(filepath.Join(run.folder, mayCome), nil, 0o600))
		_, _ = run.wait(patient)
	})
}

// Ranks with different options are told when they open.
func TestOpen_ComparesTheOptions(t *testing.T) {
	faults := map[string]string{"check": "Options.Check is false on rank 0, and true on rank 1", "limit": "Options.TimeLimit is 20s on rank 0, and 40s on rank 1"}
	withLaunchers(t, func(t *testing.T, l launcher) {
		for fault, says := range faults {
			run := l.start(t, 3, "place", arguments{TimeLimit: 20 * time.Second, Victim: 1, Fault: fault}, l.Recover...)
			_, _ = run.wait(patient) // a launcher that lets the others live says nothing
			all := run.texts()
			require.Len(t, all, 3, run.Output.String())
			for _, text := range all {
				require.Contains(t, text, says)
				require.Contains(t, text, "mismatch")
			}
		}
	})
}
