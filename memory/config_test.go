package memory

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// everySetting gives every key of the grammar a value that is not its default, and what ParseConfig makes of it.
var everySetting = []struct {
	text string
	want func(*Config)
}{
	{"backend:cudaMallocAsync", func(c *Config) { c.Backend = BackendAsync }},
	{"large_segment_size_mb:32", func(c *Config) { c.LargeSegmentBytes = 32 * mib }},
	{"max_split_size_mb:128", func(c *Config) { c.MaxSplitBytes = 128 * mib }},
	{"max_non_split_rounding_mb:40", func(c *Config) { c.MaxNonSplitRoundingBytes = 40 * mib }},
	{"garbage_collection_threshold:0.75", func(c *Config) { c.GarbageCollectionThreshold = 0.75 }},
	{"roundup_power2_divisions:4", func(c *Config) {
		for i := range c.RoundupDivisions {
			c.RoundupDivisions[i] = 4
		}
	}},
	{"expandable_segments:True", func(c *Config) { c.ExpandableSegments = true }},
	{"expandable_segments_reserve:0.5", func(c *Config) { c.ExpandableReserve = Reserve{Fraction: 0.5} }},
	{"expandable_segments_compaction:1.02", func(c *Config) { c.Compaction = 1.02 }},
	{"expandable_segments_compaction_budget:0.05", func(c *Config) { c.CompactionBudget = 0.05 }},
	{"release_lock_on_cudamalloc:True", func(c *Config) { c.ReleaseLockOnMalloc = true }},
	{"graph_capture_record_stream_reuse:True", func(c *Config) { c.ReuseInCapture = true }},
	{"record_stream_device_wait:True", func(c *Config) { c.WaitOnDevice = true }},
	{"cross_stream_reclaim:True", func(c *Config) { c.CrossStreamReclaim = true }},
	{"search_after_event_sync:True", func(c *Config) { c.SearchAfterSync = true }},
	{"per_process_memory_fraction:0.25", func(c *Config) { f := 0.25; c.MemoryFraction = &f }},
	{"throw_on_cudamalloc_oom:True", func(c *Config) { c.RejectOverFraction = true }},
	{"pinned_use_cuda_host_register:True", func(c *Config) { c.PinnedUseHostRegister = true }},
	{"pinned_num_register_threads:8", func(c *Config) { c.PinnedNumRegisterThreads = 8 }},
	{"pinned_use_background_threads:True", func(c *Config) { c.PinnedUseBackgroundThreads = true }},
	{"pinned_reserve_segment_size_mb:64", func(c *Config) { c.PinnedReserveSegmentBytes = 64 * mib }},
	{"pinned_max_round_threshold_mb:16", func(c *Config) { c.PinnedMaxRoundThresholdBytes = 16 * mib }},
	{"pinned_max_cached_size_mb:256", func(c *Config) { c.PinnedMaxCachedBytes = 256 * mib }},
	{"pinned_free_catch_all:True", func(c *Config) { c.PinnedFreeCatchAll = true }},
}

func TestParseConfig_ReadsEveryKey(t *testing.T) {
	var all []string
	var want Config
	for _, s := range everySetting {
		t.Run(s.text, func(t *testing.T) {
			var alone Config
			s.want(&alone)
			got, err := ParseConfig(s.text)
			require.NoError(t, err)
			require.Equal(t, alone, got)
			require.Equal(t, s.text, got.String(), "String writes it back")
		})
		s.want(&want)
		all = append(all, s.text)
	}
	got, err := ParseConfig(strings.Join(all, ","))
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, strings.Join(all, ","), got.String(), "in the order of the list of settings")
	require.Len(t, configTable.Settings, len(everySetting), "a key without a row here")
}

