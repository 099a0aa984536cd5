// Package lm trains GPTs on characters of a text: what examples/gpt does once and examples/amp in three precisions.
package lm

import (
	"flag"
	"fmt"
	"math"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/examples/models"
	"github.com/cistern-ml/cistern/tensor"
)

// Config is a training run.
type Config struct {
	Layers, Width, Heads, Seq int // of the model, and the length of its sequences
	Batch                     int // sequences of a step
	Vocab                     int // tokens; 0 for as many as the text has characters
	Dropout                   float64
	Steps                     int
	Checkpoint                bool // recompute each layer in backward
	Seed                      uint64
	LR                        float64
	AMP                       string // off, fp16 or bf16
}

// Flags adds the flags of a run to f, with their defaults.
func (c *Config) Flags(f *flag.FlagSet) {
	f.IntVar(&c.Layers, "layers", 4, "layers of the model")
	f.IntVar(&c.Width, "width", 128, "elements of a token's vector")
	f.IntVar(&c.Heads, "heads", 4, "heads of attention")
	f.IntVar(&c.Seq, "seq", 128, "characters of a sequence")
	f.IntVar(&c.Batch, "batch", 16, "sequences of a training step")
	f.IntVar(&c.Vocab, "vocab", 0, "pad the vocabulary to this many tokens (default: the characters of the text)")
	f.Float64Var(&c.Dropout, "dropout", 0, "part of the activations left out in training")
	f.IntVar(&c.Steps, "steps", 500, "training steps")
	f.BoolVar(&c.Checkpoint, "checkpoint", false, "save only each layer's input for backward, and compute the layer again: less memory, more time")
	f.Uint64Var(&c.Seed, "seed", 1, "seed of all random numbers")
	f.Float64Var(&c.LR, "lr", 1e-3, "highest learning rate; it rises for 100 steps and then falls to a tenth along a cosine")
}

// Precisions are the values of Config.AMP, and the types that matrix products are computed in.
var Precisions = map[string]tensor.DType{"off": tensor.Float32, "fp16": tensor.Float16, "bf16": tensor.BFloat16}

// Check refuses what cannot be trained.
func (c *Config) Check() error {
	for _, v := range []struct {
		bad  bool
		what string
	}{
		{c.Batch < 1, fmt.Sprintf("-batch is %d, must be at least 1", c.Batch)},
		{c.Steps < 0, fmt.Sprintf("-steps is %d, must not be negative", c.Steps)},
		{c.Vocab < 0, fmt.Sprintf("-vocab is %d, must not be negative", c.Vocab)},
		{!(c.LR > 0), fmt.Sprintf("-lr is %g, must be positive", c.LR)},
		{!(c.Dropout >= 0 && c.Dropout < 1), fmt.Sprintf("-dropout is %g, must be in 0..1", c.Dropout)},
	} {
		if v.bad {
			return errors.New(v.what)
		}
	}
	if _, ok := Precisions[c.AMP]; !ok {
		return errors.Errorf("-amp is %q, must be off, fp16 or bf16", c.AMP)
	}
	_, err := models.NewGPT(c.model(max(c.Vocab, 1)))
	return err
}

func (c *Config) model(vocab int) models.GPTConfig {
	return models.GPTConfig{Vocab: vocab, Context: c.Seq, Layers: c.Layers, Width: c.Width, Heads: c.Heads, Dropout: c.Dropout, Checkpoint: c.Checkpoint}
}

// The rest of what is fixed: AdamW as GPT-3 was trained (Brown et al., 2020).
const (
	beta1, beta2 = 0.9, 0.95
	weightDecay  = 0.1 // of matrices; vectors are not drawn to 0
	maxNorm      = 1.0
	warmup       = 100
)

// rate is the learning rate of a step: it rises linearly for 100 steps, then falls to a tenth of lr along a cosine.
func (c *Config) rate(step int) float64 {
	if step < warmup {
		return c.LR * float64(step+1) / warmup
	}
	at := float64(step-warmup) / float64(max(c.Steps-warmup, 1))
	return c.LR * (0.1 + 0.45*(1+math.Cos(math.Pi*at)))
}
