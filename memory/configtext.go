package memory

import (
	"fmt"
	"math"
	"math/bits"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cistern-ml/cistern/internal/excerpt"
)

// ConfigError is a setting that cannot be: which one, the value given, and what is allowed. Of a long text it has the beginning.
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
	return &ConfigError{Key: excerpt.Of(key), Value: excerpt.Of(value), Want: want}
}

// parseDecimal reads a number without sign: digits, perhaps with a point among them, perhaps with an exponent. strconv.ParseFloat
// alone also takes what no setting means: hexadecimal, underscores, infinity.
func parseDecimal(text string) (float64, bool) {
	mantissa, exponent, has := text, "", false
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa, exponent, has = text[:i], text[i+1:], true
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent = strings.TrimPrefix(strings.TrimPrefix(exponent, "-"), "+")
	if !isDigits(whole+fraction) || has && !isDigits(exponent) {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}

func isDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

func uintText(n uint64) string   { return strconv.FormatUint(n, 10) }
func floatText(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
func isPowerOfTwo(n uint64) bool { return n != 0 && n&(n-1) == 0 }

// mbText writes a number of bytes in MiB, exactly: what is not whole has a decimal fraction.
func mbText(n uint64) string {
	text := strconv.FormatUint(n/mib, 10)
	if rest := n % mib; rest != 0 {
		text += strconv.FormatFloat(float64(rest)/mib, 'f', -1, 64)[1:] // without the 0 before the point
	}
	return text
}

// parseMB is the opposite of mbText. It reports false for what is not a positive number of bytes.
func parseMB(text string) (uint64, bool) {
	whole, fraction, has := strings.Cut(text, ".")
	n, err := strconv.ParseUint(whole, 10, 44)
	if err != nil {
		return 0, false
	}
	n *= mib
	if has {
		f, err := strconv.ParseFloat("0."+fraction, 64)
		rest := f * mib
		if err != nil || !isDigits(fraction) || rest != math.Trunc(rest) {
			return 0, false
		}
		n += uint64(rest)
	}
	return n, n != 0
}

// ParseConfig reads settings in PyTorch's grammar: "key:value,key:[a:b,c:d],...", white space ignored, booleans written True
// and False, numbers in decimal notation, sizes in MiB (a decimal fraction counts here; PyTorch ignores it). Unknown keys, values out of range and punctuation out of place are *ConfigErrors.
func ParseConfig(text string) (Config, error) {
	var c Config
	rest := strings.Join(strings.Fields(text), "")
	for rest != "" {
		key, tail, ok := strings.Cut(rest, ":")
		if !ok || key == "" {
			return Config{}, configError("", text, "expected key:value at "+excerpt.Quote(rest))
		}
		value, next, err := cutValue(tail)
		if err != "" {
			return Config{}, configError("", text, err+" after "+excerpt.Of(key))
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

func (c *Config) set(key, value string) error {
	for i := range settings {
		if s := &settings[i]; s.key == key || slices.Contains(s.aliases, key) {
			return s.parse(c, value)
		}
	}
	return configError(key, value, "unrecognized key; known are "+strings.Join(configKeys(), ", "))
}

func configKeys() []string {
	keys := make([]string, len(settings))
	for i := range settings {
		keys[i] = settings[i].key
	}
	return keys
}

// parseRoundup reads the scalar form "4" and the list form "[256:1,512:2,>:8]". In a list each boundary sets the octave that
// starts there, the first one also all lower octaves, and ">" all octaves after the last one named.
func parseRoundup(c *Config, value string) error {
	var d [roundupIntervals]uint
	if !strings.HasPrefix(value, "[") {
		n, err := strconv.ParseUint(value, 10, 32)
		if err != nil || !isPowerOfTwo(n) {
			return configError(keyRoundup, value, "the divisions have to be a power of 2")
		}
		for i := range d {
			d[i] = uint(n)
		}
		c.RoundupDivisions = d
		return nil
	}
	last := 0
	for i, item := range strings.Split(value[1:len(value)-1], ",") {
		bound, text, ok := strings.Cut(item, ":")
		n, err := strconv.ParseUint(text, 10, 32)
		if !ok || err != nil || (n != 0 && !isPowerOfTwo(n)) {
			return configError(keyRoundup, value, "the divisions have to be powers of 2, or 0 to disable rounding")
		}
		from, to := last+1, len(d)-1
		if bound != ">" {
			mb, err := strconv.ParseUint(bound, 10, 44)
			if err != nil || !isPowerOfTwo(mb) {
				return configError(keyRoundup, value, "the intervals have to be powers of 2")
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
	return nil
}

// String writes the settings that differ from the defaults in the form that ParseConfig reads, which gives the same settings
// again; the zero Config is "".
func (c Config) String() string {
	var items []string
	for i := range settings {
		if text := settings[i].text(&c); text != "" {
			items = append(items, settings[i].key+":"+text)
		}
	}
	return strings.Join(items, ",")
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
