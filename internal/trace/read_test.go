package trace

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

const example = `# example
#two streams

m build
a 0 1605632 0
a 1 2048 7
s 0 7
m step 0
c 7
f 0
e
f 1
`

func zipped(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

var exampleTrace = &Trace{
	Name: "example", Allocs: 2,
	Header: []string{"example", "two streams"},
	Events: []Event{
		{Kind: Mark, Line: 4, Label: "build"},
		{Kind: Alloc, Line: 5, ID: 0, Bytes: 1605632},
		{Kind: Alloc, Line: 6, ID: 1, Bytes: 2048, Stream: 7},
		{Kind: Record, Line: 7, ID: 0, Stream: 7},
		{Kind: Mark, Line: 8, Label: "step 0"},
		{Kind: Complete, Line: 9, Stream: 7},
		{Kind: Free, Line: 10, ID: 0},
		{Kind: Empty, Line: 11},
		{Kind: Free, Line: 12, ID: 1},
	},
}

func TestRead_TakesPlainAndGzippedText(t *testing.T) {
	for name, r := range map[string]io.Reader{
		"plain":            strings.NewReader(example),
		"with CR":          strings.NewReader(strings.ReplaceAll(example, "\n", "\r\n")),
		"gzipped":          bytes.NewReader(zipped(t, example)),
		"byte by byte":     iotest.OneByteReader(bytes.NewReader(zipped(t, example))),
		"no final newline": strings.NewReader(strings.TrimSuffix(example, "\n")),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Read("example", r)
			require.NoError(t, err)
			require.Equal(t, exampleTrace, got)
		})
	}
}

func TestOpen_ReadsAFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.trace.gz")
	require.NoError(t, os.WriteFile(name, zipped(t, example), 0o600))
	got, err := Open(name)
	require.NoError(t, err)
	require.Equal(t, exampleTrace.Events, got.Events)
	require.Equal(t, name, got.Name)
}

func TestOpen_ReportsAMissingFile(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "nothing.trace"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "nothing.trace")
}

func TestRead_NamesTheBrokenLine(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"unknown event", "a 0 1 0\nx 0\n", `trace t: line 2: unknown event "x"`},
		{"capital letter", "A 0 1 0\n", `trace t: line 1: unknown event "A"`},
		{"not a trace", "{\"events\": 1}\n", `trace t: line 1: unknown event "{\"events\":"`},
		{"indented", " a 0 1 0\n", `trace t: line 1: unknown event ""`},
		{"allocation without stream", "# h\na 0 1\n", `trace t: line 2: event a takes 3 numbers, found 2 in "a 0 1"`},
		{"allocation with too much", "a 0 1 0 9\n", `trace t: line 1: event a takes 3 numbers, found 4 in "a 0 1 0 9"`},
		{"free without id", "f\n", `trace t: line 1: event f takes 1 numbers, found 0 in "f"`},
		{"record without stream", "a 0 1 0\ns 0\n", `trace t: line 2: event s takes 2 numbers, found 1 in "s 0"`},
		{"completion of nothing", "c\n", `trace t: line 1: event c takes 1 numbers, found 0 in "c"`},
		{"emptying with a number", "e 1\n", `trace t: line 1: event e takes 0 numbers, found 1 in "e 1"`},
		{"text for a number", "a 0 4KiB 0\n", `trace t: line 1: "4KiB" is not a number from 0 to 2^63-1`},
		{"negative size", "a 0 -1 0\n", `trace t: line 1: "-1" is not a number from 0 to 2^63-1`},
		{"fraction", "c 0.5\n", `trace t: line 1: "0.5" is not a number from 0 to 2^63-1`},
		{"too large a number", "a 0 9223372036854775808 0\n", `trace t: line 1: "9223372036854775808" is not a number from 0 to 2^63-1`},
		{"id skipped", "a 0 1 0\na 2 1 0\n", "trace t: line 2: allocation has id 2, expected 1"},
		{"id repeated", "a 0 1 0\na 0 1 0\n", "trace t: line 2: allocation has id 0, expected 1"},
		{"free of nothing", "a 0 1 0\nf 1\n", "trace t: line 2: id 1 was never allocated"},
		{"record of nothing", "s 0 1\n", "trace t: line 1: id 0 was never allocated"},
		{"double free", "a 0 1 0\nf 0\n\nf 0\n", "trace t: line 4: id 0 was freed before"},
		{"record after free", "a 0 1 0\nf 0\ns 0 1\n", "trace t: line 3: id 0 was freed before"},
		{"endless line", "a 0 1 0\n#" + strings.Repeat("x", 70_000), "trace t: line 2: longer than 65536 bytes"},
		{"long rubbish", strings.Repeat("x", 5000), `trace t: line 1: unknown event "` + strings.Repeat("x", 40) + `"`},
		{"empty", "", "trace t: there are no events in it"},
		{"only a header", "# gpt\n\n", "trace t: there are no events in it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read("t", strings.NewReader(c.text))
			require.EqualError(t, err, c.want)
			var broken *Error
			require.ErrorAs(t, err, &broken)
			require.Equal(t, "t", broken.Name)
		})
	}
}

func TestRead_NamesTheLineWhereCompressedDataEnds(t *testing.T) {
	whole := zipped(t, example)
	_, err := Read("t", bytes.NewReader(whole[:len(whole)-9]))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorContains(t, err, "in the middle of its compressed data")
	var broken *Error
	require.ErrorAs(t, err, &broken)
	require.Positive(t, broken.Line)

	_, err = Read("t", bytes.NewReader([]byte{0x1f, 0x8b, 1, 2, 3, 4, 5, 6, 7, 8, 9}))
	require.ErrorIs(t, err, gzip.ErrHeader)

	whole[len(whole)-5] ^= 1
	_, err = Read("t", bytes.NewReader(whole))
	require.ErrorIs(t, err, gzip.ErrChecksum)
}

func TestRead_PassesOnWhatTheReaderFailsWith(t *testing.T) {
	broken := errors.New("disk on fire")
	_, err := Read("t", io.MultiReader(strings.NewReader("a 0 1 0\nf 0\n"), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
	require.EqualError(t, err, "trace t: line 3: disk on fire")
}

func TestWrite_WritesWhatReadReads(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, exampleTrace.Write(&b))
	require.Equal(t, "# example\n# two streams\nm build\na 0 1605632 0\na 1 2048 7\ns 0 7\nm step 0\nc 7\nf 0\ne\nf 1\n", b.String())
}

func TestWrite_ReportsTheWritersError(t *testing.T) {
	r, w := io.Pipe()
	require.NoError(t, r.Close())
	require.ErrorIs(t, exampleTrace.Write(w), io.ErrClosedPipe)
}
