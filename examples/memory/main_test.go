package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/examples/internal/session/sessiontest"
	"github.com/cistern-ml/cistern/memory"
)

var update = flag.Bool("update", false, "write testdata/tour.txt anew")

// numbered is how later devices of a process are called.
var numbered = regexp.MustCompile(`\b(sim|host):\d+`)

// toured is what the tour prints.
func toured(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(append(args, "-pace", "0"), &stdout, &stderr), "%s", &stderr)
	require.Empty(t, stderr.String())
	return numbered.ReplaceAllString(stdout.String(), "$1")
}

func TestRun_ShowsWhatTheAllocatorDoes(t *testing.T) {
	const file = "testdata/tour.txt"
	got := toured(t, "-device", "sim")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, strings.ReplaceAll(string(want), "\r\n", "\n"), got, "run this test with -update, and look at what has changed")
	require.Contains(t, got, "Allocated now: 0 bytes")
	require.Contains(t, got, "Reserved now: 0 bytes")
	require.NotContains(t, got, "\x1b", "no colours in a pipe")
	for line := range strings.Lines(got) {
		require.LessOrEqual(t, len(line), 80+len("\n"), line)
	}
}

// The host's memory is real, and its streams work: the pictures are the same.
func TestRun_OnTheHostIsTheSameTour(t *testing.T) {
	pictures := func(text string) (list []string) {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "    |") || strings.HasPrefix(line, "      segment") || strings.HasPrefix(line, "    allocated ") && strings.Contains(line, "driver") {
				list = append(list, line)
			}
		}
		return list
	}
	want := pictures(toured(t, "-device", "sim"))
	require.Greater(t, len(want), 100)
	require.Equal(t, want, pictures(toured(t, "-device", "host")))
}

// Settings of the environment would make other pictures; an allocator without a cache has none.
func TestRun_LooksPastTheEnvironment(t *testing.T) {
	want := toured(t, "-device", "sim")
	t.Setenv("CISTERN_ALLOC_CONF", "max_split_size_mb:32,per_process_memory_fraction:0.1")
	require.Equal(t, want, toured(t, "-device", "sim"))
	t.Setenv("CISTERN_NO_MEMORY_CACHING", "1")
	var stdout, stderr bytes.Buffer
	require.Equal(t, 1, run([]string{"-pace", "0"}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "CISTERN_NO_MEMORY_CACHING")
}

func TestRun_Interrupted_GivesEverythingBack(t *testing.T) {
	for _, device := range []string{"sim", "host"} {
		both := func(args []string, _, out io.Writer) int { return run(args, out, out) } // Ctrl-C at the first words of the tour
		sessiontest.Interrupt(t, both, "-device", device, "-pace", "1h")
	}
}

func TestRun_SaysWhatIsWrong(t *testing.T) {
	for want, args := range map[string][]string{
		"-device is \"cuda:0\"": {"-device", "cuda:0"},
		"-pace is -1s":          {"-pace", "-1s"},
		"-pace is 1h0m0.001s":   {"-pace", "1h1ms"},
		"-memory-report is":     {"-memory-report", "x.png"},
		`"what"`:                {"what"},
		"-speed":                {"-speed", "1"},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, 2, run(args, &stdout, &stderr), want)
		require.Contains(t, stderr.String(), want)
	}
	var stdout, stderr bytes.Buffer
	require.Equal(t, 1, run([]string{"-snapshot", filepath.Join(t.TempDir(), "no", "x.json")}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "-snapshot cannot be written")
	require.Empty(t, stdout.String())
}

func TestPen_PaintsBlocksOnATerminal(t *testing.T) {
	p := pen{colour: true, names: map[device.Ptr]byte{0: 'A'}, order: map[device.Ptr]int{}}
	s := memory.Snapshot{Segments: []memory.SegmentInfo{{TotalSize: 3 * mib, Type: "large", Blocks: []memory.BlockInfo{
		{Address: 0, Size: mib, State: memory.ActiveAllocated}, {Address: device.Ptr(mib), Size: 2 * mib, State: memory.Inactive},
	}}}}
	require.Contains(t, p.draw(s), "\x1b[")
	p.colour = false
	require.Equal(t, "    |A..|\n      segment of 3MiB, large pool, stream 0\n", p.draw(s))
}
