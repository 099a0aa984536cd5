package nn

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
)

// EmbeddingLayer looks rows up in a table.
type EmbeddingLayer struct {
	Base
	Weight *autograd.Parameter // [rows, width]
}

// Embedding makes a table of rows vectors of the given width, which start standard normal. Forward takes numbers of rows, of
// type int64 and any shape, and appends a dimension of width elements.
func Embedding(rows, width int, opts ...LayerOption) *EmbeddingLayer {
	c := layer{weight: Normal(0, 1)}
	for _, o := range opts {
		o(&c)
	}
	l := new(EmbeddingLayer)
	l.Weight = l.RegisterParameter(autograd.DeclareParameter("weight", c.weight, rows, width))
	return l
}

// Forward implements Module.
func (l *EmbeddingLayer) Forward(x *autograd.Variable) *autograd.Variable {
	return scope(x, func(g *autograd.Graph) *autograd.Variable { return g.Param(l.Weight).Embedding(x) })
}

// String is PyTorch's description.
func (l *EmbeddingLayer) String() string {
	return fmt.Sprintf("Embedding(%d, %d)", l.Weight.Shape()[0], l.Weight.Shape()[1])
}
