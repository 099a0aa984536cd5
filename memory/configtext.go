package memory

import (
	"fmt"
	"math/bits"
	"os"
	"strconv"
	"strings"
)

// The keys of the text form of a Config, in the order in which String writes them.
const (
	keyLargeSegment = "large_segment_size_mb"
	keyMaxSplit     = "max_split_size_mb"
	keyMaxNonSplit  = "max_non_split_rounding_mb"
	keyGC           = "garbage_collection_threshold"
	keyRoundup      = "roundup_power2_divisions"
	keyExpandable   = "expandable_segments"
	keyReleaseLock  = "release_lock_on_cudamalloc"
	keyFraction     = "per_process_memory_fraction"
)

// ConfigError is a setting that cannot be: which one, the value given, and what is allowed.
type ConfigError struct {
	Key   string // empty if the text as a whole is malformed
	Value string
	Want  string
}

// Error names the key, the value and what is allowed.
func (e *ConfigError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("memory: allocator settings %q: %s", e.Value, e.Want)
	}
	return fmt.Sprintf("memory: allocator setting %s: invalid value %q: %s", e.Key, e.Value, e.Want)
}

func configError(key, value, want string) error {
	return &ConfigError{Key: key, Value: value, Want: want}
}

func mbText(n uint64) string     { return strconv.FormatUint(n/mib, 10) }
func uintText(n uint64) string   { return strconv.FormatUint(n, 10) }
func floatText(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
func boolText(b bool) string     { return map[bool]string{true: "True", false: "False"}[b] }
func isPowerOfTwo(n uint64) bool { return n != 0 && n&(n-1) == 0 }

// ParseConfig reads settings in PyTorch's grammar: "key:value,key:[a:b,c:d],...", white space ignored, booleans written True
// and False, sizes in MiB. Unknown keys, values out of range and punctuation out of place are *ConfigErrors.
func ParseConfig(text string) (Config, error) {
	var c Config
	rest := strings.Join(strings.Fields(text), "")
	for rest != "" {
		key, tail, ok := strings.Cut(rest, ":")
		if !ok || key == "" {
			return Config{}, configError("", text, "expected key:value at "+strconv.Quote(rest))
		}
		value, next, err := cutValue(tail)
		if err != "" {
			return Config{}, configError("", text, err+" after "+key)
		}
		if err := c.set(key, value); err != nil {
			return Config{}, err
		}
		rest = next
	}
	if err := c.Validate(); err != nil {
		return Config{}, err
	}
	return c, nil
}

// cutValue splits off the value at the start of s: up to the next comma, or a bracketed list. A trailing comma is legal.
func cutValue(s string) (value, rest, problem string) {
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return "", "", "a list without ]"
		}
		value, rest = s[:end+1], s[end+1:]
		if rest != "" && rest[0] != ',' {
			return "", "", "expected a comma after ]"
		}
		return value, strings.TrimPrefix(rest, ","), ""
	}
	value, rest, _ = strings.Cut(s, ",")
	if value == "" {
		return "", "", "the value is missing"
	}
	return value, rest, ""
}

func (c *Config) set(key, value string) (err error) {
	switch key {
	case keyLargeSegment:
		c.LargeSegmentBytes, err = parseMB(key, value)
	case keyMaxSplit:
		c.MaxSplitBytes, err = parseMB(key, value)
	case keyMaxNonSplit:
		c.MaxNonSplitRoundingBytes, err = parseMB(key, value)
	case keyGC:
		c.GarbageCollectionThreshold, err = parseFloat(key, value, "set it in (0.0, 1.0)")
		if err == nil && c.GarbageCollectionThreshold <= 0 {
			err = configError(key, value, "set it in (0.0, 1.0)")
		}
	case keyRoundup:
		c.RoundupDivisions, err = parseRoundup(value)
	case keyExpandable:
		c.ExpandableSegments, err = parseBool(key, value)
	case keyReleaseLock:
		c.ReleaseLockOnMalloc, err = parseBool(key, value)
	case keyFraction:
		var f float64
		f, err = parseFloat(key, value, "set it in [0.0, 1.0]")
		c.MemoryFraction = &f
	default:
		err = configError(key, value, "unrecognized key; known are "+strings.Join(configKeys(), ", "))
	}
	return err
}

func configKeys() []string {
	return []string{keyLargeSegment, keyMaxSplit, keyMaxNonSplit, keyGC, keyRoundup, keyExpandable, keyReleaseLock, keyFraction}
}

func parseMB(key, value string) (uint64, error) {
	n, err := strconv.ParseUint(value, 10, 44)
	if err != nil || n == 0 {
		return 0, configError(key, value, "want a positive number of MiB")
	}
	return n * mib, nil
}

