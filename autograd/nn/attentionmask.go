package nn

import (
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// AttendOption says what MultiheadAttentionLayer.Attend hides.
type AttendOption func(*attending)

// AttnMask hides keys from queries: [T, S], or [N*heads, T, S]. Of type bool it is true where a query does NOT see a key, as in
// PyTorch's layer and unlike autograd.AttnMask; of a floating-point type it is added to the scores.
func AttnMask(mask *autograd.Variable) AttendOption { return func(a *attending) { a.attn = mask } }

// KeyPaddingMask hides keys from all queries: [N, S], or [S] without a batch. Of type bool it is true where a key is padding; of a
// floating-point type it is added to the scores.
func KeyPaddingMask(mask *autograd.Variable) AttendOption {
	return func(a *attending) { a.padding = mask }
}

// IsCausal lets query t see the keys 0..t only. Unlike in PyTorch it needs no mask beside it.
func IsCausal() AttendOption { return func(a *attending) { a.causal, a.lowerRight = true, false } }

// CausalLowerRight lets the last query see all keys, and each one before it a key less (autograd.CausalLowerRight): it is for queries that
// are the last of the positions that keys and values have. Of several such options the last counts.
func CausalLowerRight() AttendOption {
	return func(a *attending) { a.causal, a.lowerRight = true, true }
}

// Cached lets x attend to the positions of a layer of a KVCache besides its own, whose keys and values it appends. It is for attention of x to
// itself without gradients, and for decoders: each position sees itself and those before it, with IsCausal or without. Masks are for all S keys, those of
// the cache first. A nil layer is no cache (past_key_values=None): then it is IsCausal, and gradients flow.
//
// In attention to a memory, which is key and value at once, keys and values of the memory are computed and kept when the layer is empty, and read from it
// afterwards; the cache holds nothing else, and Reset makes room for another memory.
func Cached(l *KVCacheLayer) AttendOption {
	return func(a *attending) {
		a.cache, a.cached = l, true
		if l == nil {
			a.causal, a.lowerRight = true, false
		}
	}
}

// CachedLayers is Cached for a stack, TransformerEncoder or TransformerDecoder: each layer uses that of its number of a cache that has as many. A decoder
// has one cache for the attention to itself and another one for that to the memory:
//
//	y := decoder.Decode(x, memory, []nn.AttendOption{nn.CachedLayers(positions)}, []nn.AttendOption{nn.CachedLayers(memories)})
//
// No cache is an error here, where Cached takes it: of a nil one it could not be told whether the attention is one to later positions too.
func CachedLayers(c *KVCache) AttendOption {
	return func(a *attending) { a.stack, a.stacked = c, true }
}

// attending is one use of the layer.
type attending struct {
	layer         *MultiheadAttentionLayer
	g             *autograd.Graph
	query         *autograd.Variable // as it was given, for errors
	batched       bool
	attn, padding *autograd.Variable
	causal        bool
	cache         *KVCacheLayer
	cached        bool               // also if cache is nil, which is none
	stack         *KVCache           // of all layers of a stack, which gives each its own as cache
	stacked       bool               // also if stack is nil
	rows          *autograd.Variable // what a position sees in a cache whose rows are of different lengths
	lowerRight    bool               // the last query sees all keys, where causal alone begins with the first of both

	batch, queries, keys int
	dtype                tensor.DType
}

// sizes notes those of the scores; v is any of the operands after the projection, with its batch, if there is one, in front.
func (a *attending) sizes(v *autograd.Variable, queries, keys int) {
	a.batch, a.queries, a.keys, a.dtype = 1, queries, keys, v.DType()
	if a.batched {
		a.batch = v.Dim(0)
	}
}

// options are those of the operation of package autograd.
func (a *attending) options() []autograd.AttentionOption {
	var opts []autograd.AttentionOption
	if p := a.layer.config.dropout; p > 0 && a.layer.Training() {
		opts = append(opts, autograd.AttnDropout(p))
	}
	if a.attn == nil && a.padding == nil && a.rows == nil {
		switch {
		case a.lowerRight:
			opts = append(opts, autograd.CausalLowerRight())
		case a.causal:
			opts = append(opts, autograd.IsCausal())
		}
		return opts
	}
	return append(opts, autograd.AttnMask(a.mask()))
}

// mask joins what hides keys: of type bool, true where a query sees a key, unless something is added to the scores.
func (a *attending) mask() *autograd.Variable {
	var seen, added *autograd.Variable
	for _, m := range []*autograd.Variable{a.shaped(a.attn, "attn_mask"), a.shapedPadding(), a.order()} {
		switch {
		case m == nil:
		case m.DType() != tensor.Bool:
			added = sum(added, m)
		case m != nil && seen == nil:
			seen = m
		default:
			seen = both(seen, m)
		}
	}
	if added == nil {
		return seen
	}
	if seen == nil {
		return added
	}
	number := func(v float64) *autograd.Variable {
		return a.g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Scalar(e.Owned(), v, added.DType()) })
	}
	return sum(added, autograd.Where(seen, number(0), number(math.Inf(-1))))
}

