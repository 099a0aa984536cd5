package harness

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWriteJSON_ReplacesTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.json")
	for _, v := range []int{1, 2} {
		require.NoError(t, WriteJSON(file, map[string]int{"v": v}))
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "{\n  \"v\": 2\n}\n", string(text))
	require.NoError(t, WriteJSON("", 1))
	require.Error(t, WriteJSON(file, func() {}))
	require.Error(t, WriteJSON(filepath.Join(t.TempDir(), "no", "x"), 1))
}