func parseFloat(key, value, want string) (float64, error) {
	f, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return 0, configError(key, value, want)
	}
	return f, nil
}

func parseBool(key, value string) (bool, error) {
	switch value {
	case "True":
		return true, nil
	case "False":
		return false, nil
	}
	return false, configError(key, value, "want True or False")
}

// parseRoundup reads the scalar form "4" and the list form "[256:1,512:2,>:8]". In a list each boundary sets the octave that
// starts there, the first one also all lower octaves, and ">" all octaves after the last one named.
func parseRoundup(value string) (d [roundupIntervals]uint, err error) {
	if !strings.HasPrefix(value, "[") {
		n, perr := strconv.ParseUint(value, 10, 32)
		if perr != nil || !isPowerOfTwo(n) {
			return d, configError(keyRoundup, value, "the divisions have to be a power of 2")
		}
		for i := range d {
			d[i] = uint(n)
		}
		return d, nil
	}
	last := 0
	for i, item := range strings.Split(strings.Trim(value, "[]"), ",") {
		bound, divText, ok := strings.Cut(item, ":")
		n, perr := strconv.ParseUint(divText, 10, 32)
		if !ok || perr != nil || (n != 0 && !isPowerOfTwo(n)) {
			return d, configError(keyRoundup, value, "the divisions have to be powers of 2, or 0 to disable rounding")
		}
		if bound == ">" {
			for j := last + 1; j < len(d); j++ {
				d[j] = uint(n)
			}
			continue
		}
		mb, perr := strconv.ParseUint(bound, 10, 44)
		if perr != nil || !isPowerOfTwo(mb) {
			return d, configError(keyRoundup, value, "the intervals have to be powers of 2")
		}
		at := min(bits.Len64(mb)-1, roundupIntervals-1)
		if i == 0 {
			for j := 0; j < at; j++ {
				d[j] = uint(n)
			}
		}
		d[at], last = uint(n), at
	}
	return d, nil
}

// String writes the settings that differ from the defaults in the form that ParseConfig reads; the zero Config is "".
func (c Config) String() string {
	var items []string
	add := func(set bool, key, value string) {
		if set {
			items = append(items, key+":"+value)
		}
	}
	add(c.LargeSegmentBytes != 0, keyLargeSegment, mbText(c.LargeSegmentBytes))
	add(c.MaxSplitBytes != 0, keyMaxSplit, mbText(c.MaxSplitBytes))
	add(c.MaxNonSplitRoundingBytes != 0, keyMaxNonSplit, mbText(c.MaxNonSplitRoundingBytes))
	add(c.GarbageCollectionThreshold != 0, keyGC, floatText(c.GarbageCollectionThreshold))
	add(c.RoundupDivisions != [roundupIntervals]uint{}, keyRoundup, roundupText(c.RoundupDivisions))
	add(c.ExpandableSegments, keyExpandable, boolText(true))
	add(c.ReleaseLockOnMalloc, keyReleaseLock, boolText(true))
	if c.MemoryFraction != nil {
		add(true, keyFraction, floatText(*c.MemoryFraction))
	}
	return strings.Join(items, ",")
}

func roundupText(d [roundupIntervals]uint) string {
	same := true
	for _, v := range d {
		same = same && v == d[0]
	}
	if same {
		return uintText(uint64(d[0]))
	}
	items := make([]string, len(d))
	for i, v := range d {
		items[i] = fmt.Sprintf("%d:%d", 1<<i, v)
	}
	return "[" + strings.Join(items, ",") + "]"
}

// The environment variables that hold allocator settings; the first one that is set counts.
var configVariables = []string{"CISTERN_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}

// The variables that switch caching off when they are "1".
var noCachingVariables = []string{"CISTERN_NO_MEMORY_CACHING", "PYTORCH_NO_CUDA_MEMORY_CACHING"}

// EnvConfig reads the settings from CISTERN_ALLOC_CONF, or else PYTORCH_CUDA_ALLOC_CONF, or else PYTORCH_ALLOC_CONF. None set
// is the zero Config.
func EnvConfig() (Config, error) {
	for _, name := range configVariables {
		if text, ok := os.LookupEnv(name); ok {
			c, err := ParseConfig(text)
			if err != nil {
				return Config{}, fmt.Errorf("environment variable %s: %w", name, err)
			}
			return c, nil
		}
	}
	return Config{}, nil
}

// cachingOff reports whether the environment asks for plain driver calls.
func cachingOff() bool {
	for _, name := range noCachingVariables {
		if os.Getenv(name) == "1" {
			return true
		}
	}
	return false
}