func sum(a, b *autograd.Variable) *autograd.Variable {
	if a == nil {
		return b
	}
	return a.Add(b)
}

// shaped is the mask of queries and keys as [N, heads, T, S], [heads, T, S] without a batch, or [T, S]; one of type bool is true where a key is seen.
func (a *attending) shaped(m *autograd.Variable, name string) *autograd.Variable {
	if m == nil {
		return nil
	}
	heads := a.layer.heads
	switch {
	case !masks(m.DType()):
		return a.refuseType(m, name)
	case m.Shape().Equal(tensor.Shape{a.queries, a.keys}):
		return seen(m)
	case m.Shape().Equal(tensor.Shape{a.batch * heads, a.queries, a.keys}):
		if !a.batched {
			return seen(m)
		}
		return seen(m).Reshape(a.batch, heads, a.queries, a.keys)
	}
	return a.refuse(m, name, tensor.Shape{a.queries, a.keys})
}

// shapedPadding is the mask of keys as [N, 1, 1, S].
func (a *attending) shapedPadding() *autograd.Variable {
	if a.padding == nil {
		return nil
	}
	want := tensor.Shape{a.keys}
	if a.batched {
		want = tensor.Shape{a.batch, a.keys}
	}
	if !masks(a.padding.DType()) {
		return a.refuseType(a.padding, "key_padding_mask")
	}
	if !a.padding.Shape().Equal(want) {
		return a.refuse(a.padding, "key_padding_mask", want)
	}
	if !a.batched {
		return seen(a.padding).Reshape(1, a.keys)
	}
	return seen(a.padding).Reshape(a.batch, 1, 1, a.keys)
}

func (a *attending) refuse(m *autograd.Variable, name string, want tensor.Shape) *autograd.Variable {
	return a.g.Refuse("attention", shapeError("MultiheadAttention", m, "%s: want %v", name, want), a.query, m)
}

// masks reports whether masks can be of a type.
func masks(dt tensor.DType) bool { return dt == tensor.Bool || dt.IsFloat() }

func (a *attending) refuseType(m *autograd.Variable, name string) *autograd.Variable {
	return a.g.Refuse("attention", &tensor.DTypeError{Op: "MultiheadAttention", DTypes: []tensor.DType{m.DType()},
		Detail: name + " is of type bool, or of a floating-point type to be added to the scores"}, a.query, m)
}

// order is the mask of IsCausal or CausalLowerRight, where it must be joined with others.
func (a *attending) order() *autograd.Variable {
	if a.rows != nil || !a.causal {
		return a.rows
	}
	first := 0 // the last key that the first query sees
	if a.lowerRight {
		first = a.keys - a.queries
	}
	return a.g.New(func(e tensor.Exec) (*tensor.Tensor, error) {
		e = e.Owned()
		t, err := tensor.Arange(e, float64(first), float64(first+a.queries), 1, tensor.Int64)
		if err != nil {
			return nil, err
		}
		defer t.Release()
		s, err := tensor.Arange(e, 0, float64(a.keys), 1, tensor.Int64)
		if err != nil {
			return nil, err
		}
		defer s.Release()
		rows, err := t.Unsqueeze(1)
		if err != nil {
			return nil, err
		}
		defer rows.Release()
		return rows.Ge(s)
	})
}

// seen turns a mask of type bool, which is true where keys are hidden.
func seen(m *autograd.Variable) *autograd.Variable {
	if m.DType() != tensor.Bool {
		return m
	}
	return m.Graph().New(func(tensor.Exec) (*tensor.Tensor, error) {
		t, err := m.Tensor()
		if err != nil {
			return nil, err
		}
		return t.Not()
	})
}

// both is true where both masks are.
func both(m, n *autograd.Variable) *autograd.Variable {
	return m.Graph().New(func(tensor.Exec) (*tensor.Tensor, error) {
		t, err := m.Tensor()
		if err != nil {
			return nil, err
		}
		u, err := n.Tensor()
		if err != nil {
			return nil, err
		}
		return t.And(u)
	})
}
