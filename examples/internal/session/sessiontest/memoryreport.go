package sessiontest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/nn/memreport"
)

// MemoryReport runs a program that trains with -memory-report, and checks that what it was for adds up to all that was allocated, to the byte, the
// optimizer's state among it, and that little of it is of no known use. The program ends with the given exit code. Of one that
// trains several times each training has a report.
func MemoryReport(t *testing.T, run Run, code int, args ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.json")
	var stdout, stderr bytes.Buffer
	require.Equal(t, code, run(append(args[:len(args):len(args)], "-memory-report", file), &stdout, &stderr), "%s", &stderr)
	for _, file := range files(t, file) {
		checkReport(t, file)
	}
}

// files are a file that a program was to write, or those that it wrote for each of several trainings: file-name.json for file.json.
func files(t *testing.T, file string) []string {
	t.Helper()
	if _, err := os.Stat(file); err == nil {
		return []string{file}
	}
	ext := filepath.Ext(file)
	all, err := filepath.Glob(strings.TrimSuffix(file, ext) + "-*" + ext)
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

func checkReport(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var r memreport.Report
	require.NoError(t, json.Unmarshal(text, &r))
	require.NotZero(t, r.Peak)
	require.Equal(t, r.Peak, r.AtPeak.Total())
	require.NotZero(t, r.AtPeak.Parameters)
	require.NotZero(t, r.AtPeak.OptimizerState)
	require.Less(t, r.AtPeak.Other, r.Peak/20)
	require.Empty(t, r.Hint)
	for _, rows := range [][]memreport.Row{r.Modules, r.Operations, r.Breakdown} {
		sum := uint64(0)
		for _, row := range rows {
			sum += row.AtPeak.Total()
		}
		require.Equal(t, r.Peak, sum)
	}
}
