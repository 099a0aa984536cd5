package main

import (
	"bytes"
	"encoding/json"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const testdata = "../internal/replay/testdata"

func tracePath(name string) string  { return filepath.Join(testdata, name+".trace.gz") }
func expectPath(name string) string { return filepath.Join(testdata, "expected", name+".json.gz") }

// call runs the program.
func call(args ...string) (code int, stdout, stderr string) {
	var out, errOut bytes.Buffer
	code = run(args, &out, &errOut)
	return code, out.String(), errOut.String()
}

// ok runs the program, which must succeed, and returns its output.
func ok(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errOut := call(args...)
	require.Empty(t, errOut)
	require.Equal(t, 0, code)
	return out
}

func TestRun_WritesOneJSONObject(t *testing.T) {
	out := ok(t, "-trace", tracePath("mlp_adam"), "-capacity", "64MiB", "-conf", "roundup_power2_divisions:4", "-json")
	d := json.NewDecoder(strings.NewReader(out))
	var got struct {
		Trace  string
		Config struct {
			Conf     string   `json:"alloc_conf"`
			Capacity uint64   `json:"capacity"`
			Fraction *float64 `json:"memory_fraction"`
		}
		Driver        map[string]uint64
		Marks, Series [][]any
		Fragmentation float64 `json:"peak_fragmentation"`
		NsPerPair     float64 `json:"ns_per_pair"`
	}
	require.NoError(t, d.Decode(&got))
	_, err := d.Token()
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, "mlp_adam.trace.gz", got.Trace)
	require.Equal(t, "roundup_power2_divisions:4", got.Config.Conf)
	require.EqualValues(t, 64<<20, got.Config.Capacity)
	require.Nil(t, got.Config.Fraction)
	require.Positive(t, got.Driver["cudaMalloc"])
	require.Len(t, got.Series, 3)
	require.Len(t, got.Marks, 43)
	require.Greater(t, got.Fragmentation, 1.0)
	require.Positive(t, got.NsPerPair)
}

