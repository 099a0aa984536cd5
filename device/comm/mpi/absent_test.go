package mpi

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const mapped = "/usr/lib/libmpi.so.40.30"

// maps is what Linux says of the memory of a process, with a library or without.
func maps(loaded bool) string {
	text := "00400000-00500000 r-xp 00000000 08:01 99 /home/user/train\n7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n"
	if loaded {
		text += "7f1000000000-7f1000100000 r-xp 00000000 08:01 4711                       " + mapped + "\n"
	}
	return text
}

// aProcess writes a folder of /proc. What has no maps does not let itself be looked at.
func aProcess(t *testing.T, proc string, pid, parent int, maps string, env ...string) {
	t.Helper()
	folder := filepath.Join(proc, strconv.Itoa(pid))
	require.NoError(t, os.Mkdir(folder, 0o700))
	files := map[string]string{"environ": strings.Join(env, "\x00") + "\x00", "stat": fmt.Sprintf("%d (a (b) c) S %d 1 1", pid, parent)}
	if maps != "" {
		files["maps"] = maps
	}
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
}

func TestAbsent_LooksAtTheProcessesOfTheLauncher(t *testing.T) {
	const code = 0x7f1000000010
	openMPI := func(rank int, space string) []string {
		return []string{"A=B", fmt.Sprintf("OMPI_COMM_WORLD_RANK=%d", rank), "OMPI_COMM_WORLD_SIZE=4", "PMIX_NAMESPACE=" + space}
	}
	mpich := func(rank int) []string { return []string{fmt.Sprintf("PMI_RANK=%d", rank), "PMI_SIZE=4"} }
	mine, other := os.Getppid(), os.Getppid()+1
	for name, c := range map[string]struct {
		own   []string
		local string // ranks of this machine
		make  func(t *testing.T, proc string)
		text  string
		peer  int
	}{
		"one has not": {openMPI(0, "7"), "3", func(t *testing.T, proc string) {
			aProcess(t, proc, 11, other, maps(true), openMPI(1, "7")...)
			aProcess(t, proc, 12, other, maps(false), openMPI(2, "7")...)
			aProcess(t, proc, 13, other, maps(false), openMPI(3, "8")...) // another job's
		}, "of this machine's ranks, rank 2 (process 12) has not loaded the library", 2},
		"two have not, one has ended": {mpich(3), "4", func(t *testing.T, proc string) {
			aProcess(t, proc, 11, mine, maps(false), mpich(0)...)
			aProcess(t, proc, 12, mine, maps(false), mpich(1)...)
			aProcess(t, proc, 13, other, maps(true), mpich(2)...) // another launcher's
		}, "of this machine's ranks, 0 (process 11), 1 (process 12), 2 (no process) have not loaded the library", -1},
		"a shell and its program": {openMPI(0, "7"), "2", func(t *testing.T, proc string) {
			aProcess(t, proc, 11, other, maps(false), openMPI(1, "7")...)
			aProcess(t, proc, 12, 11, maps(true), openMPI(1, "7")...)
		}, "of this machine's ranks this one, and 1 other, have loaded the library", -1},
		"not to be looked at": {openMPI(0, "7"), "2", func(t *testing.T, proc string) {
			aProcess(t, proc, 11, other, "", openMPI(1, "7")...)
		}, "and 1 other", -1},
		"other machines": {openMPI(0, "7"), "1", func(*testing.T, string) {}, "", -1},
	} {
		t.Run(name, func(t *testing.T) {
			clearLaunch(t)
			t.Setenv("OMPI_COMM_WORLD_LOCAL_SIZE", c.local)
			t.Setenv("MPI_LOCALNRANKS", c.local)
			proc := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(proc, "self"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(proc, "self", "maps"), []byte(maps(true)), 0o600))
			aProcess(t, proc, 10, mine, maps(true), c.own...)
			l, ok := launchedBy(environment(filepath.Join(proc, "10")))
			require.True(t, ok)
			c.make(t, proc)
			text, peer := l.absent(proc, code)
			require.Contains(t, text, c.text)
			require.Equal(t, c.text == "", text == "")
			require.Equal(t, c.peer, peer)
			text, peer = l.absent(filepath.Join(proc, "none"), code) // as on other systems
			require.Empty(t, text)
			require.Equal(t, -1, peer)
		})
	}
}
