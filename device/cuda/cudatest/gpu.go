package cudatest

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
)

// GPUVariable is the environment variable that lets tests use the machine's first GPU when it is "1". Not everybody who runs
// the tests wants them to fill a GPU that others compute on.
const GPUVariable = "CISTERN_GPU_TESTS"

// GPU returns the device "cuda:0" of the driver that programs use. Without GPUVariable the test is skipped; with it, a
// missing driver or GPU is a failure. The device is the process's: tests share it, and give back what they take. Their names
// begin with TestGPU, by which benchmarks/gpu/run.sh finds them.
func GPU(t testing.TB) *cuda.Device {
	t.Helper()
	if os.Getenv(GPUVariable) != "1" {
		t.Skipf("cudatest: SKIPPED: %s=1 lets this test use cuda:0", GPUVariable)
	}
	d, err := cuda.Open(0)
	require.NoError(t, err)
	return d
}

// Main runs a package's tests and returns the exit code. Where GPUVariable lets tests use the GPU, it ends the process's devices after
// them, so that profilers and compute-sanitizer see their end. Packages that call GPU have
//
//	func TestMain(m *testing.M) { os.Exit(cudatest.Main(m)) }
func Main(m *testing.M) int {
	code := m.Run()
	if os.Getenv(GPUVariable) != "1" {
		return code
	}
	if err := device.Shutdown(); err != nil {
		fmt.Fprintln(os.Stderr, "cudatest:", err)
		code = max(code, 1)
	}
	return code
}
