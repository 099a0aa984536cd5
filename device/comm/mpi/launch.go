package mpi

import (
	"fmt"
	"os"
	"strconv"
)

// launchers are the variables in which launchers say how many ranks they have started, the innermost first: Slurm's are also there when
// mpirun was started in a job of Slurm's, and then mpirun's count.
var launchers = []struct{ variable, name string }{
	{"OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun"},
	{"PMI_SIZE", "a launcher of MPICH's kind"},
	{"SLURM_STEP_NUM_TASKS", "srun"},
	{"SLURM_NTASKS", "Slurm"},
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
