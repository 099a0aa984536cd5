package memory

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/cistern-ml/cistern/memory/internal/settings"
)

// The keys of the text form of a Config that errors name elsewhere.
const (
	keyLargeSegment    = "large_segment_size_mb"
	keyMaxSplit        = "max_split_size_mb"
	keyMaxNonSplit     = "max_non_split_rounding_mb"
	keyGC              = "garbage_collection_threshold"
	keyRoundup         = "roundup_power2_divisions"
	keyFraction        = "per_process_memory_fraction"
	keyCompaction      = "expandable_segments_compaction"
	keyMoveBudget      = "expandable_segments_compaction_budget"
	keyReserve         = "expandable_segments_reserve"
	keyRegisterThreads = "pinned_num_register_threads"
	keyBackend         = "backend"

	wantGC         = "set it in (0.0, 1.0)"
	wantFraction   = "set it in [0.0, 1.0]"
	wantReserve    = "want a positive fraction of the device's memory, or a number of GiB such as 40G"
	wantCompaction = "want a multiple of what is allocated, from 1 to 1000, such as 1.02"
	maxCompaction  = 1000
	wantMoveBudget = "want a part of the bytes that are asked for, more than 0 and at most 1000, such as 0.05"
	wantBackend    = "options are native and cudaMallocAsync"
)

// configTable lists all keys of the text form, in the order in which String writes them.
var configTable = settings.Table[Config]{
	Fail: configError,
	Settings: []settings.Setting[Config]{
		{Key: keyBackend, Parse: parseBackend, Text: func(c *Config) string {
			if c.Backend == BackendNative {
				return ""
			}
			return c.Backend.String()
		}},
		settings.MB(keyLargeSegment, func(c *Config) *uint64 { return &c.LargeSegmentBytes }),
		settings.MB(keyMaxSplit, func(c *Config) *uint64 { return &c.MaxSplitBytes }),
		settings.MB(keyMaxNonSplit, func(c *Config) *uint64 { return &c.MaxNonSplitRoundingBytes }),
		{Key: keyGC, Parse: parseGC, Text: func(c *Config) string { return nonZeroFloat(c.GarbageCollectionThreshold) }},
		{Key: keyRoundup, Parse: parseRoundup, Text: roundupText},
		settings.Bool("expandable_segments", func(c *Config) *bool { return &c.ExpandableSegments }),
		{Key: keyReserve, Parse: parseReserve, Text: reserveText},
		{Key: keyCompaction, Parse: parseCompaction, Text: func(c *Config) string { return nonZeroFloat(c.Compaction) }},
		{Key: keyMoveBudget, Parse: parseMoveBudget, Text: func(c *Config) string { return nonZeroFloat(c.CompactionBudget) }},
		settings.Bool("release_lock_on_cudamalloc", func(c *Config) *bool { return &c.ReleaseLockOnMalloc }, "release_lock_on_hipmalloc"),
		settings.Bool("graph_capture_record_stream_reuse", func(c *Config) *bool { return &c.ReuseInCapture }),
		settings.Bool("record_stream_device_wait", func(c *Config) *bool { return &c.WaitOnDevice }),
		settings.Bool("cross_stream_reclaim", func(c *Config) *bool { return &c.CrossStreamReclaim }),
		settings.Bool("search_after_event_sync", func(c *Config) *bool { return &c.SearchAfterSync }),
		{Key: keyFraction, Parse: parseFraction, Text: fractionText},
		settings.Bool("throw_on_cudamalloc_oom", func(c *Config) *bool { return &c.RejectOverFraction }),
		settings.Bool("pinned_use_cuda_host_register", func(c *Config) *bool { return &c.PinnedUseHostRegister }),
		{Key: keyRegisterThreads, Parse: parseThreads, Text: threadsText},
		settings.Bool("pinned_use_background_threads", func(c *Config) *bool { return &c.PinnedUseBackgroundThreads }),
		settings.MB("pinned_reserve_segment_size_mb", func(c *Config) *uint64 { return &c.PinnedReserveSegmentBytes }),
		settings.MB("pinned_max_round_threshold_mb", func(c *Config) *uint64 { return &c.PinnedMaxRoundThresholdBytes }),
		settings.MB("pinned_max_cached_size_mb", func(c *Config) *uint64 { return &c.PinnedMaxCachedBytes }),
		settings.Bool("pinned_free_catch_all", func(c *Config) *bool { return &c.PinnedFreeCatchAll }),
	},
}

