package session

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/memory"
)

func TestWatch_ServesAndWritesWhatHappened(t *testing.T) {
	w := Watch{HTTP: ":0", Snapshot: filepath.Join(t.TempDir(), "run.json")}
	var stderr bytes.Buffer
	s, err := w.Open("sim:1GiB", 1, &stderr)
	require.NoError(t, err)
	b, err := s.Alloc.Alloc(3<<20, s.Device.DefaultStream())
	require.NoError(t, err)

	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+/|http://\[::1\]:\d+/`).FindString(stderr.String())
	require.NotEmpty(t, url, stderr.String())
	resp, err := http.Get(url + "summary")
	require.NoError(t, err)
	page, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Contains(t, string(page), "Allocated memory")

	require.NoError(t, s.Alloc.Free(b))
	require.NoError(t, s.Close(nil))
	require.Equal(t, []string{"segment_alloc", "alloc", "free_requested", "free_completed"}, actions(t, w.Snapshot))
	_, err = http.Get(url)
	require.Error(t, err, "the session is over")
}

// The moment at which memory runs out is what one wants to see, and not the end, when all is released.
func TestWatch_KeepsTheMomentOfTheFirstError(t *testing.T) {
	w := Watch{Snapshot: filepath.Join(t.TempDir(), "oom.json")}
	s, err := w.Open("sim:64MiB", 1, io.Discard)
	require.NoError(t, err)
	_, err = s.Alloc.Alloc(1<<30, s.Device.DefaultStream())
	require.ErrorIs(t, err, memory.ErrOutOfMemory)
	require.ErrorIs(t, s.Close(err), memory.ErrOutOfMemory)
	require.Equal(t, []string{"oom"}, actions(t, w.Snapshot))
}

func TestWatch_RefusesBeforeAnything(t *testing.T) {
	for _, w := range []Watch{{Snapshot: "x.txt"}, {Snapshot: filepath.Join(t.TempDir(), "absent", "x.json")}, {HTTP: "6060"}, {HTTP: "localhost:none"}} {
		_, err := w.Open("sim:64MiB", 1, io.Discard)
		require.ErrorContains(t, err, "-", w)
	}
}

// Without the cache there is no history, and a limit is an error: the pages show what there is.
func TestWatch_WithoutACache(t *testing.T) {
	t.Setenv("CISTERN_NO_MEMORY_CACHING", "1")
	var stderr bytes.Buffer
	w := Watch{HTTP: ":0"}
	s, err := w.Open("sim:1GiB", 1, &stderr)
	require.NoError(t, err)
	url := strings.TrimSpace(strings.TrimPrefix(stderr.String(), "memory: "))
	for _, path := range []string{"", "summary", "stats", "state"} {
		resp, err := http.Get(url + path)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode, path)
		require.NoError(t, resp.Body.Close())
	}
	require.NoError(t, s.Close(nil))

	_, err = w.Open("sim:1GiB", 0.5, io.Discard)
	var wrong *memory.ArgumentError
	require.ErrorAs(t, err, &wrong)
	_, err = (&Watch{Snapshot: filepath.Join(t.TempDir(), "x.json")}).Open("sim:1GiB", 1, io.Discard)
	require.Error(t, err)
}

// A limit of the environment's settings stays where the program sets none.
func TestOpen_KeepsTheLimitOfTheEnvironment(t *testing.T) {
	t.Setenv("CISTERN_ALLOC_CONF", "per_process_memory_fraction:0.5")
	for fraction, want := range map[float64]float64{1: 0.5, 0.25: 0.25} {
		s, err := Open("sim:1GiB", fraction)
		require.NoError(t, err)
		got, err := s.Alloc.(*memory.Caching).MemoryFraction()
		require.NoError(t, err)
		require.InDelta(t, want, got, 1e-9)
		require.NoError(t, s.Close(nil))
	}
}

// What two flags name would keep only what is written last, also by another name of the file.
func TestRead_RefusesOneFileForSeveralFlags(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	require.NoError(t, os.WriteFile("there.json", nil, 0o600))
	require.NoError(t, os.Link("there.json", "link.json"))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-json", "x.json", "-memory-report", "x.json"}, "-json and -memory-report name one file, x.json"},
		{[]string{"-json", filepath.Join(dir, "x.json"), "-snapshot", "./x.json"}, "-json and -snapshot name one file"},
		{[]string{"-snapshot", "x.json", "-trace", "y/../x.json"}, "-snapshot and -trace name one file"},
		{[]string{"-snapshot", "there.json", "-trace", "link.json"}, "name one file"},
		{[]string{"-snapshot", "x.json", "-trace", "y.json", "-json", "z.json", "-memory-report", "-"}, ""},
		{[]string{"-trace", os.DevNull, "-json", os.DevNull}, ""},
	} {
		f := NewFlags("p", io.Discard)
		err := f.Read(c.args)
		if c.want == "" {
			require.NoError(t, err, c.args)
		} else {
			require.ErrorContains(t, err, c.want)
		}
	}
}

// Each of several sessions has files of its own.
func TestWatch_OfASession(t *testing.T) {
	w := Watch{HTTP: ":0", Report: "-", Snapshot: "a.b/run.json", Trace: "trace"}
	require.Equal(t, &Watch{HTTP: ":0", Report: "-", Snapshot: "a.b/run-float16.json", Trace: "trace-float16"}, w.Of("float16"))
	require.Equal(t, new(Watch), new(Watch).Of("float16"))
}

// actions are those of the trace in a snapshot file.
func actions(t *testing.T, file string) (list []string) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var s memory.Snapshot
	require.NoError(t, json.Unmarshal(text, &s))
	for _, trace := range s.DeviceTraces {
		for _, e := range trace {
			list = append(list, string(e.Action))
		}
	}
	return list
}
