package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// text is a write of a text, in two calls and a correction.
func text(s string) func(f File) error {
	return func(f File) error {
		if _, err := f.Write([]byte("?" + s[1:len(s)/2])); err != nil {
			return err
		}
		if _, err := f.Write([]byte(s[len(s)/2:])); err != nil {
			return err
		}
		_, err := f.WriteAt([]byte(s[:1]), 0)
		return err
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

// names lists a folder.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestWrite_WithEachCallFailing_LeavesTheOldFileOrTheNewOne(t *testing.T) {
	for _, existed := range []bool{true, false} {
		ended := false
		for fail := 1; !ended; fail++ {
			dir := t.TempDir()
			path := filepath.Join(dir, "file")
			if existed {
				require.NoError(t, os.WriteFile(path, []byte("old content"), 0o640))
			}
			sys := &faulty{fail: fail}
			err := Write(sys, path, text("new content"))
			if ended = len(sys.calls) < fail; ended {
				require.NoError(t, err)
				require.Equal(t, "new content", read(t, path))
				sys.contains(t, "evalsymlinks", "lstat", "readdir", "create", "lock", "write", "writeat", "sync", "opendir", "rename", "syncdir", "close")
				continue
			}
			failed := sys.calls[fail-1]
			switch {
			case failed == "readdir" || failed == "lock" || err == nil:
				require.NoError(t, err, "nothing was cleaned, or another name was taken: %s", failed)
				require.Equal(t, "new content", read(t, path))
			case failed == "syncdir" || failed == "close":
				require.ErrorIs(t, err, errInjected, failed)
				require.Equal(t, "new content", read(t, path), "it has its name already")
			case existed:
				require.ErrorIs(t, err, errInjected, failed)
				require.Equal(t, "old content", read(t, path), failed)
			default:
				require.ErrorIs(t, err, errInjected, failed)
				require.NoFileExists(t, path, failed)
			}
			require.LessOrEqual(t, len(names(t, dir)), 1, "after %s: %v", failed, names(t, dir))
			if err == nil {
				require.Contains(t, []string{"readdir", "lock", "stat", "lstat"}, failed, "the error of %s was lost", failed)
			}
		}
	}
}

func TestWrite_ThatIsRefusedByItsWriter_LeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	boom := errors.New("boom")
	require.ErrorIs(t, Write(OS{}, path, func(f File) error {
		_, err := f.Write([]byte("half"))
		return errors.Join(err, boom)
	}), boom)
	require.Empty(t, names(t, dir))
}

func TestWrite_KeepsPermissions(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such permissions")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, nil, 0o666)) // less the umask
	mode := func(path string) os.FileMode {
		info, err := os.Stat(path)
		require.NoError(t, err)
		return info.Mode()
	}
	require.NoError(t, Write(OS{}, path, text("one")))
	require.Equal(t, mode(plain), mode(path), "a new file is as all new files of the process")
	for _, m := range []os.FileMode{0o600, 0o640, 0o666, 0o444} {
		require.NoError(t, os.Chmod(path, m))
		require.NoError(t, Write(OS{}, path, func(f File) error {
			info, err := f.Stat()
			require.NoError(t, err)
			require.Zero(t, info.Mode().Perm()&0o077, "nobody else reads it while it is written")
			return text("two")(f)
		}))
		require.Equal(t, m, mode(path))
	}
}

