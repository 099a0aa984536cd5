package driver

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLoad_WithoutALibraryNamesWhatWasTried(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "libcuda.so.1")
	t.Setenv(LibraryVariable, missing)
	_, err := Load()
	var load *LoadError
	require.ErrorAs(t, err, &load)
	require.Len(t, load.Tried, 1)
	require.ErrorContains(t, err, missing)
}

func TestLoad_OfALibraryThatIsNoDriverSaysWhatItLacks(t *testing.T) {
	file := map[string]string{"linux": "libc.so.6", "darwin": "/usr/lib/libSystem.B.dylib"}[runtime.GOOS]
	if file == "" {
		t.Skip("no library is known that is certainly there")
	}
	t.Setenv(LibraryVariable, file)
	_, err := Load()
	require.ErrorContains(t, err, "has no function cuInit")
}

func TestCandidates_FollowTheVariable(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "my-driver.so")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	t.Setenv(LibraryVariable, file+string(filepath.ListSeparator)+dir)
	want := []string{file, filepath.Join(dir, libraryName)}
	if libraryName == "" {
		want[1] = dir
	}
	require.Equal(t, want, candidates())
}

func TestCandidates_BeginWithThePlainName(t *testing.T) {
	t.Setenv(LibraryVariable, "")
	names := candidates()
	if libraryName == "" {
		require.Empty(t, names)
		return
	}
	require.Equal(t, libraryName, names[0])
	for _, name := range names {
		require.NotContains(t, name, "stubs")
	}
}

func TestErrors_TellUsersWhatTheyCanDo(t *testing.T) {
	for result, hint := range map[Result]string{
		NoDevice: "--gpus all", SystemDriverMismatch: "reboot", StubLibrary: "stub", Unknown: "dmesg",
	} {
		err := &InitError{Path: "libcuda.so.1", Func: Init, Result: result}
		require.Contains(t, err.Error(), "cuInit of libcuda.so.1: CUDA_ERROR_")
		require.Contains(t, err.Error(), hint)
	}
	require.Equal(t, "NVIDIA makes no driver for this operating system", (&LoadError{}).Error())
}

func TestFunc_HasAName(t *testing.T) {
	seen := map[string]bool{}
	for f := range numFuncs {
		require.NotEmpty(t, f.String())
		require.False(t, seen[f.String()], f.String())
		require.True(t, f == Foreign || strings.HasPrefix(f.String(), "cu"), f.String())
		seen[f.String()] = true
	}
	require.Equal(t, "Func(250)", Func(250).String())
}

func TestResult_HasANameAndAClass(t *testing.T) {
	require.Equal(t, "CUDA_ERROR_OUT_OF_MEMORY (2)", OutOfMemory.String())
	require.Equal(t, "CUDA_ERROR (12345)", Result(12345).String())
	require.True(t, IllegalAddress.Sticky())
	require.True(t, LaunchFailed.Sticky())
	require.False(t, OutOfMemory.Sticky())
	require.False(t, NotReady.Sticky())
	require.True(t, StreamCaptureUnsupported.CaptureViolation())
	require.True(t, Result(908).CaptureViolation())
	require.False(t, Result(909).CaptureViolation())
	require.False(t, Unknown.CaptureViolation())
}
