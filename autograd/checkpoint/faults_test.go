package checkpoint_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/internal/atomicfile"
)

var errDisk = errors.New("the disk fails")

// failing is a file system of which the write number write fails, the correction of the header, or the renaming.
type failing struct {
	atomicfile.OS
	write            int
	header, renaming bool
}

func (s *failing) Create(path string, mode fs.FileMode) (atomicfile.File, error) {
	f, err := s.OS.Create(path, mode)
	return &failingFile{f, s}, err
}

func (s *failing) Rename(from, to string) error {
	if s.renaming {
		return errDisk
	}
	return s.OS.Rename(from, to)
}

type failingFile struct {
	atomicfile.File
	s *failing
}

func (f *failingFile) Write(b []byte) (int, error) {
	if f.s.write--; f.s.write == 0 {
		n, _ := f.File.Write(b[:len(b)/2])
		return n, errDisk
	}
	return f.File.Write(b)
}

func (f *failingFile) WriteAt(b []byte, at int64) (int, error) {
	if f.s.header {
		return 0, errDisk
	}
	return f.File.WriteAt(b, at)
}

func TestWriteFile_OnAFailingDisk_LeavesTheOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "run.safetensors")
	m, err := newMarked()
	require.NoError(t, err)
	defer m.model.Release()
	require.NoError(t, m.save(path, 1))
	for name, sys := range map[string]*failing{
		"first write": {write: 1}, "second write": {write: 2}, "header": {header: true}, "rename": {renaming: true},
	} {
		m.step = 2
		err := m.checkpoint().On(sys).WriteFile(context.Background(), path)
		require.ErrorIs(t, err, errDisk, name)
		require.ErrorContains(t, err, path, name)
		if name == "rename" {
			var failed *checkpoint.FileError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, "rename", failed.Op)
		}
		got, err := m.load(path)
		require.NoError(t, err)
		require.Equal(t, 1, got, name)
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, files, 1, name)
	}
}
