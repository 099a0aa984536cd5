package data

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// sums are the SHA-256 sums of the files as they are here and of the original files inside.
var sums = []struct{ name, compressed, original string }{
	{Images,
		"1a1a05eab793c14bb050b398624a11b0ffd1a2953baed553b1b9bd079e2a20be",
		"0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
	{Labels,
		"b91679a0acfe4ba0e50a2437a903084cba1f5f92592b016a25a7dfd00455798b",
		"ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"},
}

func TestFiles_AreTheOriginalsByteForByte(t *testing.T) {
	for _, s := range sums {
		compressed, err := Files.ReadFile(s.name)
		require.NoError(t, err)
		require.Equal(t, s.compressed, sum(compressed), s.name)

		r, err := gzip.NewReader(bytes.NewReader(compressed))
		require.NoError(t, err)
		original, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, s.original, sum(original), s.name)
	}
}

func TestReadme_StatesTheSums(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for _, s := range sums {
		require.Contains(t, string(readme), s.compressed+"  "+s.name)
		require.Contains(t, string(readme), s.original+"  "+s.name[:len(s.name)-len(".gz")])
	}
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}
