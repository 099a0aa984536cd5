package settings

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

type config struct {
	bytes uint64
	on    bool
}

var table = Table[config]{
	Fail: func(key, value, want string) error { return fmt.Errorf("%s|%s|%s", key, value, want) },
	Settings: []Setting[config]{
		MB("size_mb", func(c *config) *uint64 { return &c.bytes }),
		Bool("switch", func(c *config) *bool { return &c.on }, "old_switch"),
	},
}

func TestTable_ReadsWhatItWrites(t *testing.T) {
	for text, want := range map[string]config{
		"": {}, "size_mb:3": {3 << 20, false}, " old_switch : True , size_mb:0.5,": {1 << 19, true}, "switch:False": {},
	} {
		var c, again config
		require.NoError(t, table.Parse(&c, text), text)
		require.Equal(t, want, c, text)
		require.NoError(t, table.Parse(&again, table.String(&c)))
		require.Equal(t, c, again)
	}
}

func TestTable_Refuses(t *testing.T) {
	for text, want := range map[string]string{
		"size_mb":      `|size_mb|expected key:value at "size_mb"`,
		"size_mb:":     "|size_mb:|the value is missing after size_mb",
		"size_mb:[1":   "|size_mb:[1|a list without ] after size_mb",
		"size_mb:[1]2": "|size_mb:[1]2|expected a comma after ] after size_mb",
		"old_switch:1": "switch|1|want True or False",
		"other:1":      "other|1|unrecognized key; known are size_mb, switch",
		"size_mb:0":    "size_mb|0|want a positive number of MiB",
	} {
		require.EqualError(t, table.Parse(new(config), text), want)
	}
}

func TestNumbers_AreExact(t *testing.T) {
	for _, n := range []uint64{1, 1 << 20, 1<<20 + 1, 3<<19 + 7, 1<<60 + 1} {
		got, ok := ParseMB(MBText(n))
		require.True(t, ok, n)
		require.Equal(t, n, got)
	}
	for _, f := range []float64{0.1, 1e-30, math.MaxFloat64, 2} {
		got, ok := ParseDecimal(FloatText(f))
		require.True(t, ok, f)
		require.Equal(t, f, got)
	}
	for _, text := range []string{"", "-1", "0x10", "1_0", "inf", "NaN", "1e", ".e1"} {
		_, ok := ParseDecimal(text)
		require.False(t, ok, text)
	}
}
