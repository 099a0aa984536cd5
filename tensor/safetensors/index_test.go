package safetensors

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzIndex reads anything as an index. What is refused is a *FormatError, and what is taken names files of one folder.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":4},"weight_map":{"a":"model-00001-of-00001.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"../x"}}`))
	f.Add([]byte(`{"metadata":5,"weight_map":{"a":"..","b":null}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		files, err := parseIndex("x", text)
		if err != nil {
			var unsound *FormatError
			require.ErrorAs(t, err, &unsound)
			return
		}
		for _, name := range files {
			require.Equal(t, "folder", filepath.Dir(filepath.Join("folder", name)), "%q", name)
			require.True(t, filepath.IsLocal(name), "%q", name)
		}
	})
}