// A field of Config that no key sets could not be given by the environment.
func TestParseConfig_EveryFieldHasAKey(t *testing.T) {
	var all Config
	for _, s := range everySetting {
		s.want(&all)
	}
	v := reflect.ValueOf(all)
	for i := range v.NumField() {
		require.False(t, v.Field(i).IsZero(), "no key sets Config.%s", v.Type().Field(i).Name)
	}
}

func TestParseConfig_AcceptsWhatPyTorchAccepts(t *testing.T) {
	for text, canonical := range map[string]string{
		"":                                "",
		" \t\n":                           "",
		"max_split_size_mb:20":            "max_split_size_mb:20",
		"max_split_size_mb:40.500":        "max_split_size_mb:40.5",
		"expandable_segments:False":       "",
		" expandable_segments : True ,\n": "expandable_segments:True",
		"max_split_size_mb:128,":          "max_split_size_mb:128",
		"max_split_size_mb:128,max_split_size_mb:256":   "max_split_size_mb:256",
		"garbage_collection_threshold:1e-3":             "garbage_collection_threshold:0.001",
		"garbage_collection_threshold:.5E+0":            "garbage_collection_threshold:0.5",
		"per_process_memory_fraction:1.":                "per_process_memory_fraction:1",
		"release_lock_on_hipmalloc:True":                "release_lock_on_cudamalloc:True",
		"backend:native":                                "",
		"expandable_segments_reserve:40G":               "expandable_segments_reserve:40G",
		"roundup_power2_divisions:1":                    "roundup_power2_divisions:1",
		"per_process_memory_fraction:0":                 "per_process_memory_fraction:0",
		"per_process_memory_fraction:1":                 "per_process_memory_fraction:1",
		"max_split_size_mb:32,large_segment_size_mb:32": "large_segment_size_mb:32,max_split_size_mb:32",
		"roundup_power2_divisions:[ 256 : 1 , 512 : 2 , > : 8 ]": "roundup_power2_divisions:[1:1,2:1,4:1,8:1,16:1,32:1,64:1," +
			"128:1,256:1,512:2,1024:8,2048:8,4096:8,8192:8,16384:8,32768:8]",
	} {
		c, err := ParseConfig(text)
		require.NoError(t, err, "%q", text)
		require.Equal(t, canonical, c.String(), "%q", text)
	}
}

