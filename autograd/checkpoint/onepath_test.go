package checkpoint_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
)

// Errors of files name the file once, and what was done with it.
func TestErrors_NameAFileOnce(t *testing.T) {
	ctx, dir := context.Background(), filepath.Join(t.TempDir(), "folder of runs") // a name that is in no other part of the path
	require.NoError(t, os.Mkdir(dir, 0o700))
	step := func() *checkpoint.Checkpoint { return checkpoint.New().Add("step", checkpoint.Value(new(int))) }
	absent := filepath.Join(dir, "absent", "run.safetensors")
	long := filepath.Join(dir, strings.Repeat("x", 300))
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(long, link))
	for name, c := range map[string]struct {
		path string
		err  error
		op   string
	}{
		"read what is not there":     {absent, step().ReadFile(ctx, absent), "open"},
		"read a folder":              {dir, step().ReadFile(ctx, dir), "read"},
		"write where no folder is":   {absent, step().WriteFile(ctx, absent), ": find its folder: no such file or directory"},
		"write to a folder":          {dir, step().WriteFile(ctx, dir), "write"},
		"write to a long name":       {long, step().WriteFile(ctx, long), "find"},
		"write to a link to no file": {link, step().WriteFile(ctx, link), "find"},
	} {
		require.Error(t, c.err, name)
		require.Contains(t, c.err.Error(), c.op, name)
		require.Equal(t, 1, strings.Count(c.err.Error(), c.path), "%s: %v", name, c.err)
		require.Equal(t, 1, strings.Count(c.err.Error(), filepath.Base(c.path)), "%s: %v", name, c.err)
		require.Less(t, len(c.err.Error()), len(c.path)+400, "%s: %v", name, c.err)
		require.NotContains(t, c.err.Error(), "\n", name)
		t.Log(c.err)
	}
	require.ErrorIs(t, step().WriteFile(ctx, absent), fs.ErrNotExist)
}

func TestErrors_CallTheTemporaryFileByWhatItIs(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write everywhere")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o500))
	path := filepath.Join(dir, "run.safetensors")
	err := checkpoint.New().Add("step", checkpoint.Value(new(int))).WriteFile(context.Background(), path)
	require.EqualError(t, err, "checkpoint: "+path+": create the temporary file beside it: permission denied")
}
