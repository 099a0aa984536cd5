package device

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseBytes_ReadsUnitsAndPlainNumbers(t *testing.T) {
	for text, want := range map[string]uint64{
		"0":                    0,
		"4096":                 4096,
		"512B":                 512,
		"20MiB":                20 << 20,
		"80GiB":                80 << 30,
		"80 gib":               80 << 30,
		" 3KiB ":               3 << 10,
		"2TiB":                 2 << 40,
		"1.5GiB":               3 << 29,
		"0.1KiB":               102, // rounded down
		"18446744073709551615": 1<<64 - 1,
		"16777215TiB":          16777215 << 40,
		"80GB":                 80_000_000_000,
		"80 gb":                80_000_000_000,
		"1.5TB":                1_500_000_000_000,
		"10MB":                 10_000_000,
		"7kB":                  7000,
		"0.0015KB":             1, // rounded down
		"1.001GB":              1_001_000_000,
		"4.35GB":               4_350_000_000, // and not a byte less
		"18446744TB":           18446744_000_000_000_000,
	} {
		got, err := ParseBytes(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestParseBytes_RefusesTheRestAndSaysWhyAndWhatIsAllowed(t *testing.T) {
	const tooMany = " is more than 18446744073709551615 bytes, the most that 64 bits count"
	for text, want := range map[string]string{
		"":                     "it is empty",
		" ":                    "it is empty",
		"GiB":                  "there is no number before the unit",
		"B":                    "there is no number before the unit",
		"-1":                   `"-1" has a minus sign`,
		"-1GiB":                `"-1GiB" has a minus sign`,
		"+1GiB":                `"+1GiB" has a plus sign`,
		"1e3KiB":               `"1e3" has an exponent`,
		"1e3GB":                `"1e3" has an exponent`,
		"1e3":                  `"1e3" has an exponent`,
		"1e+3B":                `"1e+3" has an exponent`,
		"1.5":                  `"1.5" has no unit, and bytes are a whole number`,
		"1..5GiB":              `"1..5" is not a number`,
		".GiB":                 `"." is not a number`,
		"1,5GiB":               `"1,5" has a comma, and fractions have a point`,
		"1,000":                `"1,000" has a comma, and fractions have a point`,
		"0x10":                 `"x10" is not a unit`,
		"10PB":                 `"PB" is not a unit`,
		"16EiB":                `"EiB" is not a unit`,
		"10G":                  `"G" is not a unit`,
		"10M":                  `"M" is not a unit`,
		"10 bytes":             `"bytes" is not a unit`,
		"1_000":                `"_000" is not a unit`,
		"1GiB2":                `"GiB2" is not a unit`,
		"1 2GiB":               `"1 2" is not a number`,
		"1.5e":                 `"e" is not a unit`,
		"NaN GiB":              `"NaN" is not a number`,
		"Inf B":                `"Inf" is not a number`,
		"\xff":                 `"\xff" is not a number`,
		"18446745TB":           `"18446745TB"` + tooMany,
		"18446744.9TB":         `"18446744.9TB"` + tooMany,
		"16777216TiB":          `"16777216TiB"` + tooMany,
		"16777216.5TiB":        `"16777216.5TiB"` + tooMany,
		"18446744073709551616": `"18446744073709551616"` + tooMany,
		"99999999999999999999": `"99999999999999999999"` + tooMany,

		"99999999999999999999GiB":          `"99999999999999999999GiB"` + tooMany,
		strings.Repeat("9", 400) + ".5GiB": tooMany,
	} {
		_, err := ParseBytes(text)
		require.ErrorIs(t, err, ErrInvalidValue, text)
		var parse *ParseError
		require.ErrorAs(t, err, &parse)
		require.Equal(t, text, parse.Value)
		require.Contains(t, parse.Reason, want, text)
		require.Contains(t, err.Error(), "KiB, MiB, GiB or TiB")
		require.Contains(t, err.Error(), "KB, MB, GB or TB")
	}
}

func TestFormatBytes_IsShort(t *testing.T) {
	for n, want := range map[uint64]string{
		0:            "0B",
		513:          "513B",
		1024:         "1KiB",
		20 << 20:     "20MiB",
		3 << 29:      "1.5GiB",
		85899345920:  "80GiB",
		85899345921:  "80GiB",
		1<<64 - 1:    "16777216TiB",
		986_000_000:  "940.32MiB",
		1000*KiB + 1: "1000KiB",
	} {
		require.Equal(t, want, FormatBytes(n))
	}
}

func FuzzParseBytes_NeverPanicsAndExactTextRoundTrips(f *testing.F) {
	f.Add("80GiB", uint64(80<<30))
	f.Add("1.5 MiB", uint64(12345))
	f.Add("16EiB", uint64(1))
	f.Add("1e3", uint64(1))
	f.Fuzz(func(t *testing.T, text string, n uint64) {
		if _, err := ParseBytes(text); err != nil {
			var wrong *ParseError
			require.ErrorAs(t, err, &wrong)
			require.NotEmpty(t, wrong.Reason)
		}
		got, err := ParseBytes(exactBytes(n))
		require.NoError(t, err)
		require.Equal(t, n, got)
	})
}