func parseBackend(c *Config, value string) (want string) {
	switch value {
	case BackendNative.String():
		c.Backend = BackendNative
	case BackendAsync.String():
		c.Backend = BackendAsync
	default:
		return wantBackend
	}
	return ""
}

func parseGC(c *Config, value string) (want string) {
	f, ok := settings.ParseDecimal(value)
	if !ok || !(f > 0 && f < 1) {
		return wantGC
	}
	c.GarbageCollectionThreshold = f
	return ""
}

func parseCompaction(c *Config, value string) (want string) {
	f, ok := settings.ParseDecimal(value)
	if !ok || !(f >= 1 && f <= maxCompaction) {
		return wantCompaction
	}
	c.Compaction = f
	return ""
}

func parseMoveBudget(c *Config, value string) (want string) {
	f, ok := settings.ParseDecimal(value)
	if !ok || !(f > 0 && f <= maxCompaction) {
		return wantMoveBudget
	}
	c.CompactionBudget = f
	return ""
}

func parseFraction(c *Config, value string) (want string) {
	f, ok := settings.ParseDecimal(value)
	if !ok || !(f >= 0 && f <= 1) {
		return wantFraction
	}
	c.MemoryFraction = &f
	return ""
}

func fractionText(c *Config) string {
	if c.MemoryFraction == nil {
		return ""
	}
	return settings.FloatText(*c.MemoryFraction)
}

func nonZeroFloat(f float64) string {
	if f == 0 {
		return ""
	}
	return settings.FloatText(f)
}

func parseReserve(c *Config, value string) (want string) {
	number, gib := strings.CutSuffix(value, "G")
	f, ok := settings.ParseDecimal(number)
	if !ok || !(f > 0 && f < math.MaxInt64/(1<<30)) {
		return wantReserve
	}
	if gib {
		c.ExpandableReserve = Reserve{Bytes: uint64(f * (1 << 30))}
	} else {
		c.ExpandableReserve = Reserve{Fraction: f}
	}
	return ""
}

func reserveText(c *Config) string {
	if n := c.ExpandableReserve.Bytes; n != 0 {
		return settings.FloatText(float64(n)/(1<<30)) + "G"
	}
	return nonZeroFloat(c.ExpandableReserve.Fraction)
}

func parseThreads(c *Config, value string) (want string) {
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil || !settings.PowerOfTwo(n) {
		return "number of register threads has to be a power of 2"
	}
	c.PinnedNumRegisterThreads = int(n)
	return ""
}

func threadsText(c *Config) string {
	if c.PinnedNumRegisterThreads == 0 {
		return ""
	}
	return strconv.Itoa(c.PinnedNumRegisterThreads)
}

// parseRoundup reads the scalar form "4" and the list form "[256:1,512:2,>:8]". In a list each boundary sets the octave that
// starts there, the first one also all lower octaves, and ">" all octaves after the last one named.
func parseRoundup(c *Config, value string) (want string) {
	var d [roundupIntervals]uint
	if !strings.HasPrefix(value, "[") {
		n, err := strconv.ParseUint(value, 10, 32)
		if err != nil || !settings.PowerOfTwo(n) {
			return "the divisions have to be a power of 2"
		}
		for i := range d {
			d[i] = uint(n)
		}
		c.RoundupDivisions = d
		return ""
	}
	last := 0
	for i, item := range strings.Split(value[1:len(value)-1], ",") {
		bound, text, ok := strings.Cut(item, ":")
		n, err := strconv.ParseUint(text, 10, 32)
		if !ok || err != nil || (n != 0 && !settings.PowerOfTwo(n)) {
			return "the divisions have to be powers of 2, or 0 to disable rounding"
		}
		from, to := last+1, len(d)-1
		if bound != ">" {
			mb, err := strconv.ParseUint(bound, 10, 44)
			if err != nil || !settings.PowerOfTwo(mb) {
				return "the intervals have to be powers of 2"
			}
			to = min(bits.Len64(mb)-1, roundupIntervals-1)
			from, last = to, to
			if i == 0 {
				from = 0
			}
		}
		for ; from <= to; from++ {
			d[from] = uint(n)
		}
	}
	c.RoundupDivisions = d
	return ""
}

func roundupText(c *Config) string {
	d := c.RoundupDivisions
	same := true
	for _, v := range d {
		same = same && v == d[0]
	}
	switch {
	case same && d[0] == 0:
		return ""
	case same:
		return settings.UintText(uint64(d[0]))
	}
	items := make([]string, len(d))
	for i, v := range d {
		items[i] = fmt.Sprintf("%d:%d", 1<<i, v)
	}
	return "[" + strings.Join(items, ",") + "]"
}
