// Package lm trains GPTs on characters of a text: what examples/gpt does once and examples/amp in three precisions.
package lm

import (
	"math"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/examples/internal/session"
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
	Graph                     bool   // capture a training step once, and replay it
}

// Flags adds the flags of a run to f, with their defaults and bounds; there are so many steps at least.
func (c *Config) Flags(f *session.Checked, leastSteps int) {
	f.Count(&c.Layers, "layers", 4, 1, 10_000, "layers of the model")
	f.Count(&c.Width, "width", 128, 1, session.MostWidth, "elements of a token's vector")
	f.Count(&c.Heads, "heads", 4, 1, session.MostWidth, "heads of attention")
	f.Count(&c.Seq, "seq", 128, 1, 1<<20, "characters of a sequence")
	f.Count(&c.Batch, "batch", 16, 1, session.MostBatch, "sequences of a training step")
	f.Product(session.MostTokens, &c.Batch, "batch", &c.Seq, "seq")
	f.Count(&c.Vocab, "vocab", 0, 0, session.MostTokens, "pad the vocabulary to this many tokens (default: the characters of the text)")
	f.Number(&c.Dropout, "dropout", 0, "part of the activations left out in training", "be 0 to 1, and not 1", func(v float64) bool { return v >= 0 && v < 1 })
	f.Count(&c.Steps, "steps", 500, leastSteps, session.MostSteps, "training steps")
	f.BoolVar(&c.Checkpoint, "checkpoint", false, "save only each layer's input for backward, and compute the layer again: less memory, more time")
	f.Uint64Var(&c.Seed, "seed", 1, "seed of all random numbers")
	f.Positive(&c.LR, "lr", 1e-3, "highest learning rate; it rises for 100 steps and then falls to a tenth along a cosine")
	f.Check(c.check)
}

// Precisions are the values of Config.AMP, and the types that matrix products are computed in.
var Precisions = map[string]tensor.DType{"off": tensor.Float32, "fp16": tensor.Float16, "bf16": tensor.BFloat16}

// check refuses what cannot be trained, besides what is out of bounds.
func (c *Config) check() error {
	if _, ok := Precisions[c.AMP]; !ok {
		return errors.Errorf("-amp is %q, must be off, fp16 or bf16", c.AMP)
	}
	if c.Width%c.Heads != 0 {
		return errors.Errorf("-width is %d and -heads %d: it cannot be cut into %d heads", c.Width, c.Heads, c.Heads)
	}
	return nil
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
