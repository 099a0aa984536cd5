package nn

import (
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// RotaryEmbeddingModule has the cosines and sines of rotary position embedding (Su et al., "RoFormer", 2021) for positions up to a greatest one: pair i of
// the element pairs of a head at position p is turned by p / base^(2i/dim). It has no parameters. The tables are buffers that Save does not write,
// 4*dim bytes a position in float32, and of the type of the model. They are computed in float32, as in Hugging Face's models, and in float64 for a model of that type.
type RotaryEmbeddingModule struct {
	Base
	cos, sin *autograd.Parameter // [maxLen, dim/2]

	dim, maxLen int
	config      rotaryConfig
}

type rotaryConfig struct {
	base  float64
	pairs tensor.RotaryPairs
}

// RotaryOption changes RotaryEmbedding.
type RotaryOption func(*rotaryConfig)

// RotaryBase is the base of the angles' powers instead of 10000.
func RotaryBase(base float64) RotaryOption { return func(c *rotaryConfig) { c.base = base } }

// RotaryInterleaved turns elements 2i and 2i+1 together, as the paper and LLaMA's original do, instead of i and i+dim/2, as GPT-NeoX and Hugging Face
// do.
func RotaryInterleaved() RotaryOption {
	return func(c *rotaryConfig) { c.pairs = tensor.RotaryInterleaved }
}

// RotaryEmbedding makes tables for positions 0..maxLen-1 and for the first dim elements of a head, an even number; a head's other elements stay as they
// are.
func RotaryEmbedding(dim, maxLen int, opts ...RotaryOption) *RotaryEmbeddingModule {
	c := rotaryConfig{base: 10000}
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	l := &RotaryEmbeddingModule{dim: dim, maxLen: maxLen, config: c}
	switch {
	case dim < 0 || dim%2 != 0 || maxLen < 0:
		l.mistaken(argumentErr("RotaryEmbedding", "%d elements and %d positions; want an even number of elements, and no negative ones", dim, maxLen))
		dim, maxLen = 0, 0
	case !(c.base > 0) || math.IsInf(c.base, 0):
		l.mistaken(argumentErr("RotaryEmbedding", "the base is %v; want a positive number", c.base))
	}
	l.cos = l.RegisterBuffer(autograd.DeclareParameter("cos", rotaryTable(c.base, (*tensor.Tensor).Cos), maxLen, dim/2), NonPersistent())
	l.sin = l.RegisterBuffer(autograd.DeclareParameter("sin", rotaryTable(c.base, (*tensor.Tensor).Sin), maxLen, dim/2), NonPersistent())
	return l
}

// rotaryTable is the initializer of a function of the angles, [positions, pairs].
func rotaryTable(base float64, f func(angles *tensor.Tensor) (*tensor.Tensor, error)) autograd.Initializer {
	return func(e tensor.Exec, _ *tensor.Generator, dt tensor.DType, shape ...int) (*tensor.Tensor, error) {
		if shape[0] == 0 { // of no position there may be any number of pairs
			return tensor.Empty(e, dt, shape...)
		}
		var temps []*tensor.Tensor
		defer func() {
			for _, t := range temps {
				t.Release()
			}
		}()
		var failed error
		do := func(t *tensor.Tensor, err error) *tensor.Tensor {
			if failed == nil {
				failed = err
			}
			temps = append(temps, t)
			return t
		}
		own := e.Owned()
		computed := tensor.Float32
		if dt == tensor.Float64 {
			computed = dt
		}
		if do(tensor.Empty(own, computed, shape...)); failed != nil { // there is no memory for so many, on the host either
			return nil, failed
		}
		at := do(do(tensor.Arange(own, 0, float64(shape[0]), 1, computed)).Unsqueeze(1))
		frequencies := do(do(tensor.FromSlice(own, rotaryFrequencies(base, shape[1], computed), shape[1])).To(computed))
		angles := do(at.Mul(frequencies))
		table := do(do(f(angles)).To(dt))
		if failed != nil {
			return nil, failed
		}
		return table.On(e), nil
	}
}

// rotaryFrequencies are the angles of one position, 1 / base^(2i/dim): of a float32 table with each step in float32, as PyTorch's are.
func rotaryFrequencies(base float64, pairs int, dt tensor.DType) []float64 {
	w := make([]float64, pairs)
	for i := range w {
		if dt == tensor.Float64 {
			w[i] = math.Pow(base, -float64(i)/float64(pairs))
		} else {
			w[i] = float64(1 / float32(math.Pow(base, float64(float32(2*i)/float32(2*pairs)))))
		}
	}
	return w
}

// Forward implements Layer: it turns x, [..., L, D], whose rows have the positions 0..L-1.
func (l *RotaryEmbeddingModule) Forward(x *autograd.Variable) *autograd.Variable { return l.At(x, 0) }

// At turns x, [..., L, D], whose rows have the positions offset..offset+L-1: those of a chunk that comes after offset others.
func (l *RotaryEmbeddingModule) At(x *autograd.Variable, offset int) *autograd.Variable {
	return within(l, x, func(g *autograd.Graph) *autograd.Variable {
		if err := l.misfit(x); err != nil {
			return g.Refuse("rotary_embedding", err, x)
		}
		n := x.Dim(-2)
		if offset < 0 || offset+n > l.maxLen {
			return g.Refuse("rotary_embedding", argumentErr(l.String(), "positions %d..%d of %d", offset, offset+n-1, l.maxLen), x)
		}
		cos, sin := param(g, l, "cos", l.cos), param(g, l, "sin", l.sin)
		return x.RotaryEmbedding(cos.Narrow(0, offset, n), sin.Narrow(0, offset, n), l.config.pairs)
	})
}

// AtPositions turns x, [..., L, D], by positions of type int64, [L], or [B, L] where each row of the batch, x's first dimension, has positions of its
// own, as KVCacheLayer.Positions are; [1, L] are those of all rows.
func (l *RotaryEmbeddingModule) AtPositions(x, positions *autograd.Variable) *autograd.Variable {
	return within(l, x, func(g *autograd.Graph) *autograd.Variable {
		if positions == nil || !x.Alive() || !positions.Alive() {
			return x.RotaryEmbedding(positions, positions, l.config.pairs) // says what is wrong
		}
		if err := l.misfit(x); err != nil {
			return g.Refuse("rotary_embedding", err, x)
		}
		if positions.NDim() == 2 && positions.Dim(0) == 1 {
			positions = positions.Squeeze(0)
		}
		n, at := x.Dim(-2), positions.NDim()
		if at < 1 || at > 2 || positions.Dim(-1) != n || at == 2 && (x.NDim() < 3 || positions.Dim(0) != x.Dim(0)) {
			return g.Refuse("rotary_embedding", shapeError(l.String(), x, "positions of %v; want [L], or [B, L] for [B, ..., L, D]", positions.Shape()), x, positions)
		}
		var tables [2]*autograd.Variable
		for i, t := range []*autograd.Variable{param(g, l, "cos", l.cos), param(g, l, "sin", l.sin)} {
			tables[i] = t.IndexSelect(0, positions.Flatten(0, -1))
			if at == 2 {
				shape := tensor.Shape{x.Dim(0)}
				for range x.NDim() - 3 {
					shape = append(shape, 1)
				}
				tables[i] = tables[i].Reshape(append(shape, n, l.dim/2)...)
			}
		}
		return x.RotaryEmbedding(tables[0], tables[1], l.config.pairs)
	})
}

// misfit refuses what has no rows of at least dim elements.
func (l *RotaryEmbeddingModule) misfit(x *autograd.Variable) error {
	if x.Alive() && (x.NDim() < 2 || x.Dim(-1) < l.dim) {
		return shapeError(l.String(), x, "want [..., L, D] with at least %d elements in a row", l.dim)
	}
	return nil
}

// String names the module and its sizes.
func (l *RotaryEmbeddingModule) String() string {
	if l == nil {
		return "nil"
	}
	return fmt.Sprintf("RotaryEmbedding(%d, max_len=%d, base=%v, interleaved=%s)", l.dim, l.maxLen, l.config.base, truth(l.config.pairs == tensor.RotaryInterleaved))
}
