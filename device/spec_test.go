package device

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseSpec_ReadsEachKind(t *testing.T) {
	for text, want := range map[string]Spec{
		"host":             {Kind: Host},
		"host:4GiB":        {Kind: Host, Capacity: 4 << 30},
		"sim":              {Kind: Sim},
		"sim:80GiB":        {Kind: Sim, Capacity: 80 << 30},
		"sim:1.5MiB":       {Kind: Sim, Capacity: 3 << 19},
		"sim:4096B":        {Kind: Sim, Capacity: 4096},
		"sim:80GB":         {Kind: Sim, Capacity: 80e9},
		"host:500mb":       {Kind: Host, Capacity: 500e6},
		"sim:1048576":      {Kind: Sim, Capacity: 1 << 20}, // plain bytes, as programs print them
		"sim:25253904384":  {Kind: Sim, Capacity: 25253904384},
		"host:25253904384": {Kind: Host, Capacity: 25253904384},
		"cuda":             {Kind: CUDA},
		"cuda:0":           {Kind: CUDA},
		"cuda:3":           {Kind: CUDA, Index: 3},
		"cuda:100000":      {Kind: CUDA, Index: 100000},
	} {
		got, err := ParseSpec(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		again, err := ParseSpec(got.String())
		require.NoError(t, err, "String gives a specification")
		require.Equal(t, got, again)
	}
}

// Each is refused with what is wrong with it, and not with something that it has right.
func TestParseSpec_RefusesTheRestAndSaysWhy(t *testing.T) {
	const noUnit = "has no unit, and is therefore a number of bytes, of which there must be at least 1048576"
	for text, want := range map[string]string{
		"":                              "it is empty",
		"gpu":                           `there is no kind of device "gpu"`,
		"cpu":                           `there is no kind of device "cpu"`,
		" sim":                          `there is no kind of device " sim"`,
		":1GiB":                         "there is nothing before the colon",
		"CUDA:0":                        `kinds of devices are in lower case, "cuda"`,
		"Sim":                           `kinds of devices are in lower case, "sim"`,
		"80GiB":                         `there is no kind of device "80GiB"`,
		"sim80GiB":                      `there is no kind of device "sim80GiB"`,
		"host:":                         "there is nothing after the colon",
		"cuda:":                         "there is nothing after the colon",
		"sim::":                         "there is more than one colon",
		"sim:1GiB:2":                    "there is more than one colon",
		"sim:1GiB:":                     "there is more than one colon",
		"cuda:0:1":                      "there is more than one colon",
		"host:0GiB":                     "the capacity is 0",
		"sim:0":                         "the capacity is 0",
		"sim:0.4B":                      "the capacity is 0",
		"host:1":                        `"1" ` + noUnit,
		"sim:1":                         `"1" ` + noUnit,
		"sim:80":                        `"80" ` + noUnit,
		"sim:1048575":                   `"1048575" ` + noUnit,
		"sim:1048576.5":                 `"1048576.5" has no unit, and bytes are a whole number`,
		"sim:18446744073709551616":      `"18446744073709551616" is more than 18446744073709551615 bytes`,
		"sim:16777216TiB":               `"16777216TiB" is more than 18446744073709551615 bytes`,
		"sim:16EiB":                     `"EiB" is not a unit`,
		"sim:1PB":                       `"PB" is not a unit`,
		"sim:80G":                       `"G" is not a unit`,
		"sim:-1GiB":                     `"-1GiB" has a minus sign`,
		"sim:-1":                        `"-1" has a minus sign`,
		"sim:+1GiB":                     `"+1GiB" has a plus sign`,
		"sim:1GiB ram":                  `"GiB ram" is not a unit`,
		"sim:1,5GiB":                    `"1,5" has a comma, and fractions have a point`,
		"sim:1e9B":                      `"1e9" has an exponent`,
		"sim:GiB":                       "there is no number before the unit",
		"sim:much":                      `"much" is not a number`,
		"sim:0GB":                       "the capacity is 0",
		"cuda:-1":                       `the index "-1" is negative`,
		"cuda:x":                        `the index "x" is not a whole number`,
		"cuda:1.5":                      `the index "1.5" is not a whole number`,
		"cuda:4GiB":                     `the index "4GiB" is not a whole number`,
		"cuda: 1":                       `the index " 1" is not a whole number`,
		"cuda:99999999999":              `the index "99999999999" is more than 2147483647`,
		"cuda:2147483648":               `the index "2147483648" is more than 2147483647`,
		"cuda:99999999999999999999999":  `the index "99999999999999999999999" is more than 2147483647`,
		"cuda:-99999999999999999999999": `is negative`,
	} {
		_, err := ParseSpec(text)
		require.ErrorIs(t, err, ErrInvalidValue, text)
		var parse *ParseError
		require.ErrorAs(t, err, &parse)
		require.Equal(t, text, parse.Value)
		require.Contains(t, parse.Reason, want, text)
		require.Contains(t, err.Error(), `"sim:80GiB"`)
	}
}

func TestKindAndID_AreNamedAsInSpecifications(t *testing.T) {
	require.Equal(t, "host", ID{Kind: Host}.String())
	require.Equal(t, "sim:2", ID{Kind: Sim, Index: 2}.String())
	require.Equal(t, "cuda:0", ID{Kind: CUDA}.String())
	require.Equal(t, "Kind(9)", Kind(9).String())
}

func FuzzParseSpec_NeverPanicsAndRoundTrips(f *testing.F) {
	for _, text := range []string{"host", "host:4GiB", "sim:1.5MiB", "sim:4096B", "cuda:1", "cuda:", "cuda:2147483647", "sim:0.1KiB", "host: 1 tib ", "sim:25253904384", "sim:18446744073709551615B", "sim:16EiB", "sim:1GiB:2", "cuda:-1",
		"sim:1,5GiB", "Host"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		spec, err := ParseSpec(text)
		if err != nil {
			var wrong *ParseError
			require.ErrorAs(t, err, &wrong)
			require.NotEmpty(t, wrong.Reason)
			require.Zero(t, spec)
			return
		}
		again, err := ParseSpec(spec.String())
		require.NoError(t, err, "%q is read as %q", text, spec)
		require.Equal(t, spec, again)
	})
}

func TestParseError_RepeatsTheBeginningOfALongText(t *testing.T) {
	long := strings.Repeat("ü", 50_000)
	_, err := Open(long)
	require.ErrorIs(t, err, ErrInvalidValue)
	require.Less(t, len(err.Error()), 1000)
	require.ErrorContains(t, err, strings.Repeat("ü", 50)+`"...`)
	_, err = ParseBytes(long)
	require.Less(t, len(err.Error()), 1000)
}
