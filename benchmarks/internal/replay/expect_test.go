package replay

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/memory"
)

// pair is an expected file and the result that equals it.
func pair(t *testing.T, name string) (*Expected, *Result) {
	t.Helper()
	e, err := OpenExpected(filepath.Join("testdata", "expected", name+".json.gz"))
	require.NoError(t, err)
	o, err := e.Options()
	require.NoError(t, err)
	r, err := Run(testTrace(t, strings.TrimSuffix(e.Trace, ".trace.gz")), o)
	require.NoError(t, err)
	requireEqual(t, e, r)
	return e, r
}

func first(t *testing.T, e *Expected, r *Result) string {
	t.Helper()
	d, err := e.Differences(r)
	require.NoError(t, err)
	require.NotEmpty(t, d)
	return d[0].String()
}

func TestDifferences_FindsEveryKindOfFigure(t *testing.T) {
	e, r := pair(t, "gpt_prefetch.tight")
	for _, c := range []struct {
		change func(*Result)
		want   string
	}{
		{func(r *Result) { r.Events++ }, "events: 9427, recorded is 9426"},
		{func(r *Result) { r.Allocs-- }, "allocs: 4422, recorded is 4423"},
		{func(r *Result) { r.Frees-- }, "frees: 4422, recorded is 4423"},
		{func(r *Result) { r.Records = 0 }, "record_streams: 0, recorded is 550"},
		{func(r *Result) { r.LivePeak-- }, "live_peak: 256, recorded is 257"},
		{func(r *Result) { r.Requested.Peak += 1 }, "requested_bytes.peak: 597275145, recorded is 597275144"},
		{func(r *Result) { r.Stats.Segment.SmallPool.Freed = 9 }, "stats.segment.small_pool.freed: 9, recorded is 3"},
		{func(r *Result) { r.Stats.NumAllocRetries = 0 }, "stats.num_alloc_retries: 0, recorded is 1"},
		{func(r *Result) { r.Stats.MaxSplitSize = 0 }, "stats.max_split_size: 0, recorded is -1"},
		{func(r *Result) { r.Driver.EventQuery++ }, "driver.event_query: 6583, recorded is 6582"},
		{func(r *Result) { r.Hash.Driver = "x" }, `hash.driver: "x", recorded is "1c1561120d2eee2d"`},
		{func(r *Result) { r.Hash.FinalSegments = "x" }, `hash.final_segments: "x", recorded is "5d22f9f6f5c6af69"`},
		{func(r *Result) { r.Final.Blocks = 0 }, "final.blocks: 0, recorded is 168"},
		{func(r *Result) { r.OOMs[0][2]++ }, "ooms[0].bytes after 6757 events: 57147393, recorded is 57147392"},
		{func(r *Result) { r.OOMs = nil }, "ooms after 6757 events: 0 entries, recorded is 1, among them [6758,3301,57147392]"},
		{func(r *Result) { r.OOMs = append(r.OOMs, [3]uint64{9000, 1, 2}) },
			"ooms after 8999 events: 2 entries, among them [9000,1,2], recorded is 1"},
		{func(r *Result) { r.Series[2].Reserved = 5 }, "series[2].reserved after 3000 events: 5, recorded is 650117120"},
		{func(r *Result) { r.Series[2].Hash = "x" }, `series[2].placement_hash_so_far after 3000 events: "x", recorded is "cf8fa03ae9d7f9f1"`},
		{func(r *Result) { r.Series = r.Series[:8] }, "series after 9000 events: 8 entries, recorded is 9, among them " +
			`[9000,235292672,769654784,292352000,202575872,"6ce2333c4173f586"]`},
		{func(r *Result) { r.Marks[1].Label = "step 7" }, `marks[1].label after 58 events: "step 7", recorded is "step 0"`},
		{func(r *Result) { r.Marks[12].InactiveSplit = 1 }, "marks[12].inactive_split after 9426 events: 1, recorded is 215032320"},
	} {
		t.Run(c.want, func(t *testing.T) {
			changed := *r
			changed.OOMs = append([][3]uint64(nil), r.OOMs...)
			changed.Series = append([]Sample(nil), r.Series...)
			changed.Marks = append([]Sample(nil), r.Marks...)
			c.change(&changed)
			require.Equal(t, c.want, first(t, e, &changed))
		})
	}
	requireEqual(t, e, r)
}

func TestDifferences_PutsTheEarliestFirst(t *testing.T) {
	e, r := pair(t, "gpt_prefetch.tight")
	r.Stats.NumOOMs, r.Hash.Placement = 7, "x"
	r.OOMs[0][1]++            // after 6757 events
	r.Series[5].Allocated = 1 // 6000
	r.Marks[6].Active = 1     // 4661
	r.Marks[7].Active = 1     // stands behind marks[6]
	d, err := e.Differences(r)
	require.NoError(t, err)
	var paths []string
	for _, x := range d {
		paths = append(paths, x.Path)
	}
	require.Equal(t, []string{"marks[6].active", "series[5].allocated", "ooms[0].id", "hash.placement", "stats.num_ooms"}, paths)
}

