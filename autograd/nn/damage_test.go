package nn_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// contents is what Save writes of a model.
func contents(t testing.TB, m nn.Layer) []byte {
	t.Helper()
	var file bytes.Buffer
	require.NoError(t, nn.Save(&file, m))
	return file.Bytes()
}

// readers are the ways in which Load reads: what can be read twice, and what cannot.
var readers = map[string]func(b []byte) io.Reader{
	"seeker": func(b []byte) io.Reader { return bytes.NewReader(b) },
	"stream": func(b []byte) io.Reader { return bytes.NewBuffer(slices.Clone(b)) },
}

func TestLoad_OfADamagedFile_IsAnErrorAndChangesNothing(t *testing.T) {
	r := onHost(t)
	a, b := nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)), nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
	r.place(a, nn.Seed(1))
	r.place(b, nn.Seed(2))
	whole, before := contents(t, a), contents(t, b)
	for name, reader := range readers {
		t.Run(name, func(t *testing.T) {
			held := r.alloc.Stats().AllocatedBytes.All.Current
			for i := range whole {
				var unsound *nn.FormatError
				require.ErrorAs(t, nn.Load(reader(whole[:i]), b), &unsound, "cut after %d bytes", i)
				for _, flip := range []byte{1, 0x20, 0x80} {
					damaged := slices.Clone(whole)
					damaged[i] ^= flip
					err := nn.Load(reader(damaged), b)
					var mismatch *nn.MismatchError
					require.True(t, errors.As(err, &unsound) || errors.As(err, &mismatch), "byte %d: %v", i, err)
				}
			}
			require.Equal(t, before, contents(t, b))
			require.Equal(t, held, r.alloc.Stats().AllocatedBytes.All.Current)
		})
	}
	for name, reader := range readers {
		require.NoError(t, nn.Load(reader(whole), b), name)
		require.Equal(t, whole, contents(t, b))
		require.NoError(t, nn.Load(reader(before), b))
	}
}

func TestLoad_OfMoreThanAFile_ChangesNothing(t *testing.T) {
	r := onHost(t)
	a, b := nn.Linear(2, 3), nn.Linear(2, 3)
	r.place(a, nn.Seed(1))
	r.place(b, nn.Seed(2))
	before := contents(t, b)
	for name, reader := range readers {
		var unsound *nn.FormatError
		require.ErrorAs(t, nn.Load(reader(append(contents(t, a), 0)), b), &unsound, name)
		require.Equal(t, before, contents(t, b), name)
	}
}

func TestLoad_NamesTheFileTheTensorAndBothLengths(t *testing.T) {
	r := onHost(t)
	l := nn.Linear(2, 3)
	r.place(l)
	whole := contents(t, l)
	path := filepath.Join(t.TempDir(), "model.safetensors")
	require.NoError(t, os.WriteFile(path, whole[:len(whole)-5], 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var unsound *nn.FormatError
	require.ErrorAs(t, nn.Load(f, l), &unsound)
	require.Equal(t, nn.FormatError{File: path, Tensor: "bias", Detail: "the file ends within it", Wanted: "3 elements", Found: "1"}, *unsound)
	_, err = f.Seek(0, io.SeekStart)
	require.NoError(t, err)
	other := nn.Linear(2, 4)
	r.place(other)
	var mismatch *nn.MismatchError
	require.ErrorAs(t, nn.Load(f, other), &mismatch)
	require.Equal(t, path, mismatch.File)
	require.ErrorContains(t, mismatch, "weight (file [3, 2], model [4, 2])")
}

// twice is a file whose second reading goes wrong after some bytes.
type twice struct {
	*bytes.Reader
	seeks, left int
	spoil       func([]byte)
}

func (w *twice) Seek(at int64, from int) (int64, error) {
	w.seeks++
	return w.Reader.Seek(at, from)
}

var errDisk = errors.New("the disk fails")

func (w *twice) Read(b []byte) (int, error) {
	if w.seeks < 2 {
		return w.Reader.Read(b)
	}
	if w.spoil == nil && w.left <= 0 {
		return 0, errDisk
	}
	n, err := w.Reader.Read(b[:min(len(b), max(w.left, 1))])
	w.left -= n
	if w.spoil != nil {
		w.spoil(b[:n])
	}
	return n, err
}

func TestLoad_WhereTheSecondReadingFails_SaysWhatIsLoaded(t *testing.T) {
	r := onHost(t)
	l := nn.Linear(2, 300) // larger than the reader's buffer
	r.place(l)
	whole := contents(t, l)
	before := contents(t, l)
	err := nn.Load(&twice{Reader: bytes.NewReader(whole), left: 20}, l)
	require.ErrorIs(t, err, errDisk)
	var partial *nn.PartialError
	require.False(t, errors.As(err, &partial), "nothing was changed yet: %v", err)
	require.Equal(t, before, contents(t, l))

	err = nn.Load(&twice{Reader: bytes.NewReader(whole), left: len(whole) - 10}, l)
	require.ErrorIs(t, err, errDisk)
	require.ErrorAs(t, err, &partial)
	require.Equal(t, []string{"weight"}, partial.Loaded)

	spoiled := func(b []byte) {
		if len(b) > 0 {
			b[len(b)-1] ^= 1
		}
	}
	require.Error(t, nn.Load(&twice{Reader: bytes.NewReader(whole), left: len(whole), spoil: spoiled}, l), "it changes between the readings")
}

func TestLoad_OfAReaderThatFails_ReportsIt(t *testing.T) {
	r := onHost(t)
	l := nn.Linear(2, 3)
	r.place(l)
	whole := contents(t, l)
	for _, n := range []int{0, 4, 50, len(whole) - 3, len(whole)} {
		err := nn.Load(io.MultiReader(bytes.NewReader(whole[:n]), iotest.ErrReader(errDisk)), l)
		require.ErrorIs(t, err, errDisk, n)
		require.Equal(t, whole, contents(t, l))
	}
}

// A model whose last parameter cannot be written to: the others come back.
func TestLoad_WhereAParameterCannotBeSet_PutsTheOthersBack(t *testing.T) {
	r := onHost(t)
	one, err := tensor.Ones(r.exec, tensor.Float32, 1)
	require.NoError(t, err)
	defer one.Release()
	spread, err := one.Expand(3) // all elements share an address
	require.NoError(t, err)
	l := nn.Linear(2, 3)
	r.place(l)
	m := &sharing{}
	m.Register("linear", l)
	m.RegisterParameter(autograd.NewParameter("z", spread))
	defer m.Release()
	before := contents(t, m)
	file := contents(t, m)
	header := 8 + int(binary.LittleEndian.Uint64(file))
	clear(file[header:])
	file = bytes.Replace(file, []byte("cistern."), []byte("another."), 2) // another's file has no checksum
	require.Error(t, nn.Load(bytes.NewBuffer(file), m))
	require.Equal(t, before, contents(t, m))
}

func TestSave_RefusesNamesThatNoFileCanHave(t *testing.T) {
	r := onHost(t)
	for _, name := range []string{"__metadata__", "\xff"} {
		var b nn.Base
		b.RegisterParameter(autograd.DeclareParameter(name, nn.Zeros, 1))
		n := &sharing{Base: b}
		r.place(n)
		var bad *nn.ArgumentError
		require.ErrorAs(t, nn.Save(new(bytes.Buffer), n), &bad, name)
		require.Equal(t, "Save", bad.What)
	}
}
