package memreport

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWriteSVG_SaysACommonPathOnce(t *testing.T) {
	for want, paths := range map[string][]string{
		"":          {"a.b", "b.c"},
		"a.b":       {"a.b", "a.b.c", "", "a.b.d.e"},
		"h":         {"h.1", "h.10", "h"},
		"enc.layer": {"enc.layer.0.fc", "enc.layer.1.fc"},
	} {
		var list []Row
		for i, p := range paths {
			list = append(list, Row{Module: p, AtPeak: Categories{Activations: uint64(i + 1)}})
		}
		require.Equal(t, want, commonPrefix(list))
	}
	require.Empty(t, commonPrefix([]Row{{Module: "a.b"}, {Model: true}}), "of one path nothing is left out")

	path := strings.Repeat("long_name.", 9)
	r := Report{Device: "d", Peak: 1 << 20, PeakAt: Moment{Pass: PassForward, Operation: "add", Model: true}, Modules: []Row{
		{Module: path + "first", AtPeak: Categories{Activations: 900}}, {Module: path + "second", AtPeak: Categories{Activations: 1}},
		{Module: strings.TrimSuffix(path, "."), AtPeak: Categories{Inputs: 1 << 19}}, {Model: true},
	}}
	var b strings.Builder
	require.NoError(t, r.WriteSVG(&b))
	for _, part := range []string{">first<", ">second<", ">(itself)<", ">(model)<", "All are in " + strings.TrimSuffix(path, ".") + "<", "512KiB · 50.0 %", "1B · &lt; 0.1 %", "in the forward pass, in add of (model), with 0B reserved"} {
		require.Contains(t, b.String(), part)
	}
	require.NotContains(t, b.String(), `text-anchor="end">long_name`, "the names of rows do not have it again")
}
