package machine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHere_KnowsWhatItRunsOn(t *testing.T) {
	f := Here()
	require.NotEmpty(t, f.CPU)
	require.Positive(t, f.Cores)
	require.Positive(t, f.Procs)
	require.Regexp(t, `^go\S+ \w+/\w+$`, f.Go)
	require.Regexp(t, `^\d{4}-\d\d-\d\d$`, f.Date)
	require.Contains(t, f.String(), f.Commit)
}

func TestHere_TakesTheCommitThatTheBuildWasGiven(t *testing.T) {
	t.Cleanup(func() { Commit = "" })
	Commit = "0123abc"
	require.Equal(t, "0123abc", Here().Commit)
}

func TestFacts_LeavesOutALoadThatNobodyKnows(t *testing.T) {
	require.NotContains(t, Facts{}.String(), "load")
	require.Contains(t, Facts{Load: "1 2 3"}.String(), "load 1 2 3")
}
