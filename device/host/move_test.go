package host

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStream_CopyMovesAllLengths(t *testing.T) {
	const size = cachedCopy + 2*copyPiece
	d := New()
	defer func() { require.NoError(t, d.Close()) }()
	p, err := d.Malloc(2 * size)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Free(p)) }()
	memory, s := Bytes(p, 2*size), d.DefaultStream()
	for i := range memory {
		memory[i] = byte(i % 251)
	}
	for _, n := range []uint64{1, copyPiece, copyPiece + 1, 2*copyPiece + 5, cachedCopy, cachedCopy + 9} {
		after := memory[size+n]
		require.NoError(t, s.Copy(p+size, p, n))
		require.True(t, bytes.Equal(memory[:n], memory[size:size+n]), n)
		require.Equal(t, after, memory[size+n], n)
	}
}
