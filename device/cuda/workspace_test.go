package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// As the regular expression ":([0-9]+):([0-9]+)" finds them, which PyTorch uses.
func TestWorkspacePairs(t *testing.T) {
	for value, want := range map[string][][2]string{
		"": nil, ":": nil, "::": nil, ":4096": nil, ":4096:": nil, "4096:2": nil, ":a:b": nil,
		":4096:2":         {{"4096", "2"}},
		":4096:2:16:8":    {{"4096", "2"}, {"16", "8"}},
		"x:4096:2y:16:8z": {{"4096", "2"}, {"16", "8"}},
		":1::2:3":         {{"2", "3"}},
		":a:1:2":          {{"1", "2"}},
		":1:a:2:3":        {{"2", "3"}},
	} {
		require.Equal(t, want, workspacePairs(value), "%q", value)
	}
}