func TestParseConfig_RefusesWithKeyValueAndWhatIsAllowed(t *testing.T) {
	for _, c := range []struct{ text, key, want string }{
		{"max_split_size_mb:2", "max_split_size_mb", "too small, must be >= 20"},
		{"max_split_size_mb:19", "max_split_size_mb", "too small, must be >= 20"},
		{"max_split_size_mb:20,large_segment_size_mb:32", "max_split_size_mb", "too small, must be >= 32"},
		{"max_split_size_mb:0", "max_split_size_mb", "want a positive number of MiB"},
		{"max_split_size_mb:-1", "max_split_size_mb", "want a positive number of MiB"},
		{"max_split_size_mb:1.5", "max_split_size_mb", "too small, must be >= 20"},
		{"max_split_size_mb:40.1", "max_split_size_mb", "want a positive number of MiB"}, // no whole number of bytes
		{"max_split_size_mb:40.", "max_split_size_mb", "want a positive number of MiB"},
		{"max_split_size_mb:40.5e1", "max_split_size_mb", "want a positive number of MiB"},
		{"pinned_max_cached_size_mb:0.0", "pinned_max_cached_size_mb", "want a positive number of MiB"},
		{"max_split_size_mb:18446744073709551615", "max_split_size_mb", "want a positive number of MiB"},
		{"max_split_size_mb:[100]", "max_split_size_mb", "want a positive number of MiB"},
		{"large_segment_size_mb:10", "large_segment_size_mb", "must be > 10 MB"},
		{"max_non_split_rounding_mb:19", "max_non_split_rounding_mb", "too small, must be >= 20"},
		{"garbage_collection_threshold:1.2", "garbage_collection_threshold", "set it in (0.0, 1.0)"},
		{"garbage_collection_threshold:1", "garbage_collection_threshold", "set it in (0.0, 1.0)"},
		{"garbage_collection_threshold:0", "garbage_collection_threshold", "set it in (0.0, 1.0)"},
		{"garbage_collection_threshold:NaN", "garbage_collection_threshold", "set it in (0.0, 1.0)"},
		{"garbage_collection_threshold:half", "garbage_collection_threshold", "set it in (0.0, 1.0)"},
		{"per_process_memory_fraction:-0.1", "per_process_memory_fraction", "set it in [0.0, 1.0]"},
		{"per_process_memory_fraction:1.1", "per_process_memory_fraction", "set it in [0.0, 1.0]"},
		{"per_process_memory_fraction:NaN", "per_process_memory_fraction", "set it in [0.0, 1.0]"},
		{"expandable_segments:1", "expandable_segments", "want True or False"},
		{"expandable_segments:true", "expandable_segments", "want True or False"},
		{"release_lock_on_cudamalloc:none", "release_lock_on_cudamalloc", "want True or False"},
		{"pinned_use_cuda_host_register:none", "pinned_use_cuda_host_register", "want True or False"},
		{"pinned_num_register_threads:none", "pinned_num_register_threads", "number of register threads has to be a power of 2"},
		{"pinned_num_register_threads:9", "pinned_num_register_threads", "number of register threads has to be a power of 2"},
		{"pinned_num_register_threads:1024", "pinned_num_register_threads",
			"number of register threads should be less than or equal to 128"},
		{"pinned_reserve_segment_size_mb:0", "pinned_reserve_segment_size_mb", "want a positive number of MiB"},
		{"expandable_segments_reserve:0", "expandable_segments_reserve", wantReserve},
		{"expandable_segments_reserve:-1G", "expandable_segments_reserve", wantReserve},
		{"expandable_segments_reserve:Inf", "expandable_segments_reserve", wantReserve},
		{"backend:cuda", "backend", "options are native and cudaMallocAsync"},
		{"roundup_power2_divisions:0", "roundup_power2_divisions", "the divisions have to be a power of 2"},
		{"roundup_power2_divisions:3", "roundup_power2_divisions", "the divisions have to be a power of 2"},
		{"roundup_power2_divisions:[256:3]", "roundup_power2_divisions", "the divisions have to be powers of 2, or 0 to disable rounding"},
		{"roundup_power2_divisions:[500:8]", "roundup_power2_divisions", "the intervals have to be powers of 2"},
		{"roundup_power2_divisions:[0:8]", "roundup_power2_divisions", "the intervals have to be powers of 2"},
		{"roundup_power2_divisions:[]", "roundup_power2_divisions", "the divisions have to be powers of 2, or 0 to disable rounding"},
		{"roundup_power2_divisions:[256]", "roundup_power2_divisions",
			"the divisions have to be powers of 2, or 0 to disable rounding"},
		{"roundup_power2_divisions:[[256:1]", "roundup_power2_divisions", "the intervals have to be powers of 2"},
		{"foo:1", "foo", "unrecognized key; known are " + strings.Join(configTable.Keys(), ", ")},
	} {
		t.Run(c.text, func(t *testing.T) {
			_, err := ParseConfig(c.text)
			var ce *ConfigError
			require.ErrorAs(t, err, &ce)
			require.Equal(t, c.key, ce.Key)
			require.Equal(t, c.want, ce.Want)
			require.Contains(t, err.Error(), "memory: allocator setting "+c.key+": invalid value \""+ce.Value+"\": "+c.want)
		})
	}
}

