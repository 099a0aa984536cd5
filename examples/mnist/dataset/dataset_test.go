package dataset

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/examples/mnist/internal/idx"
)

func ExampleLoad() {
	train, test, err := Load("")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(train.Len(), "images to train on,", test.Len(), "to test on, each", train.Rows, "by", train.Cols)
	fmt.Println("the first one is a", train.Labels[0])
	// Output:
	// 8000 images to train on, 2000 to test on, each 28 by 28
	// the first one is a 7
}

func TestLoad_SplitsTheEmbeddedImages(t *testing.T) {
	train, test, err := Load("")
	require.NoError(t, err)
	for _, c := range []struct {
		set  Set
		want int
	}{{train, 8000}, {test, 2000}} {
		require.Equal(t, c.want, c.set.Len())
		require.Len(t, c.set.Images, c.want*28*28)
		require.Equal(t, []int{28, 28}, []int{c.set.Rows, c.set.Cols})
	}
	inTrain, inTest := count(train), count(test)
	for digit := range Classes {
		share := float64(inTest[digit]) / float64(inTrain[digit]+inTest[digit])
		require.InDelta(t, 0.2, share, 0.04, "share of the images of a %d that went to test", digit)
	}
	// The counts of the whole test set, as published with it.
	for digit, want := range [Classes]int{980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009} {
		require.Equal(t, want, inTrain[digit]+inTest[digit], "images of a %d", digit)
	}
}

func count(s Set) (counts [Classes]int) {
	for _, l := range s.Labels {
		counts[l]++
	}
	return counts
}

// numbered returns a set in which image i consists of the byte i.
func numbered(n, rows, cols int) Set {
	s := Set{Rows: rows, Cols: cols}
	for i := range n {
		s.Images = append(s.Images, bytes.Repeat([]byte{byte(i)}, rows*cols)...)
		s.Labels = append(s.Labels, byte(i%Classes))
	}
	return s
}

func TestSplit_GivesEveryImageToOnePartWithItsLabel(t *testing.T) {
	train, test := Split(numbered(11, 2, 3), 4)
	for _, c := range []struct {
		set  Set
		want []int
	}{{train, []int{0, 1, 2, 4, 5, 6, 8, 9, 10}}, {test, []int{3, 7}}} {
		require.Equal(t, len(c.want), c.set.Len())
		for i, original := range c.want {
			require.Equal(t, bytes.Repeat([]byte{byte(original)}, 6), c.set.Image(i))
			require.Equal(t, byte(original%Classes), c.set.Labels[i])
		}
	}
}

func TestSplit_CopiesTheImages(t *testing.T) {
	all := numbered(4, 1, 1)
	train, test := Split(all, 2)
	clear(all.Images)
	require.Equal(t, []byte{0, 2}, train.Images)
	require.Equal(t, []byte{1, 3}, test.Images)
}

// writeSet puts the two files of a set into a folder under the given names.
func writeSet(t *testing.T, dir string, s Set, images, labels string) {
	t.Helper()
	header := func(numbers ...int) (h []byte) {
		for _, n := range numbers {
			h = binary.BigEndian.AppendUint32(h, uint32(n))
		}
		return h
	}
	write(t, filepath.Join(dir, images), append(header(0x803, s.Len(), s.Rows, s.Cols), s.Images...))
	write(t, filepath.Join(dir, labels), append(header(0x801, s.Len()), s.Labels...))
}

// write compresses the file if its name says so.
func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if filepath.Ext(path) == ".gz" {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := w.Write(content)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		content = b.Bytes()
	}
	require.NoError(t, os.WriteFile(path, content, 0o600))
}

func TestLoad_TakesTheFileNamesOfAllMirrors(t *testing.T) {
	for _, form := range []string{"%s-%s-%s", "%s-%s-%s.gz", "%s-%s.%s", "%s-%s.%s.gz"} {
		dir := t.TempDir()
		for set, content := range map[string]Set{"train": numbered(6, 2, 2), "t10k": numbered(3, 2, 2)} {
			writeSet(t, dir, content, fmt.Sprintf(form, set, "images", "idx3-ubyte"), fmt.Sprintf(form, set, "labels", "idx1-ubyte"))
		}
		train, test, err := Load(dir)
		require.NoError(t, err, form)
		require.Equal(t, numbered(6, 2, 2), train)
		require.Equal(t, numbered(3, 2, 2), test)
	}
}

// standard are MNIST's own file names.
var standard = []string{
	"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte",
}

func fullFolder(t *testing.T, train, test Set) string {
	dir := t.TempDir()
	writeSet(t, dir, train, standard[0], standard[1])
	writeSet(t, dir, test, standard[2], standard[3])
	return dir
}

func TestLoad_NamesTheMissingFileAndWhereItLooked(t *testing.T) {
	for _, missing := range standard {
		dir := fullFolder(t, numbered(2, 1, 1), numbered(2, 1, 1))
		require.NoError(t, os.Remove(filepath.Join(dir, missing)))
		train, test, err := Load(dir)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorContains(t, err, filepath.Join(dir, missing)+": file does not exist: nor "+missing+".gz, ")
		require.Zero(t, train)
		require.Zero(t, test)
	}
}

func TestLoad_OfAFolderThatDoesNotExistSaysSo(t *testing.T) {
	_, _, err := Load(filepath.Join(t.TempDir(), "nowhere") + string(filepath.Separator))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, filepath.Join("nowhere", standard[0]))
}

func TestLoad_DoesNotCallAFileMissingThatItMayNotRead(t *testing.T) {
	_, _, err := loadFolder(forbidden{}, "dir/")
	require.ErrorIs(t, err, fs.ErrPermission)
	require.NotErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "dir/"+standard[0])
}

// forbidden is a file system in which nothing may be opened.
type forbidden struct{}

func (forbidden) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

func TestLoad_NamesTheFileThatIsCutShort(t *testing.T) {
	for _, name := range standard {
		dir := fullFolder(t, numbered(2, 1, 1), numbered(2, 1, 1))
		path := filepath.Join(dir, name)
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, content[:len(content)-1], 0o600))
		_, _, err = Load(dir)
		require.ErrorIs(t, err, idx.ErrTruncated)
		require.ErrorContains(t, err, path)
		require.ErrorContains(t, err, "1 of 2 bytes")
	}
}

func TestLoad_RefusesSetsOfDifferentImageSizes(t *testing.T) {
	_, _, err := Load(fullFolder(t, numbered(2, 2, 3), numbered(2, 3, 2)))
	require.ErrorIs(t, err, idx.ErrMismatch)
	require.ErrorContains(t, err, "its images have 3x2 pixels, those of train-images 2x3")
}

func TestLoad_RefusesLabelsOfAnotherSet(t *testing.T) {
	dir := fullFolder(t, numbered(2, 1, 1), numbered(3, 1, 1))
	require.NoError(t, os.Rename(filepath.Join(dir, standard[3]), filepath.Join(dir, standard[1])))
	_, _, err := Load(dir)
	require.ErrorIs(t, err, idx.ErrMismatch)
	require.ErrorContains(t, err, "3 labels")
	require.ErrorContains(t, err, "2 images")
}