// Allocators that move pages, and memory between streams, have little more reserved than is active.
func TestRun_StreamsShareMemory(t *testing.T) {
	const compact = "expandable_segments:True,expandable_segments_compaction:1.02"
	for allocator, conf := range map[string]string{
		"compact": compact, "shared": compact + ",record_stream_device_wait:True,cross_stream_reclaim:True,search_after_event_sync:True",
	} {
		var got struct {
			Config struct {
				Conf string `json:"alloc_conf"`
			}
			Steady struct {
				Reserved uint64 `json:"peak_reserved"`
				Active   uint64 `json:"peak_active"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(ok(t, "-trace", tracePath("gpt_prefetch"), "-allocator", allocator, "-json")), &got))
		require.Equal(t, conf, got.Config.Conf)
		require.Greater(t, got.Steady.Reserved, got.Steady.Active)
		require.Less(t, float64(got.Steady.Reserved), 1.09*float64(got.Steady.Active), allocator) // 1.14 by default
	}
}

func TestRun_WritesATable(t *testing.T) {
	out := ok(t, "-trace", tracePath("mlp_adam"), "-capacity", "12MiB", "-fraction", "0.9")
	for _, want := range []string{
		"MLP 784-512-512-10, batch 256", "3076: 1538 allocations, 1538 frees", "sim, 12MiB (12582912 bytes)",
		"default, memory fraction 0.9", "fragmentation", "cudaMalloc", "step 39", "(end of trace)", "more: see -json",
		"memory summary", "GPU reserved memory",
	} {
		require.Contains(t, out, want)
	}
	require.NotContains(t, out, "cuMemMap")
	require.Contains(t, ok(t, "-trace", tracePath("mlp_adam"), "-conf", "expandable_segments:True"), "cuMemMap")
}

func TestRun_TakesSettingsFromTheExpectedFile(t *testing.T) {
	out := ok(t, "-trace", tracePath("gpt_prefetch"), "-expect", expectPath("gpt_prefetch.gc60_tight"))
	require.Contains(t, out, "garbage_collection_threshold:0.6, memory fraction")
	require.Contains(t, out, "\nequal to "+expectPath("gpt_prefetch.gc60_tight"))
}

func TestRun_WithExpectAndJSONWritesOnlyTheObject(t *testing.T) {
	out := ok(t, "-trace", tracePath("gpt_prefetch"), "-expect", expectPath("gpt_prefetch.tight"), "-json")
	var got struct{ Config struct{ Name string } }
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Equal(t, "tight", got.Config.Name)
}

func TestRun_NamesTheFirstDifference(t *testing.T) {
	for _, c := range []struct{ flag, value, want string }{
		{"-capacity", "1GiB", "ooms after 6757 events: 0 entries, recorded is 1, among them [6758,3301,57147392]"},
		{"-conf", "roundup_power2_divisions:4", "after"},
		{"-fraction", "0.5", "after"},
		{"-allocator", "naive", "marks[1].reserved after 58 events: "},
	} {
		code, _, errOut := call("-trace", tracePath("gpt_prefetch"), "-expect", expectPath("gpt_prefetch.tight"), c.flag, c.value)
		require.Equal(t, 1, code)
		require.Contains(t, errOut, "differs from "+expectPath("gpt_prefetch.tight")+", first of ")
		require.Contains(t, errOut, c.want)
		require.Equal(t, 1, strings.Count(errOut, "\n"))
	}
}

func TestRun_ReplaysOnTheHost(t *testing.T) {
	out := ok(t, "-trace", tracePath("mlp_adam"), "-device", "host", "-capacity", "64MiB", "-expect", expectPath("mlp_adam.default"))
	require.Contains(t, out, "host, 64MiB")
	require.Contains(t, out, "equal to")
	out = ok(t, "-trace", tracePath("mlp_adam"), "-device", "host", "-allocator", "naive")
	require.Regexp(t, `cudaMalloc +1538 +0\n`, out)
	require.Regexp(t, `settings +none`, out)
}

func TestRun_ReportsWrongFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"-trace or -all is missing":                                   {},
		"-expect is for -allocator caching and":                       {"-trace", "x", "-expect", "y", "-allocator", "planned"},
		"provided but not defined: -what":                             {"-what"},
		`unexpected argument "more"`:                                  {"-trace", "x", "more"},
		`"12MX" is not a number of bytes`:                             {"-trace", "x", "-capacity", "12MX"},
		"-capacity: must be more than 0":                              {"-trace", "x", "-capacity", "0"},
		"-fraction: want a number from 0 to 1":                        {"-trace", "x", "-fraction", "half"},
		"-allocator: want caching, compact, shared, planned or naive": {"-trace", "x", "-allocator", "none"},
		"-device: want sim or host":                                   {"-trace", "x", "-device", "cuda"},
		"-plot p.gif: the name must end in":                           {"-trace", "x", "-plot", "p.gif"},
		"-all takes no other flags":                                   {"-all", testdata, "-json"},
		"flag needs an argument: -conf":                               {"-trace", "x", "-conf"},
		`invalid boolean value "maybe" for -json: parse`:              {"-trace", "x", "-json=maybe"},
	} {
		code, out, errOut := call(args...)
		require.Equal(t, 2, code, want)
		require.Empty(t, out)
		require.Equal(t, 1, strings.Count(errOut, want), errOut)
	}
}

func TestRun_ReportsWhatCannotBeReplayed(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	broken := file("broken.trace", "# x\nm start\na 0 512 0\nf 1\n")
	for want, args := range map[string][]string{
		"none.trace":                           {"-trace", filepath.Join(dir, "none.trace")},
		"broken.trace: line 4: id 1 was never": {"-trace", broken},
		"unrecognized key":                     {"-trace", tracePath("mlp_adam"), "-conf", "magic:True"},
		"per_process_memory_fraction":          {"-trace", tracePath("mlp_adam"), "-fraction", "1.5"},
		"none.json":                            {"-trace", tracePath("mlp_adam"), "-expect", filepath.Join(dir, "none.json")},
		"no file of recorded figures":          {"-trace", tracePath("mlp_adam"), "-expect", broken},
		filepath.Join(dir, "no", "p.svg"):      {"-trace", tracePath("mlp_adam"), "-plot", filepath.Join(dir, "no", "p.svg")},
		"there are no files in":                {"-all", dir},
	} {
		code, out, errOut := call(args...)
		require.Equal(t, 1, code, want)
		require.Empty(t, out)
		require.Contains(t, errOut, want)
		require.Equal(t, 1, strings.Count(errOut, "\n"), errOut)
	}
}

func TestRun_HelpIsNoError(t *testing.T) {
	code, out, errOut := call("-h")
	require.Zero(t, code)
	require.Empty(t, out)
	require.Contains(t, errOut, "-expect")
}

func TestRun_ReportsThatTheOutputCannotBeWritten(t *testing.T) {
	r, w := io.Pipe()
	require.NoError(t, r.Close())
	for _, args := range [][]string{{"-trace", tracePath("mlp_adam")}, {"-trace", tracePath("mlp_adam"), "-json"}, {"-all", testdata}} {
		var errOut bytes.Buffer
		require.Equal(t, 1, run(args, w, &errOut))
		require.Contains(t, errOut.String(), io.ErrClosedPipe.Error())
	}
}

func TestAll_EveryTestdataFileIsEqual(t *testing.T) {
	out := ok(t, "-all", testdata)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 14)
	require.Equal(t, "gpt_prefetch     combo             ok", lines[0])
	require.Equal(t, "13 replays: 13 ok, 0 different, 0 failed", lines[13])
}

func TestAll_SaysWhichDifferAndWhichFail(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "expected"), 0o700))
	copyFile := func(from, to string) {
		raw, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, to), raw, 0o600))
	}
	copyFile(tracePath("mlp_adam"), "mlp_adam.trace.gz")
	copyFile(tracePath("mlp_adam"), "gpt_prefetch.trace.gz") // the wrong one
	copyFile(expectPath("mlp_adam.default"), "expected/a.json.gz")
	copyFile(expectPath("gpt_prefetch.default"), "expected/b.json.gz")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "expected", "c.json"), []byte("{}"), 0o600))
	code, out, errOut := call("-all", dir)
	require.Equal(t, 1, code)
	require.Equal(t, "replay: 2 of 3 replays are not equal to what was recorded\n", errOut)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 4)
	require.Equal(t, "mlp_adam         default           ok", lines[0])
	require.Contains(t, lines[1], "gpt_prefetch     default           marks[1].event after 58 events: 6, recorded is 58")
	require.Contains(t, lines[2], `error: `)
	require.Equal(t, "3 replays: 1 ok, 1 different, 1 failed", lines[3])
}

func TestPlot_DrawsPNGAndSVG(t *testing.T) {
	dir := t.TempDir()
	raster, vector := filepath.Join(dir, "p.PNG"), filepath.Join(dir, "p.svg")
	ok(t, "-trace", tracePath("gpt_prefetch"), "-expect", expectPath("gpt_prefetch.tight"), "-plot", raster)
	ok(t, "-trace", tracePath("mlp_adam"), "-plot", vector)

	f, err := os.Open(raster)
	require.NoError(t, err)
	defer f.Close()
	image, err := png.Decode(f)
	require.NoError(t, err)
	seen := map[[4]uint32]bool{}
	for y := range image.Bounds().Dy() {
		for x := range image.Bounds().Dx() {
			r, g, b, a := image.At(x, y).RGBA()
			seen[[4]uint32{r >> 8, g >> 8, b >> 8, a >> 8}] = true
		}
	}
	require.True(t, seen[[4]uint32{0x1f, 0x77, 0xb4, 0xff}], "no line of allocated memory")
	require.True(t, seen[[4]uint32{0xff, 0x7f, 0x0e, 0xff}], "no line of reserved memory")

	text, err := os.ReadFile(vector)
	require.NoError(t, err)
	require.Contains(t, string(text), "<svg")
	require.Contains(t, string(text), "mlp_adam.trace.gz")
	require.Contains(t, string(text), "reserved")
}

func TestPlot_OfATraceWithoutEventsIsEmpty(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "marks.trace")
	require.NoError(t, os.WriteFile(file, []byte("m only\n"), 0o600))
	ok(t, "-trace", file, "-plot", filepath.Join(dir, "p.svg"))
}