func TestParseConfig_RefusesPunctuationOutOfPlace(t *testing.T) {
	for text, want := range map[string]string{
		"foo":                    `expected key:value at "foo"`,
		":1":                     `expected key:value at ":1"`,
		",max_split_size_mb:128": "unrecognized key",
		"max_split_size_mb:":     "the value is missing after max_split_size_mb",
		"max_split_size_mb:,expandable_segments:": "the value is missing after max_split_size_mb",
		"max_split_size_mb:128,x":                 `expected key:value at "x"`,
		"roundup_power2_divisions:[256:1":         "a list without ] after roundup_power2_divisions",
		"roundup_power2_divisions:[256:1]x:1":     "expected a comma after ] after roundup_power2_divisions",
		"max_split_size_mb:128;foo:1":             "want a positive number of MiB",
	} {
		_, err := ParseConfig(text)
		var ce *ConfigError
		require.ErrorAs(t, err, &ce, "%q", text)
		require.ErrorContains(t, err, want)
	}
}

// randomConfig is a valid Config of which each field is set or not.
func randomConfig(rng *rand.Rand) Config {
	var c Config
	mb := func(least, most uint64) uint64 {
		if rng.IntN(2) == 0 {
			return 0
		}
		n := (least + rng.Uint64N(most-least)) * mib
		if rng.IntN(2) == 0 {
			n += 1 + rng.Uint64N(mib-1)
		}
		return n
	}
	flag := func() bool { return rng.IntN(2) == 0 }
	c.LargeSegmentBytes = mb(11, 100)
	c.MaxSplitBytes, c.MaxNonSplitRoundingBytes = mb(100, 1<<20), mb(100, 1<<20)
	if flag() {
		c.GarbageCollectionThreshold = rng.Float64()
		f := rng.Float64()
		c.MemoryFraction = &f
		c.ExpandableReserve = Reserve{Fraction: 2 * rng.Float64()}
	}
	if flag() {
		c.ExpandableReserve = Reserve{Bytes: 1 + rng.Uint64N(1<<40)}
	}
	for i := range c.RoundupDivisions {
		c.RoundupDivisions[i] = uint(1<<rng.IntN(5)) * uint(rng.IntN(2))
	}
	c.ExpandableSegments, c.ReleaseLockOnMalloc, c.RejectOverFraction, c.ReuseInCapture = flag(), flag(), flag(), flag()
	c.WaitOnDevice, c.CrossStreamReclaim, c.SearchAfterSync = flag(), flag(), flag()
	c.PinnedUseHostRegister, c.PinnedUseBackgroundThreads, c.PinnedFreeCatchAll = flag(), flag(), flag()
	c.PinnedNumRegisterThreads = 1 << rng.IntN(8)
	c.PinnedReserveSegmentBytes, c.PinnedMaxCachedBytes = mb(1, 1<<20), mb(1, 1<<20)
	c.PinnedMaxRoundThresholdBytes = mb(1, 1<<20)
	c.Backend = Backend(rng.IntN(2))
	return c
}

func TestConfig_TextRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		want := randomConfig(rng)
		require.NoError(t, want.Validate())
		got, err := ParseConfig(want.String())
		require.NoError(t, err, "%s", want)
		require.Equal(t, want, got, "%s", want)
	}
}

func TestValidate_ChecksWhatTextCannotSay(t *testing.T) {
	bad := 2.0
	for _, c := range []Config{
		{GarbageCollectionThreshold: -0.5},
		{GarbageCollectionThreshold: math.NaN()},
		{MemoryFraction: &bad},
		{LargeSegmentBytes: 10 * mib},
		{MaxSplitBytes: 20*mib - 1},
		{RoundupDivisions: [roundupIntervals]uint{15: 6}},
		{PinnedNumRegisterThreads: -1},
		{Backend: 7},
		{ExpandableReserve: Reserve{Fraction: math.Inf(1)}},
	} {
		var ce *ConfigError
		require.ErrorAs(t, c.Validate(), &ce, "%+v", c)
		_, err := New(&fakeDriver{}, c)
		require.ErrorAs(t, err, &ce, "New refuses it too")
	}
	require.NoError(t, Config{}.Validate())
}

