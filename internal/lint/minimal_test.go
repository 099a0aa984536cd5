package lint_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/internal/fulltests"
)

// What package tensor costs those who import it. Vectors for functions of float64 are 45 KB of it, comparisons 28, reductions of columns 30, and functions of
// both types by AVX-512 186; what has come since, products by AVX-512 and of bfloat16 among it, is 220. A part of that are symbols for debuggers.
const (
	mostBytes    = 16.18e6 // of a program that adds two tensors, built without flags: 16.16e6, of which 2.30e6 are kernels for GPUs
	mostPackages = 10      // of other modules below ./tensor
)

func TestTensor_IsLightToImport(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{$.ImportPath}}{{end}}{{end}}", "../../tensor").Output()
	require.NoError(t, err)
	others := strings.Fields(string(out))
	require.LessOrEqual(t, len(others), mostPackages, "%v", others)
}

func TestTensor_MakesNoLargeProgram(t *testing.T) {
	if !fulltests.Enabled() {
		t.Skip("builds a program: in full tests only")
	}
	program := filepath.Join(t.TempDir(), "minimal.exe")
	build := exec.Command("go", "build", "-o", program, "./testdata/minimal")
	build.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	info, err := os.Stat(program)
	require.NoError(t, err)
	require.LessOrEqual(t, info.Size(), int64(mostBytes), "%d bytes", info.Size())
	t.Logf("%d bytes", info.Size())
}
