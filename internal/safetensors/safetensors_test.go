package safetensors

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// home is host memory that must be empty in the end.
func home(t *testing.T) tensor.Exec {
	t.Helper()
	e, end, err := Home()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, end()) })
	return e
}

func made[T tensor.Element](t *testing.T, e tensor.Exec, data []T, shape ...int) *tensor.Tensor {
	t.Helper()
	v, err := tensor.FromSlice(e, data, shape...)
	require.NoError(t, err)
	t.Cleanup(v.Release)
	return v
}

func all(t *testing.T, e tensor.Exec) []Named {
	return []Named{
		{"f32", made(t, e, []float32{1, float32(math.NaN()), -0}, 3)}, {"f64", made(t, e, []float64{math.Inf(1), 5e-324}, 2, 1)},
		{"f16", made(t, e, []tensor.Float16Bits{0x3c00, 0xffff}, 2)}, {"bf16", made(t, e, []tensor.BFloat16Bits{1, 2, 3}, 1, 3)},
		{"i64", made(t, e, []int64{math.MinInt64, 7}, 2)}, {"i32", made(t, e, []int32{-1}, 1)}, {"u8", made(t, e, []uint8{255}, 1)},
		{"bool", made(t, e, []bool{true, false, true}, 3)}, {"<&>é", made(t, e, []int32{}, 0, 5)},
	}
}

func TestWriteFile_WritesWhatWriteDoes_AndAllTypesComeBack(t *testing.T) {
	e := home(t)
	tensors := all(t, e)[:9]
	one, err := tensor.Scalar(e, 4, tensor.Float32)
	require.NoError(t, err)
	defer one.Release()
	tensors = append(tensors, Named{"scalar", one})
	metadata := map[string]string{"a": `"cistern.crc32c":"00000000"`, "b": "\x00 \u2028"}
	var written bytes.Buffer
	require.NoError(t, Write(context.Background(), &written, tensors, metadata))
	f, err := os.Create(filepath.Join(t.TempDir(), "x"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, WriteFile(context.Background(), f, tensors, metadata))
	content, err := os.ReadFile(f.Name())
	require.NoError(t, err)
	require.Equal(t, written.Bytes(), content)

	r, err := NewReader(bytes.NewReader(content))
	require.NoError(t, err)
	require.Equal(t, metadata, r.Metadata)
	require.True(t, r.HasChecksum())
	require.Equal(t, int64(len(content)), r.Len())
	require.Zero(t, (r.Len()-r.Size)%8, "the data is aligned")
	for range tensors {
		v, err := r.Next()
		require.NoError(t, err)
		var want *Values
		for _, n := range tensors {
			if n.Name == v.Name {
				want, err = Of(n.Name, n.Tensor)
				require.NoError(t, err)
			}
		}
		require.Equal(t, fmt.Sprintf("%v %v %v", want.DType, want.Shape, want.data), fmt.Sprintf("%v %v %v", v.DType, v.Shape, v.data))
	}
	_, err = r.Next()
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, r.Finish())
}

// changing changes a tensor when something is written.
type changing struct {
	io.Writer
	t *tensor.Tensor
}

func (c changing) Write(b []byte) (int, error) {
	if err := c.t.FillInPlace(7); err != nil {
		return 0, err
	}
	return c.Writer.Write(b)
}

func TestWrite_OfATensorThatChangesMeanwhile_IsAnError(t *testing.T) {
	e := home(t)
	big := made(t, e, make([]float32, 1<<20), 1<<20) // more than the writer's buffer
	last := made(t, e, []float32{1}, 1)
	err := Write(context.Background(), changing{io.Discard, last}, []Named{{"big", big}, {"last", last}}, nil)
	require.ErrorContains(t, err, "was changed")
}

func TestWrite_RefusesNames(t *testing.T) {
	e := home(t)
	one := made(t, e, []float32{1}, 1)
	for name, tensors := range map[string][]Named{
		"twice": {{"a", one}, {"a", one}}, "metadata": {{metadataKey, one}}, "not UTF-8": {{"\xff", one}},
	} {
		require.Error(t, Write(context.Background(), io.Discard, tensors, nil), name)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, Write(ctx, io.Discard, []Named{{"a", one}}, nil), context.Canceled)
}