func TestWrite_FollowsSymbolicLinks(t *testing.T) {
	dir := t.TempDir()
	join := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	require.NoError(t, os.MkdirAll(join("far", "deep"), 0o755))
	link := func(target, name string) {
		if err := os.Symlink(target, name); err != nil {
			t.Skip("no symbolic links here: ", err)
		}
	}
	link(filepath.Join("far", "deep"), join("folder"))
	link(filepath.Join("..", "target"), join("far", "deep", "up")) // far/target, by way of folder too
	link(join("folder", "up"), join("absolute"))
	link("absolute", join("twice"))
	link("new", join("dangling"))
	for path, target := range map[string]string{
		join("folder", "up"): join("far", "target"), join("twice"): join("far", "target"), join("dangling"): join("new"),
		join("folder", "x"): join("far", "deep", "x"),
	} {
		require.NoError(t, Write(OS{}, path, text(path)))
		require.Equal(t, path, read(t, target))
	}
	for _, path := range []string{join("twice"), join("absolute"), join("far", "deep", "up"), join("dangling"), join("folder")} {
		info, err := os.Lstat(path)
		require.NoError(t, err)
		require.NotZero(t, info.Mode()&os.ModeSymlink, "%s is a link still", path)
	}
	link("loop", join("loop"))
	require.Error(t, Write(OS{}, join("loop"), text("no")))
}

func TestWrite_ToWhatIsNoFile_IsAnError(t *testing.T) {
	dir := t.TempDir()
	var step *Error
	for _, path := range []string{dir, dir + string(filepath.Separator), os.DevNull, "", ".", ".."} {
		err := Write(OS{}, path, text("no"))
		require.ErrorAs(t, err, &step, path)
	}
	require.ErrorIs(t, Write(OS{}, dir, text("no")), ErrNotRegular)
	require.Empty(t, names(t, dir))
	require.ErrorIs(t, Write(OS{}, filepath.Join(dir, "absent", "x"), text("no")), os.ErrNotExist)
}

func TestWrite_CleansWhatTheDeadLeft_AndNothingElse(t *testing.T) {
	if closeFirst {
		t.Skip("there are no locks here, and so nothing is cleaned")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	const random = ".cistern-0123456789abcdef.tmp"
	dead := filepath.Join(dir, "file"+random)
	others := []string{
		"file.tmp", "file.123.tmp", "file2" + random, "xfile" + random, "file.cistern-0123456789abcde.tmp", "file" + random + "x",
		"file.cistern-0123456789abcdeg.tmp",
	}
	for _, name := range append([]string{filepath.Base(dead)}, others...) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "file.cistern-00000000000000aa.tmp"), 0o755))
	require.NoError(t, os.Symlink(path, filepath.Join(dir, "file.cistern-00000000000000bb.tmp")))
	var during []string
	require.NoError(t, Write(OS{}, path, func(f File) error {
		require.NoFileExists(t, dead)
		require.NoError(t, Write(OS{}, path, text("inner"))) // while the outer one's file is there
		during = names(t, dir)
		return text("outer")(f)
	}))
	require.Equal(t, "outer", read(t, path))
	require.Len(t, during, len(others)+4, "two others, the file, and the temporary one of the outer writer: %v", during)
	require.Len(t, names(t, dir), len(others)+3, "%v", names(t, dir))
	for _, name := range others {
		require.Equal(t, name, read(t, filepath.Join(dir, name)))
	}
}

func TestWrite_ByManyAtOnce_IsWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 25 {
				s := strings.Repeat(fmt.Sprint(i), 1000)
				if err := Write(OS{}, path, text(s)); err != nil {
					t.Error(err)
				}
				b, err := os.ReadFile(path)
				if err != nil || string(b) != strings.Repeat(string(b[:1]), 1000) {
					t.Errorf("%q: %v", b, err)
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, []string{"file"}, names(t, dir))
}

func TestWrite_OfALongName(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, strings.Repeat("n", 255))
	require.NoError(t, Write(OS{}, path, text("long")))
	require.Equal(t, "long", read(t, path))
}

// What a program's own code panics with while it writes leaves neither a file nor a lock behind.
func TestWrite_ThatPanicsLeavesTheOldFileAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	var during File
	require.PanicsWithValue(t, "on purpose", func() {
		_ = Write(OS{}, path, func(f File) error {
			during = f
			panic("on purpose")
		})
	})
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Error(t, during.Close(), "it was closed")
}
