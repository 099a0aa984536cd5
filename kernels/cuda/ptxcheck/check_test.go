package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse_ReadsEachKernel(t *testing.T) {
	report := `ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'add_f32_v' for 'sm_80'
ptxas info    : Function properties for add_f32_v
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 27 registers, 424 bytes cmem[0]
ptxas info    : Compiling entry function 'softmax_f32' for 'sm_80'
ptxas info    : Function properties for softmax_f32
    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 255 registers, 1024 bytes smem, 424 bytes cmem[0]
`
	require.Equal(t, map[string]usage{
		"add_f32_v": {registers: 27}, "softmax_f32": {registers: 255, shared: 1024, stack: 8, spilled: 28},
	}, parse(report))
}

func TestProblems_AreStackAndSpillsAndMissingReports(t *testing.T) {
	good := make([]usage, len(architectures))
	bad := append([]usage{{spilled: 4}}, good[1:]...)
	require.Empty(t, problems([]row{{kernel: "a", usage: good}}))
	require.Len(t, problems([]row{{kernel: "a", usage: bad}, {kernel: "b", usage: good[1:]}, {kernel: "c", usage: good}}), 2)
}

// The driver's compiler is what will compile the PTX at the user's. Where the library is not, this cannot be tested.
func TestKernels_CompileForAllArchitecturesWithoutSpills(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	c, err := open(candidates())
	if err != nil {
		t.Skipf("SKIPPED: no PTX compiler (set %s): %v", Variable, err)
	}
	rows, err := check(c, filepath.Join("..", "ptx"))
	require.NoError(t, err)
	require.Empty(t, problems(rows))
	require.NotEmpty(t, rows)
}

func TestTable_IsCommitted(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "registers.md"))
	require.NoError(t, err)
	require.Contains(t, string(data), "No kernel has a stack frame or spills registers.")
}
