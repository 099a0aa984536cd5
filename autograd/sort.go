package autograd

import "github.com/cistern-ml/cistern/tensor"

// choice is the argument of operations that take elements along a dimension and tell where they were.
type choice struct {
	dim, k  int
	flag    bool           // keep, descending or largest
	drops   bool           // the dimension was dropped from the result
	indices *tensor.Tensor // made by forward, for the caller
}

// MaxDim is the largest element along dim, and its index, of type int64: the first of several (torch.max with a dimension). The gradient
// goes to that element. keep leaves the dimension with one element. Saves the indices.
func (v *Variable) MaxDim(dim int, keep bool) (values, indices *Variable) {
	return maxDim.choose(&choice{dim: dim, flag: keep, drops: !keep}, v)
}

// MinDim is the smallest element along dim, and its index; see MaxDim.
func (v *Variable) MinDim(dim int, keep bool) (values, indices *Variable) {
	return minDim.choose(&choice{dim: dim, flag: keep, drops: !keep}, v)
}

// Sort puts the elements along dim in ascending order, or descending, and tells where each was, as int64. Equal elements keep their
// order, and NaN is the largest. Saves the indices.
func (v *Variable) Sort(dim int, descending bool) (values, indices *Variable) {
	return sortOp.choose(&choice{dim: dim, flag: descending}, v)
}

// TopK is the k largest elements along dim, or the smallest, in order, and where they are, as int64. Saves the indices.
func (v *Variable) TopK(k, dim int, largest bool) (values, indices *Variable) {
	return topK.choose(&choice{dim: dim, k: k, flag: largest}, v)
}

// ArgSort is the indices of Sort.
func (v *Variable) ArgSort(dim int, descending bool) *Variable {
	return argSort.apply(along{dim, descending}, v)
}

var (
	maxDim = choosing("max", func(t *tensor.Tensor, c *choice) (a, b *tensor.Tensor, err error) { return t.MaxDim(c.dim, c.flag) })
	minDim = choosing("min", func(t *tensor.Tensor, c *choice) (a, b *tensor.Tensor, err error) { return t.MinDim(c.dim, c.flag) })
	sortOp = choosing("sort", func(t *tensor.Tensor, c *choice) (a, b *tensor.Tensor, err error) { return t.Sort(c.dim, c.flag) })
	topK   = choosing("topk", func(t *tensor.Tensor, c *choice) (a, b *tensor.Tensor, err error) { return t.TopK(c.k, c.dim, c.flag) })

	argSort = define("argsort", func(n *node) (*tensor.Tensor, error) {
		a := n.arg.(along)
		return n.tensor(0).ArgSort(a.dim, a.keep)
	}, notDifferentiable(steps))
)

// choosing defines an operation whose forward also makes indices: the node saves them, and the caller gets another handle.
func choosing(name string, f func(t *tensor.Tensor, c *choice) (values, indices *tensor.Tensor, err error)) *op {
	forward := func(n *node) (*tensor.Tensor, error) {
		c := n.arg.(*choice)
		values, indices, err := f(n.tensor(0), c)
		if err != nil {
			return nil, err
		}
		c.indices = indices.Retain()
		n.stash(indices)
		return values, nil
	}
	return define(name, forward, rule{uses: stash, grad: chosenGrad})
}

// choose runs the operation and makes a variable of the indices.
func (o *op) choose(c *choice, v *Variable) (values, indices *Variable) {
	values = o.apply(c, v)
	if c.indices == nil { // it failed
		return values, values
	}
	return values, v.g.newVariable(c.indices)
}

// chosenGrad puts g where the elements came from, among zeros. No index stands twice along the dimension.
func chosenGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	c, indices := n.arg.(*choice), n.stashed(0)
	if c.drops && n.in[0].NDim() > 0 {
		dim := c.dim
		if dim < 0 {
			dim += n.in[0].NDim()
		}
		g, indices = w.do(g.Unsqueeze(dim)), w.do(indices.Unsqueeze(dim))
	}
	return w.result(changed(func() (*tensor.Tensor, error) { return tensor.Zeros(n.g.exec, n.in[0].dtype, n.in[0].Shape()...) },
		func(t *tensor.Tensor) error { return t.ScatterInPlace(c.dim, indices, g) }))
}
