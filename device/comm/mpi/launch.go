package mpi

import (
	"fmt"
	"os"
	"strconv"
)

// launcherVariables are those in which a launcher says how many ranks it has started, which of them a process is, and how many are on its machine, "" for none.
type launcherVariables struct{ variable, rank, local, name string }

// launchers have the innermost first: Slurm's variables are also there when mpirun was started in a job of Slurm's, and then mpirun's count.
var launchers = []launcherVariables{
	{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "Open MPI's mpirun"},
	{"PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", "a launcher of MPICH's kind"},
	{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "", "srun"},
	{"SLURM_NTASKS", "SLURM_PROCID", "", "Slurm"},
}

// checkLaunch returns how the launcher's number of ranks differs from the library's, or "".
func checkLaunch(size int, library string) string {
	for _, l := range launchers {
		text := os.Getenv(l.variable)
		if text == "" {
			continue
		}
		want, err := strconv.Atoi(text)
		if err != nil || want == size {
			return ""
		}
		return fmt.Sprintf("%s started %d ranks (%s), but for %s the group has %d: use the launcher of that library, with srun the --mpi type "+
			"that it was built for, or name the launcher's library in %s", l.name, want, l.variable, library, size, LibraryVariable)
	}
	return ""
}
