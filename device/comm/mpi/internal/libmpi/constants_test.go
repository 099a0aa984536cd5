package libmpi

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The compilers of Debian's packages, which know the headers.
var compilers = []struct {
	abi     ABI
	command string
	needs   string
}{
	{OpenMPI, "mpicc.openmpi", "libopenmpi-dev openmpi-bin gcc"},
	{MPICH, "mpicc.mpich", "libmpich-dev mpich gcc"},
}

// program is a C program that prints what the headers say. Handles of Open MPI are printed as the names of the variables that they point to.
func program() string {
	var b strings.Builder
	b.WriteString(`#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#ifdef OPEN_MPI
#define H(name) { Dl_info i; printf("%s %s\n", #name, dladdr((void *)name, &i) ? i.dli_sname : "unknown"); }
#else
#define H(name) printf("%s %lld\n", #name, (long long)(uint32_t)name);
#endif
#define V(name) printf("%s %lld\n", #name, (long long)(intptr_t)(name));
int main(void) {
	V(sizeof(MPI_Request)) V(sizeof(MPI_Comm)) V(sizeof(MPI_Datatype)) V(sizeof(MPI_Op))
	V(MPI_IN_PLACE) V(MPI_STATUS_IGNORE) V(MPI_ANY_SOURCE) V(MPI_ANY_TAG) V(MPI_THREAD_FUNNELED) V(MPI_MAX_ERROR_STRING) V(MPI_SUCCESS)
`)
	for _, h := range handles {
		fmt.Fprintf(&b, "\tH(%s)\n", h.name)
	}
	b.WriteString("\treturn 0;\n}\n")
	return b.String()
}

func TestConstants_AreThoseOfTheHeaders(t *testing.T) {
	for _, c := range compilers {
		t.Run(c.abi.String(), func(t *testing.T) {
			if _, err := exec.LookPath(c.command); err != nil {
				if os.Getenv("CISTERN_TEST_MPI") == "require" {
					t.Fatalf("%s is not installed: apt-get install %s", c.command, c.needs)
				}
				t.Skipf("SKIPPED: %s is not installed: apt-get install %s", c.command, c.needs)
			}
			folder := t.TempDir()
			source, binary := filepath.Join(folder, "constants.c"), filepath.Join(folder, "constants")
			require.NoError(t, os.WriteFile(source, []byte(program()), 0o600))
			out, err := exec.Command(c.command, "-o", binary, source, "-ldl").CombinedOutput()
			require.NoError(t, err, "%s", out)
			out, err = exec.Command(binary).Output()
			require.NoError(t, err)
			require.Equal(t, expectation(c.abi), strings.Split(strings.TrimSpace(string(out)), "\n"))
		})
	}
}

// expectation is what this package says, in the words of the program.
func expectation(abi ABI) []string {
	v := values[abi]
	var lines []string
	add := func(name string, value int64) { lines = append(lines, fmt.Sprintf("%s %d", name, value)) }
	for _, what := range []string{"MPI_Request", "MPI_Comm", "MPI_Datatype", "MPI_Op"} {
		add("sizeof("+what+")", int64(v.HandleBytes))
	}
	add("MPI_IN_PLACE", int64(v.InPlace))
	add("MPI_STATUS_IGNORE", int64(v.StatusIgnore))
	add("MPI_ANY_SOURCE", int64(v.AnySource))
	add("MPI_ANY_TAG", int64(v.AnyTag))
	add("MPI_THREAD_FUNNELED", int64(v.Funneled))
	add("MPI_MAX_ERROR_STRING", int64(v.ErrorString))
	add("MPI_SUCCESS", 0)
	for _, h := range handles {
		if abi == OpenMPI {
			lines = append(lines, h.name+" "+h.variable)
			continue
		}
		add(h.name, int64(h.mpich))
	}
	return lines
}

func TestOpen_SaysWhatWasLookedFor(t *testing.T) {
	_, err := Open("/nonexistent/libmpi.so")
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorContains(t, err, "/nonexistent/libmpi.so")
}

func TestFiles_BeginWithTheLaunchersLibrary(t *testing.T) {
	t.Setenv("OMPI_COMM_WORLD_SIZE", "")
	t.Setenv("PMI_SIZE", "2")
	require.Equal(t, "libmpich.so.12", Files()[0])
	t.Setenv("OMPI_COMM_WORLD_SIZE", "2")
	require.Equal(t, "libmpi.so.40", Files()[0])
}

func TestOneLine_IsWhatFailedAndWhy(t *testing.T) {
	require.Equal(t, "no text", oneLine("\n"))
	require.Equal(t, "Invalid root", oneLine("Invalid root"))
	require.Equal(t, "Invalid root, error stack: ... root 9 of 2", oneLine("Invalid root, error stack:\nPMPI_Bcast(1)\nroot 9 of 2\n"))
}
