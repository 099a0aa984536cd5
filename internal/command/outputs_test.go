package command

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse_RefusesFilesThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	kept := filepath.Join(dir, "kept")
	require.NoError(t, os.WriteFile(kept, []byte("before"), 0o600))
	for file, want := range map[string]string{
		filepath.Join(dir, "absent", "x"): "-json cannot be written",
		dir:                               "is a folder",
		filepath.Join(kept, "x"):          "-json cannot be written",
		filepath.Join(dir, "new"):         "",
		kept:                              "",
		"":                                "",
	} {
		var stderr bytes.Buffer
		var to string
		f := NewFlagSet("p", &stderr)
		OutputVar(f, &to, "json", "`file` to write to")
		err := Parse(f, []string{"-json", file})
		require.Equal(t, file, to)
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "finding out leaves nothing behind")
	text, err := os.ReadFile(kept)
	require.NoError(t, err)
	require.Equal(t, "before", string(text))
}

// A file that two flags name would keep what is written last.
func TestParse_RefusesOneFileForTwoFlags(t *testing.T) {
	t.Chdir(t.TempDir())
	var a, b string
	f := NewFlagSet("p", new(bytes.Buffer))
	OutputVar(f, &a, "json", "")
	OutputVar(f, &b, "plot", "")
	err := Parse(f, []string{"-json", "x", "-plot", "./x"})
	require.EqualError(t, err, "-json and -plot name one file, ./x, which would keep only what is written last")
	require.NoError(t, Parse(f, []string{"-json", "x", "-plot", "y"}))
	require.NoError(t, Parse(f, []string{"-json", os.DevNull, "-plot", os.DevNull}))
}

func TestOutputVar_IsExplainedLikeOtherFlags(t *testing.T) {
	var stderr bytes.Buffer
	var to string
	f := NewFlagSet("p", &stderr)
	OutputVar(f, &to, "json", "`file` to write to")
	f.PrintDefaults()
	require.Equal(t, "  -json file\n    \tfile to write to\n", stderr.String())
}

// Two names of one file that is not there yet, one of them a link to it.
func TestSameFile_FollowsLinksToWhatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	link, again := filepath.Join(dir, "link.json"), filepath.Join(dir, "again.json")
	if err := os.Symlink("new.json", link); err != nil {
		t.Skip(err)
	}
	require.NoError(t, os.Symlink(link, again))
	for _, name := range []string{link, again} {
		require.True(t, SameFile(name, filepath.Join(dir, "new.json")))
		require.False(t, SameFile(name, filepath.Join(dir, "other.json")))
	}
	require.NoError(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	require.False(t, SameFile(filepath.Join(dir, "loop"), link))
}

func TestWritable_RefusesADash(t *testing.T) {
	require.ErrorContains(t, Writable("-"), "- is no file")
}