// Every number of a recorded file counts: whichever is changed, something is found.
func TestDifferences_LooksAtEveryRecordedFigure(t *testing.T) {
	e, r := pair(t, "mlp_adam.oom")
	leaves := 0
	var visit func(object map[string]any, key string)
	visit = func(object map[string]any, key string) {
		was := object[key]
		if inner, ok := was.(map[string]any); ok {
			for k := range inner {
				visit(inner, k)
			}
			return
		}
		leaves++
		object[key] = json.Number("123456789")
		require.Contains(t, first(t, e, r), key)
		object[key] = was
	}
	for _, key := range figures {
		visit(e.figures, key)
	}
	require.Greater(t, leaves, 140)
	requireEqual(t, e, r)
}

func TestDifferences_LeavesOutWhatPyTorchDoesNotDefine(t *testing.T) {
	e, r := pair(t, "gpt_prefetch.tight")
	e.Trace = "syn_pingpong.trace.gz"
	r.Stats.InactiveSplit.All.Peak++
	r.Stats.InactiveSplitBytes.SmallPool.Freed++
	requireEqual(t, e, r)
	r.Stats.InactiveSplitBytes.SmallPool.Current++
	require.Contains(t, first(t, e, r), "stats.inactive_split_bytes.small_pool.current")

	e.Config.Name = "default"
	require.Contains(t, first(t, e, r), "stats.inactive_split.all.peak")
}

func TestDifference_SaysNothingForWhatIsMissing(t *testing.T) {
	var c comparison
	c.value("a", map[string]any{"b": json.Number("1")}, nil)
	c.rows("r", nil, []any{"not a row"}, []any{map[string]any{}})
	c.rows("s", []any{"only"}, []any{[]any{"x", "y"}}, []any{[]any{"x", "z"}})
	require.Equal(t, []string{"a.b: nothing, recorded is 1", `r[0]: {}, recorded is "not a row"`, `s[0][1]: "z", recorded is "y"`},
		[]string{c.found[0].String(), c.found[1].String(), c.found[2].String()})
}

func TestResult_HasTheKeysOfARecordedFile(t *testing.T) {
	e, r := pair(t, "gpt_prefetch.expandable_tight")
	raw, err := json.Marshal(r)
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, json.Unmarshal(raw, &got))
	for key, want := range e.figures {
		require.Contains(t, got, key)
		if inner, ok := want.(map[string]any); ok {
			for k := range inner {
				require.Contains(t, got[key], k)
			}
		}
	}
	require.Contains(t, got, "peak_fragmentation")
	require.Contains(t, got, "ns_per_pair")
	require.Equal(t, e.figures["series_columns"], got["series_columns"])
	require.Equal(t, e.figures["marks_columns"], got["marks_columns"])
}

func TestResult_WithoutSamplesHasEmptyLists(t *testing.T) {
	raw, err := json.Marshal(&Result{})
	require.NoError(t, err)
	for _, want := range []string{`"ooms":[]`, `"series":[]`, `"marks":[]`, `"memory_fraction":null`} {
		require.Contains(t, string(raw), want)
	}
}

func TestOpenExpected_ReadsWhatItCompares(t *testing.T) {
	e, _ := pair(t, "gpt_prefetch.gc60_tight")
	require.Equal(t, "gpt_prefetch.trace.gz", e.Trace)
	require.Equal(t, "gc60_tight", e.Config.Name)
	require.Equal(t, "garbage_collection_threshold:0.6", e.Config.AllocConf)
	require.NotNil(t, e.Config.Fraction)
}

func TestOpenExpected_RefusesOtherFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) string {
		name := filepath.Join(dir, "x.json")
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	for text, want := range map[string]string{
		"":                         "no file of recorded figures: EOF",
		"a 0 1 0":                  "no file of recorded figures: invalid character",
		"[]":                       "no file of recorded figures: json: cannot unmarshal array",
		"{} {}":                    "something follows the first JSON object",
		"{}":                       `no file of recorded figures: it has no "trace"`,
		`{"trace":5}`:              "no file of recorded figures: json: cannot unmarshal number",
		`{"trace":"","config":{}}`: `no file of recorded figures: it has no "hash"`,
		"\x1f\x8bnothing at all":   "gzip: invalid header",
	} {
		_, err := OpenExpected(write(text))
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "x.json")
	}
	_, err := OpenExpected(filepath.Join(dir, "none.json"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestExpected_OptionsRefusesSettingsItDoesNotKnow(t *testing.T) {
	e := &Expected{Config: Config{AllocConf: "magic:True"}}
	_, err := e.Options()
	var wrong *memory.ConfigError
	require.ErrorAs(t, err, &wrong)
}