func TestEnvConfig_FirstVariableThatIsSetCounts(t *testing.T) {
	parsed := func(t *testing.T) string {
		c, err := EnvConfig()
		require.NoError(t, err)
		return c.String()
	}
	clearEnv(t)
	require.Empty(t, parsed(t), "none set")
	t.Setenv("PYTORCH_ALLOC_CONF", "max_split_size_mb:21")
	require.Equal(t, "max_split_size_mb:21", parsed(t))
	t.Setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:22")
	require.Equal(t, "max_split_size_mb:22", parsed(t))
	t.Setenv("CISTERN_ALLOC_CONF", "max_split_size_mb:23")
	require.Equal(t, "max_split_size_mb:23", parsed(t))
	t.Setenv("CISTERN_ALLOC_CONF", "")
	require.Empty(t, parsed(t), "set to nothing is set")

	t.Setenv("CISTERN_ALLOC_CONF", "max_split_size_mb:3")
	_, err := EnvConfig()
	var ce *ConfigError
	require.ErrorAs(t, err, &ce)
	require.ErrorContains(t, err, "environment variable CISTERN_ALLOC_CONF: ")
}

// Numbers are decimal: what Go's parser takes besides is no number that anybody means here.
func TestParseConfig_NumbersAreDecimal(t *testing.T) {
	for key, good := range map[string]string{
		keyGC: "0.5", keyFraction: "0.5", keyReserve: "0.5", keyLargeSegment: "20", keyMaxSplit: "40.5", keyMaxNonSplit: "40",
		keyRoundup: "4", keyRegisterThreads: "4", "pinned_reserve_segment_size_mb": "4", "pinned_max_round_threshold_mb": "4",
		"pinned_max_cached_size_mb": "4",
	} {
		_, err := ParseConfig(key + ":" + good)
		require.NoError(t, err, "%s:%s", key, good)
		for _, bad := range []string{"+" + good, "-" + good, "0x" + good, "0x1p-1", "0X1P+6", "1_0", "0_" + good, "0b1", "0o40", "Inf", "inf", "+Inf",
			"infinity", "NaN", "nan", ".", "e1", ".e1", "1e", "1e+", "1e+-1", "1e1e1", "1.0.0", "1f", good + "e0x1", good + "e1_0", "\u0661"} {
			_, err := ParseConfig(key + ":" + bad)
			var ce *ConfigError
			require.ErrorAs(t, err, &ce, "%s:%s", key, bad)
		}
	}
	for _, bad := range []string{"0x1p5G", "1_0G", "InfG", "+4G", "G", "4GG", "4 GiB"} {
		_, err := ParseConfig(keyReserve + ":" + bad)
		require.Error(t, err, bad)
	}
}

// An error repeats the beginning of a long text, whatever is wrong with it.
func TestParseConfig_ErrorsAreShort(t *testing.T) {
	long := strings.Repeat("é1", 1<<19)
	texts := []string{long, long + ":1", ":" + long, "max_split_size_mb:40," + long, long + ":", long + ":[", long + ":[]" + long, "foo:" + long,
		"roundup_power2_divisions:[" + long + "]", "roundup_power2_divisions:[" + long + ":1]", "expandable_segments_reserve:" + long + "G"}
	for _, key := range configTable.Keys() {
		texts = append(texts, key+":"+long, key+":"+strings.Repeat("9", 1<<20))
	}
	for _, text := range texts {
		_, err := ParseConfig(text)
		require.Error(t, err)
		require.Less(t, len(err.Error()), 1000, "%s", text[:40])
		require.NotContains(t, err.Error(), "\\x", "cut between characters")
		require.NotContains(t, err.Error(), strings.Repeat("é1", 40))
		t.Setenv("CISTERN_ALLOC_CONF", text)
		_, err = EnvConfig()
		require.Less(t, len(err.Error()), 1000)
	}
	o := HistoryOptions{SkipActions: []Action{Action(long)}}
	require.Less(t, len(o.Validate().Error()), 1000)
}
