package memory

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/sim"
)

func TestErrors_RepeatTheBeginningOfALongText(t *testing.T) {
	dev := sim.New(gib)
	_, err := For(dev)
	require.NoError(t, err)
	defer Drop(dev)
	long := strings.Repeat("x", 1<<20)
	_, parseErr := ParseConfig(long)
	for _, err := range []error{
		DumpSnapshot(dev, long), DumpSnapshot(dev, filepath.Join(long, "x.json")), Snapshot{}.Write(io.Discard, SnapshotFormat(long)), parseErr,
	} {
		require.Error(t, err)
		require.Less(t, len(err.Error()), 2000)
	}
}

func TestDumpSnapshot_WithoutASnapshotLeavesTheFileThatIsThere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "old.json")
	require.NoError(t, os.WriteFile(file, []byte("old"), 0o600))
	var bad *ArgumentError
	require.ErrorAs(t, DumpSnapshot(nil, file), &bad)
	require.ErrorAs(t, DumpSnapshot(sim.New(gib), file), &bad)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "old", string(text))
}
