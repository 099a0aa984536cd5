package nn_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

func TestReadTensors_GivesWhatTheFileHas(t *testing.T) {
	r := onHost(t)
	file := headed(`{"__metadata__":{"by":"hand"},"n":{"dtype":"I64","shape":[2],"data_offsets":[4,20]},`+
		`"b":{"dtype":"BOOL","shape":[2,2],"data_offsets":[0,4]},"e":{"dtype":"F32","shape":[0,3],"data_offsets":[20,20]}}`,
		slices.Concat([]byte{1, 0, 0, 1}, binary.LittleEndian.AppendUint64(nil, 7), binary.LittleEndian.AppendUint64(nil, ^uint64(0)))...)
	infos, metadata, err := nn.ListTensors(bytes.NewReader(file))
	require.NoError(t, err)
	require.Equal(t, []nn.TensorInfo{{"b", tensor.Bool, tensor.Shape{2, 2}}, {"n", tensor.Int64, tensor.Shape{2}}, {"e", tensor.Float32, tensor.Shape{0, 3}}}, infos)
	require.Equal(t, map[string]string{"by": "hand"}, metadata)

	all, err := nn.ReadTensors(r.exec, bytes.NewReader(file))
	require.NoError(t, err)
	require.Len(t, all, 3)
	for _, i := range infos {
		require.Equal(t, i.DType, all[i.Name].DType())
		require.Equal(t, i.Shape, all[i.Name].Shape())
	}
	numbers, err := tensor.ToSlice[int64](all["n"])
	require.NoError(t, err)
	require.Equal(t, []int64{7, -1}, numbers)
	nn.ReleaseTensors(all)
	require.Empty(t, all)
	require.Zero(t, r.allocated())

	one, err := nn.ReadTensors(r.exec, bytes.NewBuffer(file), "b", "b")
	require.NoError(t, err)
	require.Len(t, one, 1)
	nn.ReleaseTensors(one)
}

func TestReadTensors_OfWhatItCannotRead_IsAnErrorAndHoldsNothing(t *testing.T) {
	r := onHost(t)
	m := nn.Sequential(nn.Linear(2, 3))
	r.place(m)
	whole, held := contents(t, m), r.allocated()
	var unsound *nn.FormatError
	for i := range whole {
		_, err := nn.ReadTensors(r.exec, bytes.NewReader(whole[:i]))
		require.ErrorAs(t, err, &unsound, "cut after %d bytes", i)
		require.Contains(t, err.Error(), "nn: ReadTensors: ")
		damaged := slices.Clone(whole)
		damaged[i] ^= 0x20
		_, err = nn.ReadTensors(r.exec, bytes.NewReader(damaged))
		require.Error(t, err, "byte %d", i)
	}
	for name, file := range map[string][]byte{
		"more":         append(slices.Clone(whole), 0),
		"a huge shape": headed(`{"w":{"dtype":"F64","shape":[1099511627776],"data_offsets":[0,8796093022208]}}`, 1, 2, 3),
		"overflow":     headed(`{"w":{"dtype":"F64","shape":[4611686018427387904,8],"data_offsets":[0,0]}}`),
		"no tensor":    headed(`{"w":{"dtype":"F32","shape":[0,9223372036854775807,9223372036854775807],"data_offsets":[0,4]}}`),
		"a gap":        headed(`{"w":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 1, 2),
		"a long head":  binary.LittleEndian.AppendUint64(nil, 1<<40),
	} {
		_, err := nn.ReadTensors(r.exec, bytes.NewReader(file))
		require.ErrorAs(t, err, &unsound, name)
		require.Equal(t, held, r.allocated(), name)
	}
	_, _, err := nn.ListTensors(bytes.NewReader(headed(`{"w":5}`)))
	require.ErrorAs(t, err, &unsound)
	require.EqualError(t, err, `nn: ListTensors: not a sound safetensors file: tensor "w": it does not begin with {`)

	var differ *nn.MismatchError
	_, err = nn.ReadTensors(r.exec, bytes.NewReader(whole), "0.weight", "0.wight")
	require.ErrorAs(t, err, &differ)
	require.EqualError(t, err, "nn: ReadTensors: missing from the file: 0.wight")
	require.Equal(t, held, r.allocated())
}

func TestReadTensors_RefusesWhatIsNotThere(t *testing.T) {
	r := onHost(t)
	var wrong *nn.ArgumentError
	_, err := nn.ReadTensors(r.exec, nil)
	require.ErrorAs(t, err, &wrong)
	_, err = nn.ReadTensors(r.exec, (*bytes.Reader)(nil))
	require.ErrorAs(t, err, &wrong)
	_, _, err = nn.ListTensors(nil)
	require.ErrorAs(t, err, &wrong)
	var device *tensor.DeviceError
	_, err = nn.ReadTensors(tensor.Exec{}, bytes.NewReader(nil))
	require.ErrorAs(t, err, &device)
	nn.ReleaseTensors(nil)
	m := nn.Sequential(nn.Linear(1, 1))
	r.place(m)
	_, err = nn.ReadTensors(r.exec, io.MultiReader(bytes.NewReader(contents(t, m)[:220]), broken{}))
	require.ErrorIs(t, err, errBroken)
}

var errBroken = fmt.Errorf("broken")

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errBroken }

func TestReadTensors_WithoutMemory_ReleasesWhatItMade(t *testing.T) {
	r := onHost(t)
	m := nn.Sequential(nn.Linear(2, 3), nn.Linear(64, 1024))
	r.place(m)
	file := contents(t, m)
	limited := &after{Allocator: r.alloc, left: 2}
	e, err := tensor.On(r.dev, tensor.WithAllocator(limited))
	require.NoError(t, err)
	held := r.allocated()
	_, err = nn.ReadTensors(e, bytes.NewReader(file))
	require.ErrorIs(t, err, errBroken)
	require.ErrorContains(t, err, `tensor "1.`)
	require.Equal(t, held, r.allocated())
}

// after fails when it was asked a number of times.
type after struct {
	memory.Allocator
	left int
}

func (a *after) Alloc(bytes uint64, s device.Stream) (memory.Block, error) {
	if a.left--; a.left < 0 {
		return memory.Block{}, errBroken
	}
	return a.Allocator.Alloc(bytes, s)
}
