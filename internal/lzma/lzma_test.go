package lzma

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// noise are bytes that look random: a linear congruential generator, as testdata/make.py has it.
func noise(n int) []byte {
	x, out := 1, make([]byte, n)
	for i := range out {
		x = (x*1103515245 + 12345) & 0x7FFFFFFF
		out[i] = byte(x >> 16)
	}
	return out
}

func words() []byte {
	var b bytes.Buffer
	for i, v := range noise(1500) {
		fmt.Fprintf(&b, "add.f32 %%f%d, %%f%d, 0f%02X;\n", i, i*i%97, v)
	}
	return b.Bytes()
}

// texts are what is in the files of testdata.
func texts() map[string][]byte {
	return map[string][]byte{
		"empty": {},
		"one":   []byte("a"),
		"zeros": make([]byte, 100_000),
		"words": words(),
		"noise": append(bytes.Repeat(noise(3000), 2), bytes.Repeat(noise(300), 3)...),
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	packed, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(t, err)
	return packed
}

func TestUnpack_ReadsWhatXZHasWritten(t *testing.T) {
	files, err := filepath.Glob("testdata/*.lzma")
	require.NoError(t, err)
	all := texts()
	require.Len(t, files, 5*len(all))
	for _, file := range files {
		name, _, _ := strings.Cut(filepath.Base(file), "-")
		text, err := Unpack(read(t, filepath.Base(file)))
		require.NoError(t, err, file)
		require.True(t, bytes.Equal(all[name], text), file)
	}
}

func TestUnpack_RefusesWhatIsCutOffOrGoesOn(t *testing.T) {
	for _, file := range []string{"words-3-0-0.lzma", "noise-0-4-4.lzma", "empty-3-0-0.lzma"} {
		packed := read(t, file)
		for n := 0; n < len(packed); n += 1 + len(packed)/100 {
			_, err := Unpack(packed[:n])
			require.ErrorIs(t, err, ErrCorrupt, "%d bytes of %s", n, file)
		}
		_, err := Unpack(append(packed[:len(packed):len(packed)], 0))
		require.ErrorIs(t, err, errEnd)
	}
}

func TestUnpack_RefusesOtherHeaders(t *testing.T) {
	for at, value := range map[int]byte{0: 225, 5: 0, 12: 0, headerSize: 1} {
		packed := read(t, "one-3-0-0.lzma")
		packed[at] = value
		_, err := Unpack(packed)
		require.ErrorIs(t, err, ErrCorrupt, "byte %d", at)
	}
}

// There is no checksum, so other bits may be another text; but never a panic, and most are an error.
func TestUnpack_SurvivesEachWrongByte(t *testing.T) {
	packed := read(t, "words-1-2-1.lzma")
	text, tried, wrong := words(), 0, 0
	for i := headerSize; i < len(packed); i += 11 {
		packed[i] ^= 0x55
		got, err := Unpack(packed)
		require.False(t, err == nil && bytes.Equal(got, text), "byte %d says nothing", i)
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			wrong++
		}
		tried++
		packed[i] ^= 0x55
	}
	require.Greater(t, wrong, tried*9/10)
}

func TestUnpack_FindsMatchesBeforeTheBeginning(t *testing.T) {
	packed := read(t, "zeros-3-0-0.lzma")
	for _, first := range []byte{0x40, 0x80, 0xff} { // a match is the first
		packed[headerSize+1] = first
		_, err := Unpack(packed)
		require.ErrorIs(t, err, ErrCorrupt)
	}
	packed[headerSize+1] = 0xff
	_, err := Unpack(packed)
	require.ErrorIs(t, err, errFar)
}
