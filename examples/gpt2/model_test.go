package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
	"github.com/cistern-ml/cistern/tensor/safetensors"
)

const folder = "testdata/tiny"

// golden is what PyTorch makes of a text with the tiny model.
type golden struct {
	Prompt      string
	IDs, Greedy []int64
	Logits      [][]float64
}

func readGolden(t *testing.T) (g golden) {
	t.Helper()
	text, err := os.ReadFile("testdata/tiny.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &g))
	return g
}

// onHost is a device that must be empty at the end.
func onHost(t *testing.T) *host.Device {
	t.Helper()
	dev := host.New()
	t.Cleanup(func() {
		require.NoError(t, memory.Drop(dev))
		require.NoError(t, dev.Close())
	})
	return dev
}

func loaded(t *testing.T, dev *host.Device, folder string, dt tensor.DType) *checkpoint {
	t.Helper()
	c, err := load(folder, dev, dt)
	require.NoError(t, err)
	t.Cleanup(c.model.Release)
	return c
}

// requireLogits compares what the model makes of a text with PyTorch's.
func requireLogits(t *testing.T, dev *host.Device, c *checkpoint, within float64) {
	t.Helper()
	want := readGolden(t)
	ids, err := c.words.Encode(want.Prompt)
	require.NoError(t, err)
	require.Equal(t, want.IDs, ids)
	g := autograd.NewGraph(dev, autograd.NoGrad())
	defer g.Release()
	logits := c.model.Forward(autograd.FromSlice(g, ids, 1, len(ids))).To(tensor.Float32)
	require.NoError(t, g.Err())
	require.Equal(t, tensor.Shape{1, len(ids), c.Vocab}, logits.Shape())
	got, err := logits.Float64s()
	require.NoError(t, err)
	for i, row := range want.Logits {
		require.InDeltaSlice(t, row, got[i*c.Vocab:(i+1)*c.Vocab], within, "after token %d", i)
	}
}

func TestModel_HasPyTorchsLogitsAndGoesOnAsItDoes(t *testing.T) {
	dev := onHost(t)
	c := loaded(t, dev, folder, tensor.Float32)
	requireLogits(t, dev, c, 1e-5)
	want := readGolden(t)
	exec, err := tensor.On(dev)
	require.NoError(t, err)
	ids, err := generate(&whole{c.model, exec, c.Context}, want.IDs, len(want.Greedy), sampling{}, nil, func() bool { return false })
	require.NoError(t, err)
	require.Greater(t, len(ids), c.Context, "beyond the context")
	require.Equal(t, want.Greedy, ids[len(want.IDs):])
}

// rewritten is the tiny model in another folder, whose weights change makes of the old ones.
func rewritten(t *testing.T, maxBytes int64, change func(name string, v *tensor.Tensor) []safetensors.Entry) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"config.json", "vocab.json", "merges.txt"} {
		content, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	dev := onHost(t)
	exec, err := tensor.On(dev)
	require.NoError(t, err)
	f, err := safetensors.Open(folder)
	require.NoError(t, err)
	defer f.Close()
	var entries []safetensors.Entry
	for _, info := range f.Tensors() {
		v, err := f.Read(exec, info.Name)
		require.NoError(t, err)
		defer v.Release()
		entries = append(entries, change(info.Name, v)...)
	}
	require.NoError(t, safetensors.WriteShards(context.Background(), dir, maxBytes, entries, nil))
	return dir
}

func TestLoad_OfShardsWithAPrefixAndTheHead_IsTheSame(t *testing.T) {
	dir := rewritten(t, 10000, func(name string, v *tensor.Tensor) []safetensors.Entry {
		entries := []safetensors.Entry{{Name: "transformer." + name, Tensor: v}}
		if name == "wte.weight" {
			entries = append(entries, safetensors.Entry{Name: "lm_head.weight", Tensor: v})
		}
		return entries
	})
	require.FileExists(t, filepath.Join(dir, "model.safetensors.index.json"))
	dev := onHost(t)
	requireLogits(t, dev, loaded(t, dev, dir, tensor.Float32), 1e-5)
}

func TestLoad_OfAModelWithAHeadOfItsOwn_UsesIt(t *testing.T) {
	dir := rewritten(t, 1<<30, func(name string, v *tensor.Tensor) []safetensors.Entry {
		entries := []safetensors.Entry{{Name: name, Tensor: v}}
		if name == "wte.weight" {
			entries = append(entries, safetensors.Entry{Name: "lm_head.weight", Tensor: v})
		}
		return entries
	})
	changeConfig(t, dir, "tie_word_embeddings", false)
	dev := onHost(t)
	c := loaded(t, dev, dir, tensor.Float32)
	require.NotNil(t, c.model.Head)
	requireLogits(t, dev, c, 1e-5)
}

func TestLoad_InBFloat16_IsNear(t *testing.T) {
	dev := onHost(t)
	c := loaded(t, dev, folder, tensor.BFloat16)
	require.Equal(t, tensor.BFloat16, c.model.Tokens.Weight.Tensor().DType())
	requireLogits(t, dev, c, 0.5)
}

func changeConfig(t *testing.T, dir, key string, value any) {
	t.Helper()
	path := filepath.Join(dir, "config.json")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var c map[string]any
	require.NoError(t, json.Unmarshal(text, &c))
	c[key] = value
	text, err = json.Marshal(c)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text, 0o600))
}

func TestLoad_OfWhatIsNotGPT2_IsOneClearError(t *testing.T) {
	dev := onHost(t)
	same := func(name string, v *tensor.Tensor) []safetensors.Entry {
		return []safetensors.Entry{{Name: name, Tensor: v}}
	}
	for _, c := range []struct {
		key   string
		value any
		want  string
	}{
		{"model_type", "llama", `"llama"`}, {"activation_function", "relu", `"relu"`}, {"n_head", 5, "5 heads"}, {"n_layer", 0, "n_layer is 0"},
		{"n_embd", 64, "of another shape"}, {"n_layer", 3, "missing from the file: h.2."}, {"vocab_size", 300, "317 tokens, the model 300"},
		{"scale_attn_by_inverse_layer_idx", true, "scaled otherwise"}, {"n_inner", "x", "config.json"},
	} {
		dir := rewritten(t, 1<<30, same)
		changeConfig(t, dir, c.key, c.value)
		_, err := load(dir, dev, tensor.Float32)
		require.ErrorContains(t, err, c.want)
	}
	for _, gone := range []string{"config.json", "vocab.json", "merges.txt", "model.safetensors"} {
		dir := rewritten(t, 1<<30, same)
		require.NoError(t, os.Remove(filepath.Join(dir, gone)))
		_, err := load(dir, dev, tensor.Float32)
		require.ErrorContains(t, err, gone)
	}
}
