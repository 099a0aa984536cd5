package nn_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
	"github.com/cistern-ml/cistern/tensor/safetensors"
)

// shards writes a model in files of a few bytes, and opens them.
func shards(t *testing.T, m nn.Module, opts ...safetensors.OpenOption) (*safetensors.File, string) {
	t.Helper()
	var entries []safetensors.Entry
	for _, n := range nn.NamedState(m) {
		entries = append(entries, safetensors.Entry{Name: n.Name, Tensor: n.Parameter.Tensor()})
	}
	dir := t.TempDir()
	require.NoError(t, safetensors.WriteShards(context.Background(), dir, 20, entries, nil))
	f, err := safetensors.Open(dir, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f, dir
}

func TestLoadFile_OfShards_SetsAndGivesValues(t *testing.T) {
	r := onHost(t)
	trained := tied()
	r.place(trained, nn.Seed(3))
	f, _ := shards(t, trained)
	for _, opts := range [][]nn.Option{{nn.Seed(1)}, {nn.Unset()}, {nn.Unset(), nn.DType(tensor.BFloat16)}, {nn.DType(tensor.Float64)}} {
		m := tied()
		r.place(m, opts...)
		require.NoError(t, nn.LoadFile(f, m))
		for i, p := range m.Parameters() {
			as, err := trained.Parameters()[i].Tensor().To(p.Tensor().DType())
			require.NoError(t, err)
			require.Equal(t, as.String(), p.Tensor().String())
			as.Release()
		}
		m.Release()
	}
	other := nn.Sequential(nn.Linear(4, 4))
	r.place(other)
	var mismatch *nn.MismatchError
	require.ErrorAs(t, nn.LoadFile(f, other), &mismatch)
	require.Equal(t, "LoadFile", mismatch.Call)
	var left nn.Unmatched
	require.NoError(t, nn.LoadFile(f, other, nn.Partial(&left)))
	require.Len(t, left.Unexpected, len(f.Tensors())-2)
	var wrong *nn.ArgumentError
	require.ErrorAs(t, nn.LoadFile(nil, other), &wrong)
	require.ErrorAs(t, nn.LoadFile(f, tied()), &wrong, "To was not called")
}

func TestLoadFile_OfADamagedShard_ChangesNothing(t *testing.T) {
	r := onHost(t)
	m := nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
	r.place(m)
	before := contents(t, m)
	f, dir := shards(t, m)
	require.NoError(t, f.Close())
	last := filepath.Join(dir, filepath.Base(f.Tensors()[3].File))
	content, err := os.ReadFile(last)
	require.NoError(t, err)
	content[len(content)-1] ^= 1
	require.NoError(t, os.WriteFile(last, content, 0o600))
	var unsound *safetensors.FormatError
	for _, opts := range [][]safetensors.OpenOption{nil, {safetensors.Unverified()}} {
		f, err := safetensors.Open(dir, opts...)
		require.NoError(t, err)
		defer f.Close()
		err = nn.LoadFile(f, m)
		if opts == nil {
			require.ErrorAs(t, err, &unsound)
			require.Equal(t, before, contents(t, m))
			continue
		}
		require.NoError(t, err, "nobody looked")
		require.NotEqual(t, before, contents(t, m))
	}
	require.ErrorIs(t, nn.LoadFile(f, m), safetensors.ErrClosed)
}

func TestLoad_Transposed_TurnsMatrices(t *testing.T) {
	r := onHost(t)
	header := `{"w":{"dtype":"F64","shape":[2,3],"data_offsets":[0,48]},"b":{"dtype":"F64","shape":[3],"data_offsets":[48,72]}}`
	values := make([]byte, 72)
	for i := range 9 { // 1, 2, ... as float64, whose upper bytes these are
		copy(values[8*i+6:], [][]byte{{0xf0, 0x3f}, {0, 0x40}, {8, 0x40}, {0x10, 0x40}, {0x14, 0x40}, {0x18, 0x40}, {0x1c, 0x40}, {0x20, 0x40}, {0x22, 0x40}}[i])
	}
	file := headed(header, values...)
	names := nn.Rename(func(name string) string { return map[string]string{"w": "weight", "b": "bias"}[name] })
	turned := nn.Transposed(func(name string) bool { return name == "w" })
	loads := map[string]func(m nn.Module, opts ...nn.LoadOption) error{
		"file": func(m nn.Module, opts ...nn.LoadOption) error {
			f, err := safetensors.NewFile(bytes.NewReader(file), int64(len(file)))
			require.NoError(t, err)
			return nn.LoadFile(f, m, opts...)
		},
	}
	for name, reader := range readers {
		loads[name] = func(m nn.Module, opts ...nn.LoadOption) error { return nn.Load(reader(file), m, opts...) }
	}
	for name, load := range loads {
		for _, opts := range [][]nn.Option{nil, {nn.Unset()}, {nn.Unset(), nn.DType(tensor.Float64)}} {
			l := nn.Linear(2, 3)
			r.place(l, opts...)
			require.NoError(t, load(l, names, turned), name)
			w, err := l.Weight.Tensor().Float64s()
			require.NoError(t, err)
			require.Equal(t, []float64{1, 4, 2, 5, 3, 6}, w, name)
			var mismatch *nn.MismatchError
			require.ErrorAs(t, load(l, names), &mismatch)
			require.Equal(t, []string{"weight (file [2, 3], model [3, 2])"}, mismatch.Shapes)
			require.ErrorAs(t, load(l, names, nn.Transposed(func(string) bool { return true })), &mismatch)
			require.ErrorContains(t, mismatch, `"b" of the file has shape [3]`)
			l.Release()
		}
	}
}

func TestLoad_Only_LeavesTheRestAlone(t *testing.T) {
	r := onHost(t)
	from, to := nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)), nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
	r.place(from, nn.Seed(1))
	r.place(to, nn.Seed(2))
	file := contents(t, from)
	only := func(prefix string) nn.LoadOption {
		return nn.Only(func(name string) bool { return strings.HasPrefix(name, prefix) })
	}
	last := to.Parameters()[2].Tensor().String()
	for _, reader := range readers {
		require.NoError(t, nn.Load(reader(file), to, only("0.")), "the other has another shape, and that does not matter")
		require.Equal(t, from.Parameters()[0].Tensor().String(), to.Parameters()[0].Tensor().String())
		require.Equal(t, last, to.Parameters()[2].Tensor().String())
		var mismatch *nn.MismatchError
		require.ErrorAs(t, nn.Load(reader(file), to, only("1.")), &mismatch)
		require.ErrorAs(t, nn.Load(reader(file), to, only("2.")), &mismatch)
		require.ErrorContains(t, mismatch, "nothing of the model")
	}
	alone := nn.Sequential(nn.Linear(2, 3))
	r.place(alone)
	var mismatch *nn.MismatchError
	require.ErrorAs(t, nn.Load(bytes.NewReader(contents(t, alone)), to, only("")), &mismatch)
	require.Equal(t, []string{"1.weight", "1.bias"}, mismatch.Missing, "without Partial what is left must be there")
}

