package cuda_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	_ "github.com/cistern-ml/cistern/device/host"
)

// reportVariable makes the test binary print what it knows of CUDA devices and end: the driver is loaded once per process,
// so each state of it needs a process of its own.
const reportVariable = "CISTERN_TEST_REPORT"

func TestMain(m *testing.M) {
	if os.Getenv(reportVariable) != "" {
		report(os.Stdout)
		return
	}
	os.Exit(cudatest.Main(m))
}

func report(w *os.File) {
	lines := []string{"default " + device.Default().ID().String(), "count " + string(rune('0'+device.Count(device.CUDA)))}
	if err := cuda.Unavailable(); err != nil {
		lines = append(lines, "unavailable "+err.Error())
	}
	if _, err := device.Open("cuda:0"); err != nil {
		lines = append(lines, "open "+err.Error())
	}
	major, _ := cuda.DriverVersion()
	lines = append(lines, "version "+string(rune('0'+major)))
	_, _ = w.WriteString(strings.Join(lines, "\n"))
}

// reportWith runs report in a process with another driver library.
func reportWith(t *testing.T, library string) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	command := exec.Command(self)
	command.Env = append(os.Environ(), reportVariable+"=1", "CISTERN_CUDA_LIBRARY="+library)
	out, err := command.CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

func TestOpen_WithoutADriverSaysWhatWasTried(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "libcuda.so.1")
	out := reportWith(t, missing)
	require.Contains(t, out, "default host\n")
	require.Contains(t, out, "count 0\n")
	require.Contains(t, out, "unavailable cuda:0: Open: device unavailable (no NVIDIA driver library found; tried: ")
	require.Contains(t, out, "open cuda:0: Open: device unavailable (no NVIDIA driver library found; tried: ")
	require.Contains(t, out, missing)
	require.Contains(t, out, "version 0")
}

// TestOpen_WithADriverAndNoDevice needs a real driver library and no GPU: Debian's package libcuda1 is enough. CI downloads it
// and names the file. For a user who may, the driver makes a device file that would stay.
func TestOpen_WithADriverAndNoDevice(t *testing.T) {
	library := os.Getenv("CISTERN_TEST_LIBCUDA")
	if library == "" {
		t.Skip("CISTERN_TEST_LIBCUDA does not name a driver library (Debian: libcuda1, non-free) to try on a machine without a GPU")
	}
	const made = "/dev/nvidiactl"
	if _, err := os.Stat(made); os.IsNotExist(err) {
		t.Cleanup(func() { _ = os.Remove(made) })
	}
	out := reportWith(t, library)
	require.Contains(t, out, "count 0\n")
	require.Contains(t, out, "default host\n")
	require.Contains(t, out, "CUDA_ERROR_NO_DEVICE (100): the driver is there and sees no GPU")
}
