package safetensors_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
	"github.com/cistern-ml/cistern/tensor/safetensors"
)

func TestWriteFile_OfWhatIsMadeMeanwhile_HoldsOneAtATime(t *testing.T) {
	e, alloc := rig(t)
	var peak, calls int64
	entries := make([]safetensors.Entry, 3)
	for i := range entries {
		entries[i] = safetensors.Entry{Name: string(rune('a' + i)), DType: tensor.Float32, Shape: tensor.Shape{2, 2},
			Make: func() (*tensor.Tensor, error) {
				calls++
				peak = max(peak, allocated(alloc))
				return tensor.Full(e, float64(i), tensor.Float32, 2, 2)
			}}
	}
	path := filepath.Join(t.TempDir(), "x")
	require.NoError(t, safetensors.WriteFile(background, path, entries, nil))
	require.Equal(t, int64(3), calls, "each is made once")
	require.Zero(t, peak, "and released before the next one")
	f := opened(t, path)
	require.Equal(t, map[string]string{"format": "pt"}, f.Metadata())
	for i, entry := range entries {
		v, err := f.Read(e, entry.Name)
		require.Equal(t, []float64{float64(i), float64(i), float64(i), float64(i)}, values(t, v, err))
	}
	var b bytes.Buffer
	require.NoError(t, safetensors.Write(background, &b, entries, nil))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, content, b.Bytes())

	bad := errors.New("bad")
	for name, m := range map[string]func() (*tensor.Tensor, error){
		"failing": func() (*tensor.Tensor, error) { return nil, bad },
		"nil":     func() (*tensor.Tensor, error) { return nil, nil },
		"shape":   func() (*tensor.Tensor, error) { return tensor.Zeros(e, tensor.Float32, 4) },
		"type":    func() (*tensor.Tensor, error) { return tensor.Zeros(e, tensor.Float64, 2, 2) },
	} {
		entries[1].Make = m
		require.Error(t, safetensors.WriteFile(background, path, entries, nil), name)
		require.Error(t, safetensors.Write(background, io.Discard, entries, nil), name)
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, after, "the file is as it was")
	}
}

func TestWrite_RefusesWhatNoFileCanHave(t *testing.T) {
	e, _ := rig(t)
	one := made(t, e, []float32{1}, 1)
	gone, err := tensor.Zeros(e, tensor.Float32, 1)
	require.NoError(t, err)
	gone.Release()
	var name *safetensors.NameError
	var unsound *safetensors.FormatError
	var wrong *safetensors.ArgumentError
	for _, entries := range [][]safetensors.Entry{{{Name: "a", Tensor: one}, {Name: "a", Tensor: one}}, {{Name: "a"}}, {{Name: "a", Tensor: gone}}} {
		require.ErrorAs(t, safetensors.Write(background, io.Discard, entries, nil), &name)
	}
	for _, n := range []string{"__metadata__", "\xff"} {
		require.ErrorAs(t, safetensors.Write(background, io.Discard, []safetensors.Entry{{Name: n, Tensor: one}}, nil), &unsound, n)
	}
	make := func() (*tensor.Tensor, error) { return nil, nil }
	require.ErrorAs(t, safetensors.Write(background, io.Discard, []safetensors.Entry{{Name: "a", Make: make, DType: 77}}, nil), &unsound)
	require.ErrorAs(t, safetensors.Write(background, io.Discard, []safetensors.Entry{{Name: "a", Make: make, DType: tensor.Bool, Shape: tensor.Shape{-1}}}, nil), &unsound)
	require.ErrorAs(t, safetensors.Write(background, nil, nil, nil), &wrong)
	var none context.Context
	require.ErrorAs(t, safetensors.Write(none, io.Discard, nil, nil), &wrong)
	require.ErrorAs(t, safetensors.Write(background, io.Discard, nil, map[string]string{"a": "\xff"}), &wrong)
	ctx, cancel := context.WithCancel(background)
	cancel()
	require.ErrorIs(t, safetensors.Write(ctx, io.Discard, []safetensors.Entry{{Name: "a", Tensor: one}}, nil), context.Canceled)
	var system *safetensors.FileError
	require.ErrorAs(t, safetensors.WriteFile(background, filepath.Join(t.TempDir(), "no", "file"), nil, nil), &system)
}

func TestWriteShards_OpensAsOneModel(t *testing.T) {
	e, _ := rig(t)
	dir := t.TempDir()
	entries := []safetensors.Entry{
		{Name: "a", Tensor: made(t, e, []float32{1, 2, 3}, 3)}, {Name: "b", Tensor: made(t, e, []float32{4, 5}, 2)},
		{Name: "big", Tensor: made(t, e, make([]float64, 10), 10)}, {Name: "c", Tensor: made(t, e, []bool{true}, 1)},
	}
	require.NoError(t, safetensors.WriteShards(background, dir, 20, entries, map[string]string{"by": "test"}))
	var index struct {
		Metadata struct {
			TotalSize int64 `json:"total_size"`
		}
		WeightMap map[string]string `json:"weight_map"`
	}
	text, err := os.ReadFile(filepath.Join(dir, "model.safetensors.index.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &index))
	require.Equal(t, int64(12+8+80+1), index.Metadata.TotalSize)
	require.Equal(t, map[string]string{"a": "model-00001-of-00003.safetensors", "b": "model-00001-of-00003.safetensors",
		"big": "model-00002-of-00003.safetensors", "c": "model-00003-of-00003.safetensors"}, index.WeightMap)
	f := opened(t, dir)
	require.NoError(t, f.Verify(background))
	require.Equal(t, map[string]string{"format": "pt", "by": "test"}, f.Metadata())
	for i, info := range f.Tensors() {
		require.Equal(t, entries[i].Name, info.Name)
		want, err := entries[i].Tensor.Float64s()
		require.NoError(t, err)
		v, err := f.Read(e, info.Name)
		require.Equal(t, want, values(t, v, err))
	}
	var system *safetensors.FileError
	require.ErrorAs(t, safetensors.WriteShards(background, dir, 1<<20, entries, nil), &system, "the index would stay")
	var wrong *safetensors.ArgumentError
	require.ErrorAs(t, safetensors.WriteShards(background, dir, 0, entries, nil), &wrong)

	alone := t.TempDir()
	require.NoError(t, safetensors.WriteShards(background, alone, 1<<20, entries, nil))
	require.Equal(t, filepath.Join(alone, "model.safetensors"), opened(t, alone).Name())
	require.ErrorAs(t, safetensors.WriteShards(background, alone, 20, entries, nil), &system)

	shard := filepath.Join(dir, "model-00002-of-00003.safetensors")
	damaged, err := os.ReadFile(shard)
	require.NoError(t, err)
	damaged[len(damaged)-1] ^= 1
	require.NoError(t, os.WriteFile(shard+".new", damaged, 0o600))
	require.NoError(t, os.Rename(shard+".new", shard))
	again := opened(t, dir)
	v, err := again.Read(e, "a")
	require.Equal(t, []float64{1, 2, 3}, values(t, v, err), "its shard is sound")
	var unsound *safetensors.FormatError
	_, err = again.Read(e, "big")
	require.ErrorAs(t, err, &unsound)
	require.Equal(t, shard, unsound.File)
}
