package memory

import (
	"fmt"
	"os"

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

// ParseConfig reads settings in PyTorch's grammar: "key:value,key:[a:b,c:d],...", white space ignored, booleans written True
// and False, numbers in decimal notation, sizes in MiB (a decimal fraction counts here; PyTorch ignores it). Unknown keys, values out
// of range and punctuation out of place are *ConfigErrors.
func ParseConfig(text string) (Config, error) {
	var c Config
	if err := configTable.Parse(&c, text); err != nil {
		return Config{}, err
	}
	if err := c.Validate(); err != nil {
		return Config{}, err
	}
	return c, nil
}

// String writes the settings that differ from the defaults in the form that ParseConfig reads, which gives the same settings
// again; the zero Config is "".
func (c Config) String() string { return configTable.String(&c) }

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
