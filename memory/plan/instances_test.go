package plan

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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

func TestPlace_Instances(t *testing.T) {
	names, err := filepath.Glob("testdata/minimalloc/*.csv")
	require.NoError(t, err)
	require.Len(t, names, 11)
	for _, name := range names {
		report(t, filepath.Base(name)[:1], readInstance(t, name), Effort(3_000_000))
	}
}
