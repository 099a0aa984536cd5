package nn

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// EmbeddingLayer looks rows up in a table.
type EmbeddingLayer struct {
	Base
	Weight *autograd.Parameter // [rows, width]
	opts   []autograd.EmbeddingOption
	pads   string // of the description
}

// PaddingIdx names the row of an embedding that starts as zeros and gets no gradient, counted from the end if it is negative.
func PaddingIdx(row int) LayerOption {
	return func(l *layer) { l.note("PaddingIdx"); l.padding = &row }
}

// Embedding makes a table of rows vectors of the given width, which start standard normal. Forward takes numbers of rows, of
// type int64 and any shape, and appends a dimension of width elements. Rows are not renormalised (PyTorch's max_norm).
func Embedding(rows, width int, opts ...LayerOption) *EmbeddingLayer {
	l := new(EmbeddingLayer)
	l.Weight, l.opts, l.pads = l.newTable("Embedding", rows, width, opts)
	l.requires("weight", &l.Weight)
	return l
}

// newTable makes the parameter of a table, and the options of its use.
func (b *Base) newTable(name string, rows, width int, opts []LayerOption) (weight *autograd.Parameter, use []autograd.EmbeddingOption, pads string) {
	c := layer{weight: Normal(0, 1)}
	c.apply(opts)
	b.refuseForeign(&c.given, name, "WeightInit PaddingIdx")
	if c.padding != nil {
		row := *c.padding
		if row < 0 {
			row += rows
		}
		use, pads = []autograd.EmbeddingOption{autograd.PaddingIdx(row)}, fmt.Sprintf(", padding_idx=%d", row)
		switch {
		case row < 0 || row >= rows:
			wrong := argumentErr("PaddingIdx", "row %d of %d rows", *c.padding, rows)
			return autograd.RefusedParameter("weight", wrong), use, pads
		case c.weight != nil:
			c.weight = withoutRow(row, c.weight)
		}
	}
	return autograd.DeclareParameter("weight", c.weight, rows, width), use, pads
}

// Forward implements Layer.
func (l *EmbeddingLayer) Forward(x *autograd.Variable) *autograd.Variable {
	return within(l, x, func(g *autograd.Graph) *autograd.Variable {
		return param(g, l, "weight", l.Weight).Embedding(x, l.opts...)
	})
}

// String is PyTorch's description.
func (l *EmbeddingLayer) String() string {
	if l == nil {
		return "nil"
	}
	return fmt.Sprintf("Embedding(%d, %d%s)", size(l.Weight, 0), size(l.Weight, 1), l.pads)
}

// withoutRow is an initializer that sets one row to zeros afterwards.
func withoutRow(row int, init autograd.Initializer) autograd.Initializer {
	return func(e tensor.Exec, gen *tensor.Generator, dt tensor.DType, shape ...int) (*tensor.Tensor, error) {
		t, err := init(e, gen, dt, shape...)
		if err != nil {
			return nil, err
		}
		r, err := t.Select(0, row)
		if err == nil {
			err = r.ZeroInPlace()
		}
		r.Release()
		if err != nil {
			t.Release()
			return nil, err
		}
		return t, nil
	}
}

// EmbeddingBagLayer makes a row of each bag of rows of a table.
type EmbeddingBagLayer struct {
	Base
	Weight *autograd.Parameter // [rows, width]
	Mode   tensor.BagMode
	opts   []autograd.EmbeddingOption
	pads   string // of the description
}

// EmbeddingBag makes a table as Embedding does, whose Forward takes numbers of rows [B, L] and gives the sum, the mean or the
// greatest of each L rows, [B, width]. PaddingIdx counts for nothing. PyTorch's default mode is tensor.BagMean.
func EmbeddingBag(rows, width int, mode tensor.BagMode, opts ...LayerOption) *EmbeddingBagLayer {
	l := &EmbeddingBagLayer{Mode: mode}
	l.Weight, l.opts, l.pads = l.newTable("EmbeddingBag", rows, width, opts)
	l.requires("weight", &l.Weight)
	return l
}

// Forward implements Layer.
func (l *EmbeddingBagLayer) Forward(x *autograd.Variable) *autograd.Variable { return l.Bags(x, nil) }

// Bags is Forward for bags of different sizes: x is [N], and offsets, of type int64, say where in it each bag begins.
func (l *EmbeddingBagLayer) Bags(x, offsets *autograd.Variable) *autograd.Variable {
	return within(l, x, func(g *autograd.Graph) *autograd.Variable {
		return param(g, l, "weight", l.Weight).EmbeddingBag(x, offsets, l.Mode, l.opts...)
	})
}

// String is PyTorch's description.
func (l *EmbeddingBagLayer) String() string {
	if l == nil {
		return "nil"
	}
	return fmt.Sprintf("EmbeddingBag(%d, %d, mode='%s'%s)", size(l.Weight, 0), size(l.Weight, 1), l.Mode, l.pads)
}
