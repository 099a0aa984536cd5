package main

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/pkg/errors"
)

// config is what config.json says of the model: Hugging Face's names and defaults.
type config struct {
	ModelType    string  `json:"model_type"`
	Activation   string  `json:"activation_function"`
	Vocab        int     `json:"vocab_size"`
	Context      int     `json:"n_positions"`
	Width        int     `json:"n_embd"`
	Layers       int     `json:"n_layer"`
	Heads        int     `json:"n_head"`
	Inner        *int    `json:"n_inner"` // nil for four times the width
	Eps          float64 `json:"layer_norm_epsilon"`
	EOS          *int64  `json:"eos_token_id"`
	Tied         bool    `json:"tie_word_embeddings"`
	ScaleWeights bool    `json:"scale_attn_weights"`
	ScaleByLayer bool    `json:"scale_attn_by_inverse_layer_idx"`
}

// readConfig reads config.json of a folder.
func readConfig(folder string) (c config, err error) {
	path := filepath.Join(folder, "config.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	c = config{ModelType: "gpt2", Activation: "gelu_new", Vocab: 50257, Context: 1024, Width: 768, Layers: 12, Heads: 12, Eps: 1e-5, Tied: true, ScaleWeights: true}
	if err = json.Unmarshal(text, &c); err == nil {
		err = c.check()
	}
	return c, errors.Wrap(err, path)
}

// check refuses what this program does not compute.
func (c *config) check() error {
	for name, v := range map[string]int{"vocab_size": c.Vocab, "n_positions": c.Context, "n_embd": c.Width, "n_layer": c.Layers, "n_head": c.Heads, "n_inner": c.inner()} {
		if v < 1 {
			return errors.Errorf("%s is %d", name, v)
		}
	}
	switch {
	case c.ModelType != "gpt2":
		return errors.Errorf("the model is %q, and this program runs gpt2", c.ModelType)
	case c.Activation != "gelu_new" && c.Activation != "gelu_pytorch_tanh":
		return errors.Errorf("the activation is %q, not gelu_new", c.Activation)
	case c.Width%c.Heads != 0:
		return errors.Errorf("a width of %d cannot be cut into %d heads", c.Width, c.Heads)
	case !c.ScaleWeights || c.ScaleByLayer:
		return errors.New("attention is scaled otherwise than GPT-2's")
	}
	return nil
}

func (c *config) inner() int {
	if c.Inner == nil {
		return 4 * c.Width
	}
	return *c.Inner
}
