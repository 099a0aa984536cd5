package safetensors_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
	"github.com/cistern-ml/cistern/tensor/safetensors"
)

var background = context.Background()

// rig is a device with an allocator of its own, which must be empty at the end.
func rig(t testing.TB) (tensor.Exec, *memory.Caching) {
	t.Helper()
	dev := host.New()
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.Zero(t, allocated(alloc))
		require.NoError(t, alloc.Close())
		require.NoError(t, dev.Close())
	})
	return e, alloc
}

func allocated(a *memory.Caching) int64 { return a.Stats().AllocatedBytes.All.Current }

func values(t testing.TB, v *tensor.Tensor, err error) []float64 {
	t.Helper()
	require.NoError(t, err)
	defer v.Release()
	data, err := v.Float64s()
	require.NoError(t, err)
	return data
}

func made[T tensor.Element](t testing.TB, e tensor.Exec, data []T, shape ...int) *tensor.Tensor {
	t.Helper()
	v, err := tensor.FromSlice(e, data, shape...)
	require.NoError(t, err)
	t.Cleanup(v.Release)
	return v
}

func opened(t testing.TB, path string, opts ...safetensors.OpenOption) *safetensors.File {
	t.Helper()
	f, err := safetensors.Open(path, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

// ours writes a file of two tensors and returns its bytes.
func ours(t testing.TB, e tensor.Exec) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, safetensors.Write(background, &b, []safetensors.Entry{
		{Name: "a", Tensor: made(t, e, []float32{1, 2, 3, 4, 5, 6}, 3, 2)}, {Name: "b", Tensor: made(t, e, []int64{7}, 1)},
	}, map[string]string{"step": "5"}))
	return b.Bytes()
}

