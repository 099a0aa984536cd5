package sparse

import (
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// MatMul is the product of the sparse matrix with x [cols, ...], as [rows, ...] (torch.sparse.mm): row i is the sum of value*x[col] over the elements
// of row i. values is [elements], or nil for ones; with [elements, heads] the matrix of each head is multiplied with its x[:, head], of x [cols, heads, ...].
func (p *Pattern) MatMul(values, x *autograd.Variable) *autograd.Variable {
	return p.multiply("sparse.MatMul", values, x, false)
}

// MatMulT is the product of the transposed matrix with x [rows, ...], as [cols, ...].
func (p *Pattern) MatMulT(values, x *autograd.Variable) *autograd.Variable {
	return p.multiply("sparse.MatMulT", values, x, true)
}

func (p *Pattern) multiply(op string, values, x *autograd.Variable, transposed bool) *autograd.Variable {
	return p.scoped(op, func(g *autograd.Graph) *autograd.Variable {
		if values != nil {
			if refusal := p.elements(g, op, values); refusal != nil {
				return refusal
			}
			if len(values.Shape()) > len(x.Shape()) {
				return refuse(g, op, "there are more dimensions of values than of x", values, x)
			}
		}
		from, to := p.gather, p.add
		if transposed {
			from, to = p.gatherT, p.addT
		}
		sent := from(g, op, x)
		if values != nil {
			sent = sent.Mul(spread(values, len(x.Shape())))
		}
		return to(g, sent)
	}, x, values)
}

// spread gives values dimensions of size 1 until there are n.
func spread(values *autograd.Variable, n int) *autograd.Variable {
	for range n - len(values.Shape()) {
		values = values.Unsqueeze(-1)
	}
	return values
}

// scoped runs f in the graph of the first variable that is there.
func (p *Pattern) scoped(op string, f func(g *autograd.Graph) *autograd.Variable, in ...*autograd.Variable) *autograd.Variable {
	var g *autograd.Graph
	for _, v := range in {
		if g == nil {
			g = v.Graph()
		}
	}
	if g == nil {
		return nil
	}
	if p == nil || p.row == nil {
		return g.Refuse(op, refused(op, "the pattern is nil, or was not made by CSR or COO"), in...)
	}
	if in[0] == nil {
		return g.Refuse(op, fmt.Errorf("its operand is nil: %w", autograd.ErrNilVariable))
	}
	return g.Scope(func() *autograd.Variable {
		if g.Err() != nil {
			return in[0]
		}
		return f(g)
	})
}

func refuse(g *autograd.Graph, op, detail string, in ...*autograd.Variable) *autograd.Variable {
	var shapes []tensor.Shape
	for _, v := range in {
		shapes = append(shapes, v.Shape())
	}
	return g.Refuse(op, &tensor.ShapeError{Op: op, Shapes: shapes, Detail: detail}, in...)
}

// elements refuses what does not have one for each element.
func (p *Pattern) elements(g *autograd.Graph, op string, v *autograd.Variable) *autograd.Variable {
	if shape := v.Shape(); len(shape) == 0 || shape[0] != p.Len() {
		return refuse(g, op, fmt.Sprintf("the first dimension must be that of the %d elements", p.Len()), v)
	}
	return nil
}

// gather is x of the column of each element, gatherT of its row.
func (p *Pattern) gather(g *autograd.Graph, op string, x *autograd.Variable) *autograd.Variable {
	return selected(g, op, x, p.col, p.cols)
}

func (p *Pattern) gatherT(g *autograd.Graph, op string, x *autograd.Variable) *autograd.Variable {
	return selected(g, op, x, p.row, p.rows)
}

func selected(g *autograd.Graph, op string, x *autograd.Variable, at *tensor.Tensor, size int) *autograd.Variable {
	if shape := x.Shape(); len(shape) == 0 || shape[0] != size {
		return refuse(g, op, fmt.Sprintf("the first dimension must be %d, as the pattern has it", size), x)
	}
	return x.IndexSelect(0, g.Input(at))
}

// add sums what elements have into their rows, addT into their columns.
func (p *Pattern) add(g *autograd.Graph, sent *autograd.Variable) *autograd.Variable {
	return summed(g, sent, p.row, p.rows)
}

func (p *Pattern) addT(g *autograd.Graph, sent *autograd.Variable) *autograd.Variable {
	return summed(g, sent, p.col, p.cols)
}

func summed(g *autograd.Graph, sent *autograd.Variable, at *tensor.Tensor, size int) *autograd.Variable {
	shape := append([]int{size}, sent.Shape()[1:]...)
	return g.Zeros(sent.DType(), shape...).IndexAdd(0, g.Input(at), sent)
}

// OfCols is x[col] for each element, of x [cols, ...]: what the sources of edges have. OfRows is x[row].
func (p *Pattern) OfCols(x *autograd.Variable) *autograd.Variable {
	const op = "sparse.OfCols"
	return p.scoped(op, func(g *autograd.Graph) *autograd.Variable { return p.gather(g, op, x) }, x)
}

// OfRows is x[row] for each element, of x [rows, ...]: what the targets of edges have.
func (p *Pattern) OfRows(x *autograd.Variable) *autograd.Variable {
	const op = "sparse.OfRows"
	return p.scoped(op, func(g *autograd.Graph) *autograd.Variable { return p.gatherT(g, op, x) }, x)
}

// SumRows sums values [elements, ...] over each row, as [rows, ...]: of ones it is the degree of a node.
func (p *Pattern) SumRows(values *autograd.Variable) *autograd.Variable {
	const op = "sparse.SumRows"
	return p.scoped(op, func(g *autograd.Graph) *autograd.Variable {
		if refusal := p.elements(g, op, values); refusal != nil {
			return refusal
		}
		return p.add(g, values)
	}, values)
}

// Softmax is the softmax of values [elements, ...] over each row (torch.sparse.softmax along dimension 1): the attention of graph networks.
func (p *Pattern) Softmax(values *autograd.Variable) *autograd.Variable {
	const op = "sparse.Softmax"
	return p.scoped(op, func(g *autograd.Graph) *autograd.Variable {
		if refusal := p.elements(g, op, values); refusal != nil {
			return refusal
		}
		greatest := g.NoGrad(func() *autograd.Variable {
			shape := values.Shape()
			index := spread(g.Input(p.row), len(shape)).Expand(shape...)
			none := g.Full(math.Inf(-1), values.DType(), append([]int{p.rows}, shape[1:]...)...)
			return none.ScatterReduce(0, index, values, tensor.ScatterMax, true).IndexSelect(0, g.Input(p.row))
		})
		e := values.Sub(greatest).Exp()
		return e.Div(p.add(g, e).IndexSelect(0, g.Input(p.row)))
	}, values)
}

// Dense is the matrix [rows, cols, ...] with values [elements, ...], and zeros elsewhere.
func (p *Pattern) Dense(values *autograd.Variable) *autograd.Variable {
	const op = "sparse.Dense"
	return p.scoped(op, func(g *autograd.Graph) *autograd.Variable {
		if refusal := p.elements(g, op, values); refusal != nil {
			return refusal
		}
		place := g.Input(p.row).MulScalar(float64(p.cols)).Add(g.Input(p.col))
		rest := values.Shape()[1:].Clone()
		flat := g.Zeros(values.DType(), append([]int{p.rows * p.cols}, rest...)...).IndexAdd(0, place, values)
		return flat.Reshape(append([]int{p.rows, p.cols}, rest...)...)
	}, values)
}