func file(header string, data ...byte) []byte {
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), data...)
}

func TestNewReader_KeepsTheRulesOfTheFormat(t *testing.T) {
	const a = `"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}`
	for name, header := range map[string]string{
		"a blank first":       ` {` + a + `}`,
		"a name twice":        `{` + a + `,` + a + `}`,
		"metadata twice":      `{"__metadata__":{},"__metadata__":{},` + a + `}`,
		"a key twice":         `{"__metadata__":{"x":"1","x":"2"}}`,
		"a number for a text": `{"__metadata__":{"x":1}}`,
		"null for a text":     `{"__metadata__":{"x":null}}`,
		"null for metadata":   `{"__metadata__":null}`,
		"a list":              `[]`,
		"more after it":       `{` + a + `}{}`,
		"not UTF-8":           "{\"\xff\":{}}",
		"a hole":              `{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`,
		"an overlap":          `{` + a + `,"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`,
		"a fraction":          `{"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}}`,
		"many dimensions":     `{"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}}`,
		"a checksum's name":   `{"__metadata__":{"cistern.checksum":"crc32c"}}`,
		"only a checksum":     `{"__metadata__":{"cistern.crc32c":"00000000"}}`,
		"another checksum":    `{"__metadata__":{"cistern.checksum":"md5","cistern.crc32c":"00000000"}}`,
		"spaces before it":    `{"__metadata__":{"cistern.checksum":"crc32c","cistern.crc32c": "00000000"}}`,
	} {
		var wrong *Error
		_, err := NewReader(bytes.NewReader(file(header, 1)))
		require.ErrorAs(t, err, &wrong, name)
	}
	r, err := NewReader(bytes.NewReader(file(`{"b":{"shape":[],"data_offsets":[1,5],"dtype":"F32"},"__metadata__":{}, `+a+`,"c":{"dtype":"I64","shape":[3,0],"data_offsets":[1,1]}}  `, 1, 0, 0, 0, 0)))
	require.NoError(t, err)
	require.False(t, r.HasChecksum())
	var names []string
	for _, e := range r.Entries {
		names = append(names, e.Name)
	}
	require.Equal(t, []string{"a", "c", "b"}, names)
	require.NoError(t, r.Skip())
	require.NoError(t, r.Finish())
}

func TestExchange_PutsBack(t *testing.T) {
	e := home(t)
	a, b := made(t, e, []float32{1, 2}, 2), made(t, e, []float64{3}, 1)
	values := func() string {
		x, err := a.Float64s()
		require.NoError(t, err)
		y, err := b.Float64s()
		require.NoError(t, err)
		return fmt.Sprint(x, y)
	}
	before := values()
	x := new(Exchange)
	x.Add("a", Place{Tensor: a}, made(t, e, []int32{5, 6}, 2))
	x.Add("b", Place{Tensor: b}, made(t, e, []tensor.BFloat16Bits{0x4000}, 1))
	require.NoError(t, x.Apply())
	require.Equal(t, "[5 6] [2]", values())
	require.NoError(t, x.Undo())
	require.NoError(t, x.Undo(), "there is nothing left to do")
	require.Equal(t, before, values())

	released := made(t, e, []float32{0}, 1)
	x = new(Exchange)
	x.Add("a", Place{Tensor: a}, made(t, e, []float32{7, 8}, 2))
	x.Add("released", Place{Tensor: released}, made(t, e, []float32{9}, 1))
	released.Release()
	require.Error(t, x.Apply())
	require.NoError(t, x.Undo())
	require.Equal(t, before, values())
}

func TestSwapped_TurnsNumbersAround(t *testing.T) {
	require.Equal(t, []byte{4, 3, 2, 1, 8, 7, 6, 5}, swapped([]byte{1, 2, 3, 4, 5, 6, 7, 8}, 4))
	require.Equal(t, []byte{1, 2}, swapped([]byte{1, 2}, 1))
	require.Equal(t, binary.NativeEndian.Uint16([]byte{1, 0}) == 256, bigEndian)
}
