package sessiontest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// planTries is how often a program is run until its plan serves: on a busy machine a few steps may be over before a placement is found.
const planTries = 5

// Planned runs a program that trains with -plan and without, and checks that both compute the same numbers and give all memory back, and that the plan served requests
// and is told of.
func Planned(t *testing.T, run Run, args ...string) {
	t.Helper()
	without, plain := computed(t, run, args...)
	require.NotContains(t, plain, "requests served")
	require.Empty(t, without.plans)
	served := 0.0
	for try := 0; served == 0 && try < planTries; try++ {
		with, text := computed(t, run, append(args[:len(args):len(args)], "-plan")...)
		require.Contains(t, text, " requests served in ")
		require.Equal(t, without.numbers, with.numbers)
		require.NotEmpty(t, with.plans)
		for _, p := range with.plans {
			require.Positive(t, p["steps"])
			served += p["served"].(float64)
		}
	}
	require.Positive(t, served)
}

// numbers are what a program's JSON says, but for times, and for where memory lay.
type numbers struct {
	numbers any
	plans   []map[string]any
}

func computed(t *testing.T, run Run, args ...string) (n numbers, printed string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "figures.json")
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(append(args[:len(args):len(args)], "-json", file), &stdout, &stderr), "%s", &stderr)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &n.numbers))
	n.strip(n.numbers)
	return n, stdout.String()
}

// strip takes out of v what may differ.
func (n *numbers) strip(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			n.strip(e)
		}
	case map[string]any:
		if p, ok := v["plan"]; ok {
			n.plans = append(n.plans, p.(map[string]any))
		}
		for key, e := range v {
			switch {
			case key == "plan", strings.HasPrefix(key, "peak_"), strings.HasPrefix(key, "driver_mallocs"), strings.HasSuffix(key, "_per_second"), strings.HasSuffix(key, "_seconds"):
				delete(v, key)
			default:
				n.strip(e)
			}
		}
	}
}
