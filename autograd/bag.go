package autograd

import (
	"fmt"

	"github.com/cistern-ml/cistern/internal/plural"
	"github.com/cistern-ml/cistern/tensor"
)

// bagArg is the argument of EmbeddingBag.
type bagArg struct {
	embeddingArg
	mode tensor.BagMode
}

// EmbeddingBag makes a row of each bag of rows of v, [rows, width]: their sum, mean, or the greatest of each column. index, of
// type int64, names the rows: [N] with offsets [B], which say where in it each bag begins, or [B, L] without (nil). PaddingIdx names a row that counts
// for nothing. A bag of no rows gives zeros. The rows are not copied. Saves index and offsets and, for means, the number of rows
// of each bag; for the greatest, which rows they were.
func (v *Variable) EmbeddingBag(index, offsets *Variable, mode tensor.BagMode, opts ...EmbeddingOption) *Variable {
	a := bagArg{mode: mode}
	for _, o := range opts {
		if o != nil {
			o(&a.embeddingArg)
		}
	}
	if offsets == nil && v.Alive() && index.Alive() && index.NDim() != 2 {
		return v.g.Refuse("embedding_bag", &tensor.ShapeError{Op: "EmbeddingBag", Shapes: []tensor.Shape{v.Shape().Clone(), index.Shape().Clone()},
			Detail: fmt.Sprintf("the index has %s; want [B, L] without offsets, or [N] with them", plural.Of(index.NDim(), "dimension"))}, v, index)
	}
	if v == nil || index == nil || offsets != nil || !index.Alive() || index.NDim() != 2 {
		return embeddingBag.apply(a, v, index, offsets)
	}
	return v.g.namedOne(embeddingBag.name, []*Variable{v, index}, func() *Variable {
		bags, each := index.Dim(0), index.Dim(1)
		begins := v.g.New(func(e tensor.Exec) (*tensor.Tensor, error) {
			if each == 0 {
				return tensor.Zeros(e.Owned(), tensor.Int64, bags)
			}
			return tensor.Arange(e.Owned(), 0, float64(bags*each), float64(each), tensor.Int64)
		})
		return embeddingBag.apply(a, v, index.Reshape(bags*each), begins)
	})
}

var embeddingBag = define("embedding_bag", embeddingBagForward,
	rule{uses: input(1) | input(2) | stash, grad: embeddingBagGrad}, notDifferentiable(indexHasNone), notDifferentiable(indexHasNone))

func embeddingBagForward(n *node) (*tensor.Tensor, error) {
	a, table := n.arg.(bagArg), n.tensor(0)
	padding, err := a.row(table.Dim(0))
	if err != nil {
		return nil, err
	}
	out, extra, err := tensor.EmbeddingBag(table, n.tensor(1), n.tensor(2), a.mode, padding)
	if err != nil {
		return nil, err
	}
	if extra != nil {
		n.stash(extra)
	}
	return out, nil
}

func embeddingBagGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	a, rows := n.arg.(bagArg), n.in[0].Dim(0)
	padding, err := a.row(rows)
	if err != nil {
		return nil, err
	}
	return gradients.EmbeddingBag(g, n.savedInput(1), n.savedInput(2), n.stashed(0), rows, a.mode, padding)
}
