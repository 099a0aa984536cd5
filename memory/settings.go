package memory

import (
	"math"
	"strconv"
	"strings"
)

// The keys of the text form of a Config that errors name elsewhere.
const (
	keyLargeSegment    = "large_segment_size_mb"
	keyMaxSplit        = "max_split_size_mb"
	keyMaxNonSplit     = "max_non_split_rounding_mb"
	keyGC              = "garbage_collection_threshold"
	keyRoundup         = "roundup_power2_divisions"
	keyFraction        = "per_process_memory_fraction"
	keyReserve         = "expandable_segments_reserve"
	keyRegisterThreads = "pinned_num_register_threads"
	keyBackend         = "backend"

	wantGC       = "set it in (0.0, 1.0)"
	wantFraction = "set it in [0.0, 1.0]"
	wantReserve  = "want a positive fraction of the device's memory, or a number of GiB such as 40G"
	wantBackend  = "options are native and cudaMallocAsync"
)

// setting is one key of the text form: how to read it into a Config, and how to write it back, "" being the default.
type setting struct {
	key     string
	aliases []string
	parse   func(c *Config, value string) error
	text    func(c *Config) string
}

// settings lists all keys, in the order in which String writes them.
var settings []setting

func init() { // not a variable's initial value, because parsing reports the keys
	settings = []setting{
		{key: keyBackend, parse: parseBackend, text: func(c *Config) string {
			if c.Backend == BackendNative {
				return ""
			}
			return c.Backend.String()
		}},
		mbSetting(keyLargeSegment, func(c *Config) *uint64 { return &c.LargeSegmentBytes }),
		mbSetting(keyMaxSplit, func(c *Config) *uint64 { return &c.MaxSplitBytes }),
		mbSetting(keyMaxNonSplit, func(c *Config) *uint64 { return &c.MaxNonSplitRoundingBytes }),
		{key: keyGC, parse: parseGC, text: func(c *Config) string { return nonZeroFloat(c.GarbageCollectionThreshold) }},
		{key: keyRoundup, parse: parseRoundup, text: roundupText},
		boolSetting("expandable_segments", func(c *Config) *bool { return &c.ExpandableSegments }),
		{key: keyReserve, parse: parseReserve, text: reserveText},
		boolSetting("release_lock_on_cudamalloc", func(c *Config) *bool { return &c.ReleaseLockOnMalloc }, "release_lock_on_hipmalloc"),
		boolSetting("graph_capture_record_stream_reuse", func(c *Config) *bool { return &c.ReuseInCapture }),
		{key: keyFraction, parse: parseFraction, text: fractionText},
		boolSetting("throw_on_cudamalloc_oom", func(c *Config) *bool { return &c.RejectOverFraction }),
		boolSetting("pinned_use_cuda_host_register", func(c *Config) *bool { return &c.PinnedUseHostRegister }),
		{key: keyRegisterThreads, parse: parseThreads, text: threadsText},
		boolSetting("pinned_use_background_threads", func(c *Config) *bool { return &c.PinnedUseBackgroundThreads }),
		mbSetting("pinned_reserve_segment_size_mb", func(c *Config) *uint64 { return &c.PinnedReserveSegmentBytes }),
		mbSetting("pinned_max_round_threshold_mb", func(c *Config) *uint64 { return &c.PinnedMaxRoundThresholdBytes }),
		mbSetting("pinned_max_cached_size_mb", func(c *Config) *uint64 { return &c.PinnedMaxCachedBytes }),
		boolSetting("pinned_free_catch_all", func(c *Config) *bool { return &c.PinnedFreeCatchAll }),
	}
}

func mbSetting(key string, field func(*Config) *uint64) setting {
	return setting{key: key,
		parse: func(c *Config, value string) error {
			n, ok := parseMB(value)
			if !ok {
				return configError(key, value, "want a positive number of MiB")
			}
			*field(c) = n
			return nil
		},
		text: func(c *Config) string {
			if n := *field(c); n != 0 {
				return mbText(n)
			}
			return ""
		}}
}

func boolSetting(key string, field func(*Config) *bool, aliases ...string) setting {
	return setting{key: key, aliases: aliases,
		parse: func(c *Config, value string) error {
			if value != "True" && value != "False" {
				return configError(key, value, "want True or False")
			}
			*field(c) = value == "True"
			return nil
		},
		text: func(c *Config) string {
			if *field(c) {
				return "True"
			}
			return ""
		}}
}

func parseBackend(c *Config, value string) error {
	switch value {
	case BackendNative.String():
		c.Backend = BackendNative
	case BackendAsync.String():
		c.Backend = BackendAsync
	default:
		return configError(keyBackend, value, wantBackend)
	}
	return nil
}

func parseGC(c *Config, value string) error {
	f, ok := parseDecimal(value)
	if !ok || !(f > 0 && f < 1) {
		return configError(keyGC, value, wantGC)
	}
	c.GarbageCollectionThreshold = f
	return nil
}

func parseFraction(c *Config, value string) error {
	f, ok := parseDecimal(value)
	if !ok || !(f >= 0 && f <= 1) {
		return configError(keyFraction, value, wantFraction)
	}
	c.MemoryFraction = &f
	return nil
}

func fractionText(c *Config) string {
	if c.MemoryFraction == nil {
		return ""
	}
	return floatText(*c.MemoryFraction)
}

func nonZeroFloat(f float64) string {
	if f == 0 {
		return ""
	}
	return floatText(f)
}

func parseReserve(c *Config, value string) error {
	number, gib := strings.CutSuffix(value, "G")
	f, ok := parseDecimal(number)
	if !ok || !(f > 0 && f < math.MaxInt64/(1<<30)) {
		return configError(keyReserve, value, wantReserve)
	}
	if gib {
		c.ExpandableReserve = Reserve{Bytes: uint64(f * (1 << 30))}
	} else {
		c.ExpandableReserve = Reserve{Fraction: f}
	}
	return nil
}

func reserveText(c *Config) string {
	if n := c.ExpandableReserve.Bytes; n != 0 {
		return floatText(float64(n)/(1<<30)) + "G"
	}
	return nonZeroFloat(c.ExpandableReserve.Fraction)
}

func parseThreads(c *Config, value string) error {
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil || !isPowerOfTwo(n) {
		return configError(keyRegisterThreads, value, "number of register threads has to be a power of 2")
	}
	c.PinnedNumRegisterThreads = int(n)
	return nil
}

func threadsText(c *Config) string {
	if c.PinnedNumRegisterThreads == 0 {
		return ""
	}
	return strconv.Itoa(c.PinnedNumRegisterThreads)
}
