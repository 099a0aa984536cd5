package idx

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"runtime"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// encode is the inverse of the reader: header and data of an IDX file.
func encode(magic uint32, dims []int, data []byte) []byte {
	out := binary.BigEndian.AppendUint32(nil, magic)
	for _, d := range dims {
		out = binary.BigEndian.AppendUint32(out, uint32(d))
	}
	return append(out, data...)
}

func zip(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

// Three images of two rows and four columns, and their labels.
var (
	pixels = []byte{0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17, 255, 254, 253, 252, 251, 250, 249, 248}
	images = encode(magicImages, []int{3, 2, 4}, pixels)
	labels = encode(magicLabels, []int{3}, []byte{7, 0, 9})
)

func TestReadImages_GivesShapeAndPixels(t *testing.T) {
	got, err := ReadImages(bytes.NewReader(images), "images")
	require.NoError(t, err)
	require.Equal(t, &Images{Count: 3, Rows: 2, Cols: 4, Pixels: pixels}, got)
}

func TestReadLabels_GivesLabels(t *testing.T) {
	got, err := ReadLabels(bytes.NewReader(labels), "labels")
	require.NoError(t, err)
	require.Equal(t, []uint8{7, 0, 9}, got)
}

func TestRead_RecognisesGzipByContent(t *testing.T) {
	got, err := ReadImages(bytes.NewReader(zip(t, images)), "images-without-gz-suffix")
	require.NoError(t, err)
	require.Equal(t, pixels, got.Pixels)

	plain, err := ReadLabels(bytes.NewReader(labels), "not-compressed.gz")
	require.NoError(t, err)
	require.Equal(t, []uint8{7, 0, 9}, plain)
}

func TestRead_DoesNotNeedWholeReads(t *testing.T) {
	for _, data := range [][]byte{images, zip(t, images)} {
		got, err := ReadImages(iotest.OneByteReader(bytes.NewReader(data)), "images")
		require.NoError(t, err)
		require.Equal(t, pixels, got.Pixels)
	}
}

func TestRead_GrowsPastTheFirstRead(t *testing.T) {
	data := make([]byte, 3*firstRead+5)
	for i := range data {
		data[i] = byte(i % 251)
	}
	got, err := ReadImages(bytes.NewReader(encode(magicImages, []int{1, 1, len(data)}, data)), "images")
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got.Pixels))
	require.Equal(t, len(data), cap(got.Pixels), "no spare capacity is kept")
}

// The claim of the package comment: a header alone costs no memory, whatever it says.
func TestRead_MemoryFollowsTheDataNotTheHeader(t *testing.T) {
	lie := encode(magicImages, []int{1 << 10, 1 << 10, 1 << 10}, []byte{1, 2, 3})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := ReadImages(bytes.NewReader(lie), "lie")
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, ErrTruncated)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
}

func TestRead_ReportsReadErrors(t *testing.T) {
	broken := errors.New("disk on fire")
	for n := range len(images) {
		r := io.MultiReader(bytes.NewReader(images[:n]), iotest.ErrReader(broken))
		_, err := ReadImages(r, "images")
		require.ErrorIs(t, err, broken, "after %d bytes", n)
		requireNames(t, err, "images")
	}
}

func TestReadPair_ReadsFilesThatBelongTogether(t *testing.T) {
	fsys := fstest.MapFS{"i": {Data: images}, "l.gz": {Data: zip(t, labels)}}
	pictures, classes, err := ReadPair(fsys, "dir/", "i", "l.gz")
	require.NoError(t, err)
	require.Equal(t, 3, pictures.Count)
	require.Equal(t, []uint8{7, 0, 9}, classes)
}

func TestReadPair_NamesBothFilesWhenCountsDiffer(t *testing.T) {
	fsys := fstest.MapFS{"i": {Data: images}, "l": {Data: encode(magicLabels, []int{2}, []byte{1, 2})}}
	_, _, err := ReadPair(fsys, "dir/", "i", "l")
	require.ErrorIs(t, err, ErrMismatch)
	require.EqualError(t, err, "dir/l: images and labels do not belong together: 2 labels, but dir/i has 3 images")
}

func TestReadPair_NamesTheMissingFile(t *testing.T) {
	whole := fstest.MapFS{"i": {Data: images}, "l": {Data: labels}}
	for _, missing := range []string{"i", "l"} {
		fsys := fstest.MapFS{}
		for name, f := range whole {
			if name != missing {
				fsys[name] = f
			}
		}
		_, _, err := ReadPair(fsys, "dir/", "i", "l")
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.EqualError(t, err, "dir/"+missing+": file does not exist: open")
	}
}

// requireNames checks that err is an *Error about the file.
func requireNames(t *testing.T, err error, file string) {
	t.Helper()
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, file, e.File)
	require.NotEmpty(t, e.Detail)
}
