package main

import (
	"path/filepath"
	"strings"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/examples/internal/bpe"
	"github.com/cistern-ml/cistern/tensor"
	"github.com/cistern-ml/cistern/tensor/safetensors"
)

// checkpoint is what a folder has.
type checkpoint struct {
	config
	model *model
	words *bpe.Tokenizer
}

// load reads a folder as transformers' save_pretrained writes it: config.json, model.safetensors or the index of its shards, vocab.json
// and merges.txt. The caller releases the model.
func load(folder string, dev device.Device, dt tensor.DType) (*checkpoint, error) {
	c, err := readConfig(folder)
	if err != nil {
		return nil, err
	}
	words, err := bpe.Load(filepath.Join(folder, "vocab.json"), filepath.Join(folder, "merges.txt"))
	if err != nil {
		return nil, err
	}
	if words.Len() > c.Vocab {
		return nil, errors.Errorf("%s: the vocabulary has %d tokens, the model %d", folder, words.Len(), c.Vocab)
	}
	m := newModel(c)
	if err := m.To(dev, nn.Unset(), nn.DType(dt)); err != nil {
		return nil, err
	}
	if err := m.read(folder); err != nil {
		m.Release()
		return nil, err
	}
	return &checkpoint{c, m, words}, nil
}

// read loads the weights.
func (m *model) read(folder string) error {
	f, err := safetensors.Open(folder)
	if err != nil {
		return err
	}
	err = nn.LoadFile(f, m, nn.Rename(m.ours), nn.Transposed(transposed))
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// ours is a name of the file in the model: without the prefix that only some files have, and none for what is no weight, the masks of
// older files and the output matrix beside the embedding that it is.
func (m *model) ours(name string) string {
	name = strings.TrimPrefix(name, "transformer.")
	if strings.HasSuffix(name, ".attn.bias") || strings.HasSuffix(name, ".attn.masked_bias") || name == "lm_head.weight" && m.Head == nil {
		return ""
	}
	return name
}

// transposed reports whether a tensor of the file is the weight of a layer that multiplies from the other side: GPT-2's are [in, out].
func transposed(name string) bool {
	for _, layer := range []string{".c_attn.weight", ".c_proj.weight", ".c_fc.weight"} {
		if strings.HasSuffix(name, layer) {
			return true
		}
	}
	return false
}
