package plan

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/internal/fulltests"
)

// readInstance reads a published instance: lines of id, lower, upper and size.
func readInstance(t testing.TB, name string) (p Problem) {
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	for _, line := range lines[1:] {
		var v [4]int
		for i := range v {
			v[i], err = strconv.Atoi(line[i])
			require.NoError(t, err)
		}
		p.Buffers = append(p.Buffers, Buffer{From: v[1], To: v[2], Size: uint64(v[3])})
	}
	return p
}

// report places a problem, checks the placement and logs a line about it.
func report(t testing.TB, name string, p Problem, opts ...Option) Placement {
	begin := time.Now()
	got, err := Place(t.Context(), p, opts...)
	took := time.Since(begin)
	require.NoError(t, err)
	require.NoError(t, p.Check(got.Offsets))
	require.Equal(t, p.Bound(), got.Bound)
	require.GreaterOrEqual(t, got.Size, got.Bound)
	t.Logf("%-14s %7d buffers  %12d bytes  %.5f of the bound  %8d units  %9v  %s, %s",
		name, len(p.Buffers), got.Size, float64(got.Size)/float64(got.Bound), got.Effort, took.Round(10*time.Microsecond), got.Method, got.Stopped)
	return got
}

// instances are those of testdata/minimalloc, with an effort and the size that was reached with it, and the same for full tests.
var instances = []struct {
	name       string
	effort     int
	size       uint64
	fullEffort int
	fullSize   uint64
}{
	{"A", 4_000, 1048576, 0, 0},
	{"B", 25_000, 1048576, 0, 0},
	{"C", 3_000, 1039360, 0, 0},
	{"D", 10_000, 1100800, 300_000, 1036288}, // 986112 live at once
	{"E", 20_000, 1176576, 1_000_000, 1101824},
	{"F", 20_000, 1174528, 2_000_000, 1048576},
	{"G", 20_000, 1184768, 0, 0},
	{"H", 8_000, 1048576, 0, 0},
	{"I", 6_000, 1048576, 0, 0},
	{"J", 10_000, 1298432, 150_000, 1045504}, // 989184 live at once
	{"K", 9_000, 1048576, 0, 0},
}

func TestPlace_InstancesNeedNoMoreThanBefore(t *testing.T) {
	for _, c := range instances {
		effort, size := c.effort, c.size
		if c.fullEffort > 0 && fulltests.Enabled() {
			effort, size = c.fullEffort, c.fullSize
		}
		got := report(t, c.name, readInstance(t, "testdata/minimalloc/"+c.name+".1048576.csv"), Effort(effort))
		assert.LessOrEqual(t, got.Size, size, c.name)
	}
}

// TestPlace_MoreInstances is for whoever has more instances, as those of idealloc (github.com/cappadokes/idealloc, folder benchmarks):
// it reports what they need.
func TestPlace_MoreInstances(t *testing.T) {
	folder := os.Getenv("CISTERN_PLAN_INSTANCES")
	if folder == "" {
		t.Skip("SKIPPED: CISTERN_PLAN_INSTANCES names no folder of .csv files")
	}
	names, err := filepath.Glob(filepath.Join(folder, "*.csv"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		report(t, strings.TrimSuffix(filepath.Base(name), ".csv"), readInstance(t, name))
	}
}
