package autograd

import "github.com/cistern-ml/cistern/tensor"

const indexHasNone = "an index is a number, not a quantity"

// Gather takes, for each element of index, of type int64 and v's number of dimensions, the element of v at the same place but
// along dim, where it is at the index. Saves index.
func (v *Variable) Gather(dim int, index *Variable) *Variable { return gather.apply(dim, v, index) }

var gather = define("gather", gatherForward, rule{uses: input(1), grad: gatherGrad}, notDifferentiable(indexHasNone))

func gatherForward(n *node) (*tensor.Tensor, error) {
	return n.tensor(0).Gather(n.arg.(int), n.tensor(1))
}

// gatherGrad adds g to where it was taken from, among zeros.
func gatherGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return scattered(g, n.in[0].Shape(), n.arg.(int), n.savedInput(1))
}

// scattered is g added up at the places of index, in zeros of the given shape.
func scattered(g *tensor.Tensor, shape tensor.Shape, dim int, index *tensor.Tensor) (*tensor.Tensor, error) {
	full, err := tensor.Zeros(g.Exec(), g.DType(), shape...)
	if err != nil {
		return nil, err
	}
	if err := full.ScatterAddInPlace(dim, index, g); err != nil {
		full.Release()
		return nil, err
	}
	return full, nil
}

// TakeAlongDim is Gather with v and index broadcast to each other in all dimensions but dim. Saves index.
func (v *Variable) TakeAlongDim(index *Variable, dim int) *Variable {
	return takeAlongDim.apply(dim, v, index)
}

var takeAlongDim = define("take_along_dim", takeAlongDimForward,
	rule{uses: input(1), grad: takeAlongDimGrad}, notDifferentiable(indexHasNone))

func takeAlongDimForward(n *node) (*tensor.Tensor, error) {
	return n.tensor(0).TakeAlongDim(n.tensor(1), n.arg.(int))
}

// takeAlongDimGrad is that of Gather, in the shape that v was broadcast to.
func takeAlongDimGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	dim, index := n.arg.(int), n.savedInput(1)
	if dim < 0 {
		dim += g.NDim()
	}
	wide := g.Shape().Clone()
	index, err := index.Expand(wide...)
	if err != nil {
		return nil, err
	}
	if len(wide) > 0 { // a scalar has dimensions 0 and -1 of one element
		wide[dim] = n.in[0].Dim(dim)
	}
	return after(index, func(index *tensor.Tensor) (*tensor.Tensor, error) { return scattered(g, wide, n.arg.(int), index) })
}

// Scatter is v with the elements of src put where index says: src[i, j, ..] goes to the same place but along dim, where it goes to
// index[i, j, ..]. Where several go to one place, the last one along dim wins, but each gets the gradient of that place, as
// in PyTorch. Saves index.
func (v *Variable) Scatter(dim int, index, src *Variable) *Variable {
	return scatter.apply(dim, v, index, src)
}

var scatter = define("scatter", scatterForward,
	rule{uses: input(1), grad: scatterGradInput}, notDifferentiable(indexHasNone), rule{uses: input(1), grad: scatterGradSource})

func scatterForward(n *node) (*tensor.Tensor, error) {
	return n.tensor(0).Scatter(n.arg.(int), n.tensor(1), n.tensor(2))
}

func scatterGradInput(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return g.ScatterValue(n.arg.(int), n.savedInput(1), 0)
}

func scatterGradSource(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	part, err := g.Gather(n.arg.(int), n.savedInput(1))
	if err != nil || part.Shape().Equal(n.in[2].Shape()) {
		return part, err
	}
	return after(part, func(part *tensor.Tensor) (*tensor.Tensor, error) { return cornerOf(part, n.in[2].Shape()) })
}

// cornerOf is t at the start of each dimension of zeros of the given shape: elements of a source that no index is for.
func cornerOf(t *tensor.Tensor, shape tensor.Shape) (*tensor.Tensor, error) {
	full, err := tensor.Zeros(t.Exec(), t.DType(), shape...)
	if err != nil {
		return nil, err
	}
	corner := full.Retain()
	for i := 0; err == nil && i < t.NDim(); i++ {
		larger := corner
		corner, err = larger.Narrow(i, 0, t.Dim(i))
		larger.Release()
	}
	if err == nil {
		err = corner.CopyFrom(t)
	}
	corner.Release()
	if err != nil {
		full.Release()
		return nil, err
	}
	return full, nil
}

// scatterValueArg is the argument of ScatterValue.
type scatterValueArg struct {
	dim   int
	value float64
}

// ScatterValue is Scatter of copies of value. Saves index.
func (v *Variable) ScatterValue(dim int, index *Variable, value float64) *Variable {
	return scatterValue.apply(scatterValueArg{dim, value}, v, index)
}

var scatterValue = define("scatter_value", scatterValueForward,
	rule{uses: input(1), grad: scatterValueGrad}, notDifferentiable(indexHasNone))

func scatterValueForward(n *node) (*tensor.Tensor, error) {
	a := n.arg.(scatterValueArg)
	return n.tensor(0).ScatterValue(a.dim, n.tensor(1), a.value)
}

func scatterValueGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return g.ScatterValue(n.arg.(scatterValueArg).dim, n.savedInput(1), 0)
}

// ScatterAdd is Scatter with elements added to what is there, in their order along dim. Saves index.
func (v *Variable) ScatterAdd(dim int, index, src *Variable) *Variable {
	return scatterAdd.apply(dim, v, index, src)
}

var scatterAdd = define("scatter_add", scatterAddForward,
	rule{grad: passGrad}, notDifferentiable(indexHasNone), rule{uses: input(1), grad: scatterGradSource})

func scatterAddForward(n *node) (*tensor.Tensor, error) {
	return n.tensor(0).ScatterAdd(n.arg.(int), n.tensor(1), n.tensor(2))
}

// IndexAdd is v with slice i of src, along dim, added to slice index[i], in the order of i. Saves index.
func (v *Variable) IndexAdd(dim int, index, src *Variable) *Variable {
	return indexAdd.apply(dim, v, index, src)
}

var indexAdd = define("index_add", indexAddForward,
	rule{grad: passGrad}, notDifferentiable(indexHasNone), rule{uses: input(1), grad: indexAddGradSource})

func indexAddForward(n *node) (*tensor.Tensor, error) {
	return n.tensor(0).IndexAdd(n.arg.(int), n.tensor(1), n.tensor(2))
}

func indexAddGradSource(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return g.IndexSelect(n.arg.(int), n.savedInput(1))
}

// OneHot makes of each element of v, of type int64, a vector of classes elements: 1 at the place that it names, else 0. With
// classes -1 there are as many as the greatest element needs, which waits for it.
func (v *Variable) OneHot(classes int) *Variable { return oneHot.apply(classes, v) }

var oneHot = define("one_hot", func(n *node) (*tensor.Tensor, error) { return n.tensor(0).OneHot(n.arg.(int)) },
	notDifferentiable("classes are numbers, not quantities"))