func TestLoad_OfTypesThatThereAreNot_FailsOnlyWhereTheyAreWanted(t *testing.T) {
	r := onHost(t)
	l := nn.Linear(1, 1, nn.NoBias())
	r.place(l)
	before := contents(t, l)
	file := headed(`{"weight":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},"scale":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[4,6]}}`, 0, 0, 128, 63, 1, 2)
	wanted := nn.Rename(func(name string) string { return map[string]string{"scale": "weight"}[name] })
	square := headed(`{"scale":{"dtype":"F8_E4M3","shape":[1,1],"data_offsets":[0,1]}}`, 1)
	for name, reader := range readers {
		var unsound *nn.FormatError
		require.ErrorAs(t, nn.Load(reader(square), l, wanted), &unsound, name)
		require.Equal(t, "scale", unsound.Tensor)
		require.Equal(t, before, contents(t, l))
		_, err := nn.ReadTensors(r.exec, reader(square))
		require.ErrorAs(t, err, &unsound)
		some, err := nn.ReadTensors(r.exec, reader(file), "weight")
		require.NoError(t, err)
		nn.ReleaseTensors(some)
	}
	for _, reader := range readers {
		var left nn.Unmatched
		require.NoError(t, nn.Load(reader(file), l, nn.Partial(&left)))
		require.Equal(t, []string{"scale"}, left.Unexpected)
		require.NoError(t, nn.Load(bytes.NewReader(before), l))
	}
}

// A reader whose last bytes cannot be read, of a file without a checksum.
func TestLoadFile_ThatFailsOnTheWay_SaysWhatIsLoaded(t *testing.T) {
	r := onHost(t)
	m := nn.Linear(2, 3000)
	r.place(m, nn.Seed(1))
	file := unsummed(contents(t, m))
	f, err := safetensors.NewFile(&badEnd{bytes.NewReader(file), int64(len(file)) - 4}, int64(len(file)))
	require.NoError(t, err)
	err = nn.LoadFile(f, m)
	var partial *nn.PartialError
	require.ErrorAs(t, err, &partial)
	require.ErrorIs(t, err, errDisk)
	require.Equal(t, "LoadFile", partial.Call)
	require.Equal(t, []string{"weight", "bias"}, partial.Loaded)
	held := r.allocated()
	unset := nn.Linear(2, 3000)
	r.place(unset, nn.Unset())
	err = nn.LoadFile(f, unset)
	require.ErrorIs(t, err, errDisk)
	require.False(t, errors.As(err, &partial), "nothing is loaded")
	require.Equal(t, held, r.allocated())
}

type badEnd struct {
	*bytes.Reader
	good int64
}

func (b *badEnd) ReadAt(to []byte, at int64) (int, error) {
	if at+int64(len(to)) > b.good {
		return 0, errDisk
	}
	return b.Reader.ReadAt(to, at)
}
