package checkpoint_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
)

func init() { tasks["limited"] = saveLimited }

// saveLimited saves where files can have a megabyte, which is less than it takes. It returns the error.
func saveLimited(path string, step int) error {
	signal.Ignore(syscall.SIGXFSZ) // which would end the process
	m, err := newMarked()
	if err == nil {
		err = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1 << 20, Max: 1 << 20})
	}
	if err != nil {
		return fmt.Errorf("the test cannot begin: %w", err)
	}
	return m.save(path, step)
}

func TestWriteFile_ThatGetsTooLarge_LeavesTheOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "run.safetensors")
	m, err := newMarked()
	require.NoError(t, err)
	defer m.model.Release()
	require.NoError(t, m.save(path, 1))
	out, err := child("limited", path, 2).Output()
	require.Error(t, err)
	require.Contains(t, string(out), syscall.EFBIG.Error())
	require.True(t, strings.HasPrefix(string(out), "checkpoint: "+path+": write "), "%s", out)
	requireOnly(t, m, path, 1)
}

// requireOnly checks that a file is the checkpoint of a step, and alone in its folder.
func requireOnly(t *testing.T, m *marked, path string, step int) {
	t.Helper()
	got, err := m.load(path)
	require.NoError(t, err)
	require.Equal(t, step, got)
	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, files, 1)
}

func TestWriteFile_OnAFullFileSystem_LeavesTheOldFile(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=5m"); err != nil {
		t.Skipf("SKIPPED: no small file system can be mounted here: %v", err)
	}
	defer func() { require.NoError(t, syscall.Unmount(dir, 0)) }()
	path := filepath.Join(dir, "run.safetensors") // there is room for one file of 2.8 MB, not for two
	m, err := newMarked()
	require.NoError(t, err)
	defer m.model.Release()
	require.NoError(t, m.save(path, 1))
	for range 3 {
		err = m.save(path, 2)
		var failed *checkpoint.FileError
		require.ErrorAs(t, err, &failed)
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.Equal(t, path, failed.File)
		requireOnly(t, m, path, 1)
	}
}

func TestWrite_ToAFullDevice_IsAnError(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("SKIPPED: ", err)
	}
	defer full.Close()
	m, err := newMarked()
	require.NoError(t, err)
	defer m.model.Release()
	require.ErrorIs(t, m.checkpoint().Write(context.Background(), full), syscall.ENOSPC)
	require.ErrorIs(t, nn.Save(full, m.model), syscall.ENOSPC)
	require.Error(t, m.checkpoint().WriteFile(context.Background(), "/dev/full"), "it is no file that could be replaced")
}
