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

func TestParseSpec_RefusesTheRestAndSaysWhatIsAllowed(t *testing.T) {
	for _, text := range []string{
		"", "gpu", "CUDA:0", "cpu", "host:", "host:0GiB", "host:1", "sim:1", "sim:80", "sim:1048575", "sim:1048576.5", "sim:18446744073709551616", "sim:-1GiB", "sim:80G", "sim:0GB", "cuda:", "cuda:-1",
		"cuda:x", "cuda:4GiB", "cuda:0:1", "cuda:99999999999", "sim:1GiB:2",
	} {
		_, err := ParseSpec(text)
		require.ErrorIs(t, err, ErrInvalidValue, text)
		var parse *ParseError
		require.ErrorAs(t, err, &parse)
		require.Equal(t, text, parse.Value)
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
	for _, text := range []string{"host", "host:4GiB", "sim:1.5MiB", "sim:4096B", "cuda:1", "cuda:", "cuda:2147483647", "sim:0.1KiB", "host: 1 tib ", "sim:25253904384", "sim:18446744073709551615B"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		spec, err := ParseSpec(text)
		if err != nil {
			var wrong *ParseError
			require.ErrorAs(t, err, &wrong)
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
