package nn_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/tensor"
)

func TestLoad_RestoresWhatSaveWrote(t *testing.T) {
	r := onHost(t)
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16} {
		a, b := newNet(), newNet()
		r.place(a, nn.Seed(1), nn.DType(dt))
		r.place(b, nn.Seed(2), nn.DType(dt))
		var file bytes.Buffer
		require.NoError(t, nn.Save(&file, a))
		require.NoError(t, nn.Load(&file, b))
		for i, p := range a.Parameters() {
			require.Equal(t, valuesOf(t, p), valuesOf(t, b.Parameters()[i]), dt)
		}
	}
}

func TestLoad_ConvertsTypes(t *testing.T) {
	r := onHost(t)
	a, b := nn.Linear(2, 1, nn.WeightInit(nn.Constant(1.5))), nn.Linear(2, 1)
	r.place(a, nn.DType(tensor.Float16))
	r.place(b, nn.DType(tensor.Float64))
	var file bytes.Buffer
	require.NoError(t, nn.Save(&file, a))
	require.NoError(t, nn.Load(&file, b))
	require.Equal(t, []float64{1.5, 1.5}, valuesOf(t, b.Weight))
	require.Equal(t, tensor.Float64, b.Weight.Tensor().DType())
}

func TestSave_WritesTheFormatThatOthersRead(t *testing.T) {
	r := onHost(t)
	l := nn.Linear(2, 1, nn.WeightInit(nn.Ones), nn.BiasInit(nn.Zeros))
	r.place(l)
	var file bytes.Buffer
	require.NoError(t, nn.Save(&file, l))
	text := func(sum string) []byte {
		header := `{"__metadata__":{"cistern.checksum":"crc32c","cistern.crc32c":"` + sum + `","format":"pt"},` +
			`"bias":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},"weight":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}`
		for len(header)%8 != 0 {
			header += " "
		}
		content := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
		return append(content, 0, 0, 0x80, 0x3f, 0, 0, 0x80, 0x3f, 0, 0, 0, 0) // 1, 1, 0
	}
	sum := crc32.Checksum(text("00000000"), crc32.MakeTable(crc32.Castagnoli))
	require.Equal(t, text(fmt.Sprintf("%08x", sum)), file.Bytes())
}

func TestLoad_OfAnotherModel_NamesAllDifferencesAndChangesNothing(t *testing.T) {
	r := onHost(t)
	a, b := nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)), nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(3, 1))
	r.place(a)
	r.place(b)
	before := valuesOf(t, b.Parameters()[0])
	var file bytes.Buffer
	require.NoError(t, nn.Save(&file, a))
	err := nn.Load(&file, b)
	var mismatch *nn.MismatchError
	require.ErrorAs(t, err, &mismatch)
	require.Equal(t, []string{"2.weight", "2.bias"}, mismatch.Missing)
	require.Equal(t, []string{"1.weight", "1.bias"}, mismatch.Unexpected)
	require.Equal(t, []string{"0.weight (file [3, 2], model [4, 2])", "0.bias (file [3], model [4])"}, mismatch.Shapes)
	require.Equal(t, before, valuesOf(t, b.Parameters()[0]))
}

func TestSaveAndLoad_NeedAModelWithValues(t *testing.T) {
	r := onHost(t)
	l := nn.Linear(1, 1)
	require.ErrorContains(t, nn.Save(new(bytes.Buffer), l), "no value")
	other := nn.Linear(1, 1)
	r.place(other)
	var file bytes.Buffer
	require.NoError(t, nn.Save(&file, other))
	require.ErrorContains(t, nn.Load(&file, l), "To on the model")
}

func TestLoad_OfAnUnsoundFile_IsAFormatError(t *testing.T) {
	r := onHost(t)
	l := nn.Linear(2, 1, nn.NoBias())
	r.place(l)
	var sound bytes.Buffer
	require.NoError(t, nn.Save(&sound, l))
	file := func(header string, data ...byte) []byte {
		return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), data...)
	}
	for name, content := range map[string][]byte{
		"empty":      nil,
		"too long":   binary.LittleEndian.AppendUint64(nil, 1<<40),
		"cut header": sound.Bytes()[:20],
		"cut data":   sound.Bytes()[:sound.Len()-1],
		"not json":   file("weights"),
		"no entry":   file(`{"weight":[]}`),
		"type":       file(`{"weight":{"dtype":"F8","shape":[1,2],"data_offsets":[0,2]}}`, 0, 0),
		"length":     file(`{"weight":{"dtype":"F32","shape":[1,2],"data_offsets":[0,9]}}`, make([]byte, 9)...),
		"gap":        file(`{"weight":{"dtype":"F32","shape":[1,2],"data_offsets":[4,12]}}`, make([]byte, 12)...),
		"negative":   file(`{"weight":{"dtype":"F32","shape":[-1,-2],"data_offsets":[0,8]}}`, make([]byte, 8)...),
		"huge":       file(`{"weight":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}`),
	} {
		var format *nn.FormatError
		require.ErrorAs(t, nn.Load(bytes.NewReader(content), l), &format, name)
	}
	require.NoError(t, nn.Load(bytes.NewReader(file(`{"__metadata__":{"by":"hand"},"weight":{"dtype":"I32","shape":[1,2],"data_offsets":[0,8]}}`,
		1, 0, 0, 0, 2, 0, 0, 0)), l))
	require.Equal(t, []float64{1, 2}, valuesOf(t, l.Weight))
}

func TestSave_OfTwoParametersOfOneName_IsAnError(t *testing.T) {
	r := onHost(t)
	list := pair{autograd.DeclareParameter("w", nn.Zeros, 1), autograd.DeclareParameter("w", nn.Zeros, 1)}
	for _, p := range list {
		require.NoError(t, p.Materialize(r.exec, nil, tensor.Float32))
		defer p.Release()
	}
	var name *nn.NameError
	require.ErrorAs(t, nn.Save(new(bytes.Buffer), list), &name)
	require.EqualError(t, name, `nn: the name "w": two parameters of the model have it`)
}

// pair is a module that does not embed Base, and cannot see to it that names differ.
type pair [2]*autograd.Parameter

func (pair) Forward(x *autograd.Variable) *autograd.Variable { return x }
func (p pair) Parameters() []*autograd.Parameter             { return p[:] }
func (pair) To(device.Device, ...nn.Option) error            { return nil }
func (pair) Release()                                        {}

// sharing is a module that registers nothing by itself.
type sharing struct{ nn.Base }

func (*sharing) Forward(x *autograd.Variable) *autograd.Variable { return x }
