package nn_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/nn"
)

// under strips a prefix, and leaves out what does not have it.
func under(prefix string) func(name string) string {
	return func(name string) string {
		rest, ours := strings.CutPrefix(name, prefix)
		if !ours {
			return ""
		}
		return rest
	}
}

func TestLoad_WithRename_TakesAPartOfAFileUnderOtherNames(t *testing.T) {
	r := onHost(t)
	whole := nn.Sequential(nn.Sequential(nn.Linear(2, 3, nn.WeightInit(nn.Constant(5)))), nn.Linear(3, 1))
	body := nn.Sequential(nn.Linear(2, 3, nn.WeightInit(nn.Constant(0))))
	r.place(whole)
	r.place(body)
	file := saved(t, whole) // 0.0.weight, 0.0.bias, 1.weight, 1.bias
	for name, reader := range map[string]func() io.Reader{
		"twice":  func() io.Reader { return bytes.NewReader(file) },
		"staged": func() io.Reader { return bytes.NewBuffer(file) },
	} {
		body.Release()
		r.place(body)
		var calls []string
		require.NoError(t, nn.Load(reader(), body, nn.Rename(func(name string) string {
			calls = append(calls, name)
			return under("0.")(name)
		})), name)
		require.ElementsMatch(t, []string{"0.0.weight", "0.0.bias", "1.weight", "1.bias"}, calls, "once each")
		require.Equal(t, []float64{5, 5, 5, 5, 5, 5}, valuesOf(t, body.Parameters()[0]))
		require.NoError(t, nn.Load(reader(), whole, nn.Rename(nil)), "nil changes nothing")
	}
	var left nn.Unmatched
	require.NoError(t, nn.Load(bytes.NewReader(file), body, nn.Partial(&left), nn.Rename(func(name string) string {
		return strings.TrimPrefix(strings.Replace(name, "0.0.bias", "", 1), "0.")
	})))
	require.Equal(t, []string{"0.bias"}, left.Missing, "left out")
	require.ElementsMatch(t, []string{"1.weight", "1.bias"}, left.Unexpected)
}

func TestLoad_WithRename_RefusesWhatDoesNotFit(t *testing.T) {
	r := onHost(t)
	whole := nn.Sequential(nn.Sequential(nn.Linear(2, 3)), nn.Linear(3, 1))
	body := nn.Sequential(nn.Linear(2, 3))
	r.place(whole)
	r.place(body)
	file, before := saved(t, whole), saved(t, body)
	for want, opts := range map[string][]nn.LoadOption{
		`nn.Rename makes "0.bias" of both`:  {nn.Rename(func(string) string { return "0.bias" })},
		"missing from the file: 0.weight":   {nn.Rename(func(string) string { return "" })},
		"missing from the file: 0.weight, ": {nn.Partial(nil), nn.Rename(func(string) string { return "" })},
		"not in the model: ":                {nn.Rename(func(name string) string { return strings.TrimPrefix(name, "0.") })},
	} {
		err := nn.Load(bytes.NewReader(file), body, opts...)
		var differ *nn.MismatchError
		require.ErrorAs(t, err, &differ, want)
		require.ErrorContains(t, err, want)
	}
	require.Equal(t, before, saved(t, body))
	require.Panics(t, func() { _ = nn.Load(bytes.NewReader(file), body, nn.Rename(func(string) string { panic("mine") })) })
}
