package ptx

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/internal/lzma"
)

func TestReadFile_ReadsPackedAndPlainPTX(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, text []byte) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, text, 0o600))
		return file
	}
	packed, err := os.ReadFile("../lzma/testdata/one-3-0-0.lzma")
	require.NoError(t, err)
	plain, one := put("b.ptx", []byte("text")), put("a"+Packed, packed)
	files, err := Files(dir)
	require.NoError(t, err)
	require.Equal(t, []string{one, plain}, files)
	require.Equal(t, "a", Module(one))
	require.Equal(t, "b", Module(plain))

	text, err := ReadFile(plain)
	require.NoError(t, err)
	require.Equal(t, "text", string(text))
	text, err = ReadFile(one)
	require.NoError(t, err)
	require.Equal(t, "a", string(text))
	_, err = ReadFile(put("broken"+Packed, []byte("text")))
	require.ErrorIs(t, err, lzma.ErrCorrupt)
	_, err = ReadFile(filepath.Join(dir, "none.ptx"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
