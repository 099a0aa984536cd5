package safetensors_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
	"github.com/cistern-ml/cistern/tensor/safetensors"
)

// headed is a file with a header.
func headed(header string, data ...byte) []byte {
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), data...)
}

// FuzzFile opens anything, and reads all that is in it. What is refused is a typed error, takes no more memory than the file is long, and
// keeps none; what is read is written and read again to the same.
func FuzzFile(f *testing.F) {
	e, alloc := rig(f)
	good := ours(f, e)
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(bytes.Replace(good, []byte("cistern."), []byte("another."), 2))
	f.Add(headed(`{"a":{"dtype":"F32","shape":[1000000000],"data_offsets":[0,4000000000]}}`))
	f.Add(headed(`{"a":{"dtype":"BOOL","shape":[0,9223372036854775807],"data_offsets":[0,0]}}`))
	f.Add(headed(`{"a":{"dtype":"X9","shape":[2],"data_offsets":[0,3]},"b":{"dtype":"F4","shape":[2],"data_offsets":[3,4]}}`, 1, 2, 3, 4))
	f.Add(headed(`{"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}`, 0, 64))
	f.Add(binary.LittleEndian.AppendUint64(nil, 100<<20))
	f.Fuzz(func(t *testing.T, data []byte) {
		held := allocated(alloc)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		file, err := safetensors.NewFile(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			requireTyped(t, err)
			return
		}
		for _, info := range file.Tensors() {
			v, err := file.Read(e, info.Name)
			if err != nil {
				requireTyped(t, err)
				continue
			}
			v.Release()
		}
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<21+400*len(data)), "%d bytes of input", len(data))
		require.Equal(t, held, allocated(alloc))
		requireSameAgain(t, file)
	})
}

func requireTyped(t *testing.T, err error) {
	t.Helper()
	var format *safetensors.FormatError
	var foreign *safetensors.TypeError
	var shape *tensor.ShapeError // an empty one whose dimensions no tensor has
	require.True(t, errors.As(err, &format) || errors.As(err, &foreign) || errors.As(err, &shape), "%T %v", err, err)
}

// requireSameAgain writes what can be read of a file, and compares.
func requireSameAgain(t *testing.T, file *safetensors.File) {
	t.Helper()
	e, _ := rig(t)
	var entries []safetensors.Entry
	for _, info := range file.Tensors() {
		if v, err := file.Read(e, info.Name); err == nil {
			defer v.Release()
			entries = append(entries, safetensors.Entry{Name: info.Name, Tensor: v})
		}
	}
	var b bytes.Buffer
	require.NoError(t, safetensors.Write(background, &b, entries, file.Metadata()))
	again := reader(t, b.Bytes())
	require.NoError(t, again.Verify(background))
	for _, entry := range entries {
		v, err := again.Read(e, entry.Name)
		require.NoError(t, err)
		require.Equal(t, entry.Tensor.DType(), v.DType())
		require.Equal(t, entry.Tensor.String(), v.String())
		v.Release()
	}
}