func reader(t testing.TB, file []byte, opts ...safetensors.OpenOption) *safetensors.File {
	t.Helper()
	f, err := safetensors.NewFile(bytes.NewReader(file), int64(len(file)), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func TestOpen_OfAnotherProgramsShards_HasWhatPyTorchHas(t *testing.T) {
	e, _ := rig(t)
	var want map[string]struct {
		Shape  []int
		Values []float64
	}
	text, err := os.ReadFile("testdata/foreign.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &want))
	f := opened(t, "testdata/foreign")
	require.Equal(t, filepath.Join("testdata", "foreign", "model.safetensors.index.json"), f.Name())
	require.Equal(t, map[string]string{"format": "pt", "by": "model-00001-of-00002.safetensors"}, f.Metadata())
	require.Len(t, f.Tensors(), len(want)+2)
	for _, info := range f.Tensors() {
		v, err := f.Read(e, info.Name)
		if info.DType == 0 {
			var foreign *safetensors.TypeError
			require.ErrorAs(t, err, &foreign, info.Name)
			require.Equal(t, info.Type, foreign.Type)
			continue
		}
		w, ok := want[info.Name]
		require.True(t, ok, info.Name)
		require.Equal(t, tensor.Shape(w.Shape), info.Shape)
		require.Equal(t, int64(len(w.Values)*info.DType.Size()), info.Bytes)
		require.Equal(t, w.Shape, []int(append(tensor.Shape{}, v.Shape()...)))
		require.Equal(t, info.DType, v.DType())
		require.Equal(t, w.Values, append([]float64{}, values(t, v, err)...), info.Name)

		as, err := f.Read(e, info.Name, safetensors.As(tensor.Float64))
		require.Equal(t, tensor.Float64, as.DType())
		require.Equal(t, w.Values, append([]float64{}, values(t, as, err)...), "converted: %s", info.Name)
	}
	info, ok := f.Info("f8")
	require.True(t, ok)
	require.Equal(t, safetensors.Info{Name: "f8", Type: "F8_E4M3", Shape: tensor.Shape{2, 2}, Bytes: 4,
		File: filepath.Join("testdata", "foreign", "model-00001-of-00002.safetensors")}, info)
}

func TestRead_OfRows_ReadsThem(t *testing.T) {
	e, _ := rig(t)
	f := reader(t, ours(t, e))
	part, err := f.Read(e, "a", safetensors.Rows(1, 3), safetensors.As(tensor.Int32))
	require.Equal(t, tensor.Shape{2, 2}, part.Shape())
	require.Equal(t, []float64{3, 4, 5, 6}, values(t, part, err))
	none, err := f.Read(e, "a", safetensors.Rows(3, 3))
	require.Empty(t, values(t, none, err))
	for _, rows := range [][2]int{{-1, 2}, {2, 1}, {0, 4}} {
		var wrong *safetensors.ArgumentError
		_, err := f.Read(e, "a", safetensors.Rows(rows[0], rows[1]))
		require.ErrorAs(t, err, &wrong)
	}
}

func TestReadInto_SetsWhatThereIs(t *testing.T) {
	e, _ := rig(t)
	f := reader(t, ours(t, e))
	to := made(t, e, make([]float64, 6), 2, 3)
	turned, err := to.Transpose(0, 1)
	require.NoError(t, err)
	defer turned.Release()
	require.NoError(t, f.ReadInto(turned, "a"))
	data, err := to.Float64s()
	require.NoError(t, err)
	require.Equal(t, []float64{1, 3, 5, 2, 4, 6}, data)
	var shape *tensor.ShapeError
	require.ErrorAs(t, f.ReadInto(to, "a"), &shape)
	var wrong *safetensors.ArgumentError
	require.ErrorAs(t, f.ReadInto(turned, "a", safetensors.As(tensor.Bool)), &wrong)
	var released *tensor.ReleasedError
	require.ErrorAs(t, f.ReadInto(nil, "a"), &released)
}

func TestRead_OfManyPieces_IsTheWhole(t *testing.T) {
	e, _ := rig(t)
	const n = 5_000_001 // more than a piece
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(i % 1021)
	}
	path := filepath.Join(t.TempDir(), "x.safetensors")
	big := made(t, e, data, n)
	require.NoError(t, safetensors.WriteFile(background, path, []safetensors.Entry{{Name: "x", Tensor: big}}, nil))
	f := opened(t, path)
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Int32} {
		v, err := f.Read(e, "x", safetensors.As(dt))
		require.NoError(t, err)
		back, err := v.To(tensor.Float32)
		v.Release()
		require.NoError(t, err)
		got, err := tensor.ToSlice[float32](back)
		back.Release()
		require.NoError(t, err)
		require.Equal(t, data, got)
	}
}

func TestRead_OfAFileWithAChecksum_VerifiesItFirst(t *testing.T) {
	e, alloc := rig(t)
	file := ours(t, e)
	file[len(file)-1] ^= 1 // in b
	held := allocated(alloc)
	f := reader(t, file)
	require.Len(t, f.Tensors(), 2, "the header is sound")
	require.Equal(t, `safetensors.File("", 2 tensors)`, fmt.Sprint(f))
	var unsound *safetensors.FormatError
	for range 2 {
		_, err := f.Read(e, "a")
		require.ErrorAs(t, err, &unsound)
		require.Contains(t, unsound.Detail, "checksum")
	}
	require.ErrorAs(t, f.Verify(background), &unsound)
	require.Equal(t, held, allocated(alloc))

	quick := reader(t, file, safetensors.Unverified())
	a, err := quick.Read(e, "a")
	require.Equal(t, []float64{1, 2, 3, 4, 5, 6}, values(t, a, err))
	require.ErrorAs(t, quick.Verify(background), &unsound, "it was asked for")
}

func TestVerify_EndsWithItsContext(t *testing.T) {
	e, _ := rig(t)
	f := reader(t, ours(t, e))
	ctx, cancel := context.WithCancel(background)
	cancel()
	require.ErrorIs(t, f.Verify(ctx), context.Canceled)
	require.NoError(t, f.Verify(background), "it is not remembered")
}

func TestOpen_OfWhatIsNoFile_IsATypedError(t *testing.T) {
	e, _ := rig(t)
	dir := t.TempDir()
	file := ours(t, e)
	at := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	var unsound *safetensors.FormatError
	for i := range file {
		_, err := safetensors.Open(at("x", file[:i]))
		require.ErrorAs(t, err, &unsound, "cut after %d bytes", i)
		require.Equal(t, filepath.Join(dir, "x"), unsound.File)
	}
	_, err := safetensors.Open(at("x", append(file, 0)))
	require.ErrorAs(t, err, &unsound)
	var system *safetensors.FileError
	_, err = safetensors.Open(filepath.Join(dir, "none"))
	require.ErrorAs(t, err, &system)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = safetensors.Open(dir)
	require.ErrorAs(t, err, &system)
	require.ErrorContains(t, err, "neither model.safetensors nor")
	for name, text := range map[string]string{
		"no JSON": "{", "no map": "{}", "another folder": `{"weight_map":{"a":"../x"}}`, "no name": `{"weight_map":{"a":""}}`,
		"a drive": `{"weight_map":{"a":"c:x"}}`, "a number": `{"weight_map":{"a":5}}`, "an absolute path": `{"weight_map":{"a":"/x"}}`,
	} {
		_, err := safetensors.Open(at("y.index.json", []byte(text)))
		require.ErrorAs(t, err, &unsound, name)
	}
	at("z", ours(t, e))
	_, err = safetensors.Open(at("y.index.json", []byte(`{"weight_map":{"a":"z","c":"z"}}`)))
	require.ErrorAs(t, err, &unsound)
	require.Equal(t, "c", unsound.Tensor)
	_, err = safetensors.Open(at("y.index.json", []byte(`{"weight_map":{"a":"gone"}}`)))
	require.ErrorIs(t, err, os.ErrNotExist)
	f := opened(t, at("y.index.json", []byte(`{"weight_map":{"b":"z"}}`)))
	require.Len(t, f.Tensors(), 1, "what the index does not have is not there")
}

func TestFile_Misused_IsATypedError(t *testing.T) {
	e, _ := rig(t)
	f, err := safetensors.NewFile(bytes.NewReader(ours(t, e)), int64(len(ours(t, e))))
	require.NoError(t, err)
	var name *safetensors.NameError
	_, err = f.Read(e, "c")
	require.ErrorAs(t, err, &name)
	var device *tensor.DeviceError
	_, err = f.Read(tensor.Exec{}, "a")
	require.ErrorAs(t, err, &device)
	var dtype *tensor.DTypeError
	_, err = f.Read(e, "a", safetensors.As(99))
	require.ErrorAs(t, err, &dtype)
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	_, err = f.Read(e, "a")
	require.ErrorIs(t, err, safetensors.ErrClosed)
	require.ErrorIs(t, f.Verify(background), safetensors.ErrClosed)
	var wrong *safetensors.ArgumentError
	_, err = (*safetensors.File)(nil).Read(e, "a")
	require.ErrorAs(t, err, &wrong)
	_, err = safetensors.NewFile(nil, 5)
	require.ErrorAs(t, err, &wrong)
	_, err = safetensors.NewFile(bytes.NewReader(nil), -1)
	require.ErrorAs(t, err, &wrong)
	_, err = new(safetensors.File).Read(e, "a")
	require.ErrorIs(t, err, safetensors.ErrClosed)
}

// failing is a reader that fails after some bytes.
type failing struct {
	*bytes.Reader
	good int64
}

var errDisk = errors.New("the disk fails")

func (f failing) ReadAt(b []byte, at int64) (int, error) {
	if at+int64(len(b)) > f.good {
		return 0, errDisk
	}
	return f.Reader.ReadAt(b, at)
}

func TestRead_OfAReaderThatFails_KeepsNothing(t *testing.T) {
	e, alloc := rig(t)
	file := ours(t, e)
	f, err := safetensors.NewFile(failing{bytes.NewReader(file), int64(len(file)) - 20}, int64(len(file)), safetensors.Unverified())
	if err == nil { // the buffer that reads the header may reach that far
		held := allocated(alloc)
		_, err = f.Read(e, "b")
		require.Equal(t, held, allocated(alloc))
	}
	require.ErrorIs(t, err, errDisk)
	require.True(t, strings.HasPrefix(err.Error(), "safetensors: "), err)
}
