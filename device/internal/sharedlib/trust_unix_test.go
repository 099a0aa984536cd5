//go:build unix

package sharedlib

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDistrust_AsRootOfWhatOthersCanChange(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lib", "libcublas.so.12")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	folder := filepath.Dir(file)
	require.Empty(t, distrust(file, 1000), "who is not root may load what it finds")
	if os.Geteuid() != 0 {
		require.Contains(t, distrust(file, 0), "belongs to user")
		return
	}
	require.Empty(t, distrust(file, 0))
	require.NoError(t, os.Chmod(folder, 0o777))
	require.Contains(t, distrust(file, 0), "everybody may write to "+folder)
	require.NoError(t, os.Chmod(folder, 0o755))
	require.NoError(t, os.Chown(folder, 1234, 0))
	require.Contains(t, distrust(file, 0), folder+" belongs to user 1234")
	link := filepath.Join(t.TempDir(), "libcublas.so.12")
	require.NoError(t, os.Symlink(file, link))
	require.Contains(t, distrust(link, 0), "1234", "a link is where it leads")
	require.NotEmpty(t, distrust(filepath.Join(folder, "none"), 0))

	for _, name := range []string{"CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "HOME"} {
		t.Setenv(name, "")
	}
	const variable = "CISTERN_TEST_LIBRARY"
	t.Setenv("CONDA_PREFIX", filepath.Dir(folder))
	names, passed := Candidates(variable, []string{"libcublas.so.12"}, "cublas")
	require.NotContains(t, names, file)
	require.Len(t, passed, 1)
	require.Contains(t, passed[0], "name it in "+variable)
	t.Setenv(variable, file)
	names, _ = Candidates(variable, []string{"libcublas.so.12"}, "cublas")
	require.Equal(t, []string{file}, names, "what the user names is tried wherever it is")
}
