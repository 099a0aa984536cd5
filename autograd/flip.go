package autograd

import "github.com/cistern-ml/cistern/tensor"

// The operations in this file put elements in other places. They save nothing.

// Flip reverses the order of the elements along dims.
func (v *Variable) Flip(dims ...int) *Variable { return flip.apply(dims, v) }

// copied is v in memory of its own.
func (v *Variable) copied() *Variable { return v.Flip() }

var flip = define("flip", flipForward, rule{grad: flipGrad})

func flipForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).Flip(n.arg.([]int)...) }

func flipGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return g.Flip(n.arg.([]int)...)
}

// Roll moves the elements along each of dims by the shift in the same place of shifts; what leaves at one end comes in at the other.
// Without dims it moves those of the flattened variable by one shift.
func (v *Variable) Roll(shifts, dims []int) *Variable { return roll.apply(rollArg{shifts, dims}, v) }

type rollArg struct{ shifts, dims []int }

var roll = define("roll", rollForward, rule{grad: rollGrad})

func rollForward(n *node) (*tensor.Tensor, error) {
	a := n.arg.(rollArg)
	return n.tensor(0).Roll(a.shifts, a.dims)
}

func rollGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	a := n.arg.(rollArg)
	back := make([]int, len(a.shifts))
	for i, s := range a.shifts {
		back[i] = -s
	}
	return g.Roll(back, a.dims)
}

// Tril keeps the elements of each matrix on and left of the diagonal, moved so many columns to the right; the others become 0.
func (v *Variable) Tril(diagonal int) *Variable { return tril.apply(diagonal, v) }

// Triu keeps the elements on and right of the diagonal; see Tril.
func (v *Variable) Triu(diagonal int) *Variable { return triu.apply(diagonal, v) }

var tril, triu = triangle("tril", (*tensor.Tensor).Tril), triangle("triu", (*tensor.Tensor).Triu)

func triangle(name string, f func(*tensor.Tensor, int) (*tensor.Tensor, error)) *op {
	return define(name, func(n *node) (*tensor.Tensor, error) { return f(n.tensor(0), n.arg.(int)) },
		rule{grad: func(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) { return f(g, n.arg.(int)) }})
}

// Diagonal is the elements whose places along dimensions a and b differ by offset (b is ahead if it is positive). It shares v's memory.
func (v *Variable) Diagonal(offset, a, b int) *Variable {
	return diagonal.apply([3]int{offset, a, b}, v)
}

var diagonal = define("diagonal", func(n *node) (*tensor.Tensor, error) { return diagonalOf(n.arg, n.tensor(0)) },
	partRule(diagonalOf))

func diagonalOf(arg any, t *tensor.Tensor) (*tensor.Tensor, error) {
	a := arg.([3]int)
	return t.Diagonal(a[0], a[1], a[2])
}

// DiagEmbed makes matrices of zeros with the last dimension of v on the diagonal, moved offset columns to the right.
func (v *Variable) DiagEmbed(offset int) *Variable { return diagEmbed.apply(offset, v) }

var diagEmbed = define("diag_embed", func(n *node) (*tensor.Tensor, error) { return n.tensor(0).DiagEmbed(n.arg.(int)) },
	rule{grad: func(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) { return g.Diagonal(n.arg.(int), -2, -1) }})

// Diag is the diagonal of a matrix, or a matrix with a vector on its diagonal.
func (v *Variable) Diag(offset int) *Variable {
	if v != nil && v.NDim() == 2 {
		return v.Diagonal(offset, 0, 1)
	}
	if v != nil && v.NDim() > 2 && v.check("diag") == nil {
		return v.g.Refuse("diag", &tensor.ShapeError{Op: "Diag", Shapes: []tensor.Shape{v.Shape().Clone()},
			Detail: "it takes a vector or a matrix"}, v)
	}
	return v.DiagEmbed(offset)
}

// Pad puts elements before and after those along the last dimensions, as tensor.Pad says.
func (v *Variable) Pad(pad []int, mode tensor.PadMode, value float64) *Variable {
	return padOp.apply(padArg{pad, mode, value}, v)
}

type padArg struct {
	pad   []int
	mode  tensor.PadMode
	value float64
}

var padOp = define("pad", padForward, rule{grad: padGrad})

func padForward(n *node) (*tensor.Tensor, error) {
	a := n.arg.(padArg)
	return n.tensor(0).Pad(a.pad, a.mode, a.value)
}

func padGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	a := n.arg.(padArg)
	return gradients.Pad(g, a.pad, a.mode)
}

// Repeat puts sizes[i] copies of v side by side along dimension i; there may be more sizes than dimensions, which are then in front.
func (v *Variable) Repeat(sizes ...int) *Variable { return repeat.apply(sizes, v) }

// Tile is Repeat, where sizes that are missing in front are 1.
func (v *Variable) Tile(sizes ...int) *Variable {
	for v != nil && len(sizes) < v.NDim() {
		sizes = append([]int{1}, sizes...)
	}
	return repeat.apply(sizes, v)
}

var repeat = define("repeat", func(n *node) (*tensor.Tensor, error) { return n.tensor(0).Repeat(n.arg.([]int)...) }, rule{grad: repeatGrad})

// repeatGrad sums over the copies, one dimension after the other. Dimensions in front are left to the engine.
func repeatGrad(n *node, i int, g *tensor.Tensor) (*tensor.Tensor, error) {
	sizes, shape := n.arg.([]int), n.in[i].Shape()
	if n.in[i].Len() == 0 {
		return tensor.Zeros(g.Exec(), g.DType(), shape...)
	}
	g = g.Retain()
	for d, size := range sizes {
		if own := d - (len(sizes) - len(shape)); own >= 0 && size != 1 {
			var err error
			if g, err = after(g, func(g *tensor.Tensor) (*tensor.Tensor, error) { return sumCopies(g, d, size, shape[own]) }); err != nil {
				return nil, err
			}
		}
	}
	return g, nil
}

// sumCopies sums the copies, of n elements each, of which dimension d consists.
func sumCopies(g *tensor.Tensor, d, copies, n int) (*tensor.Tensor, error) {
	var w work
	whole := g.Shape().Clone()
	before, after := whole[:d].Len(), whole[d+1:].Len()
	whole[d] = n
	split := w.do(g.Reshape(before, copies, n, after))
	sum := w.do(split.Sum([]int{1}, false))
	return w.result(sum.Reshape(whole...))
}

// RepeatInterleave puts n copies of each element side by side along dim.
func (v *Variable) RepeatInterleave(n, dim int) *Variable {
	return repeatInterleave.apply([2]int{n, dim}, v)
}

var repeatInterleave = define("repeat_interleave", func(n *node) (*tensor.Tensor, error) {
	a := n.arg.([2]int)
	return n.tensor(0).RepeatInterleave(a[0], a[1])
}, rule{grad: repeatInterleaveGrad})

func repeatInterleaveGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	a, shape := n.arg.([2]int), n.in[0].Shape()
	if shape.Len() == 0 { // of nothing there may be more copies than a shape can count
		return tensor.Zeros(g.Exec(), g.DType(), shape...)
	}
	d := a[1]
	if d < 0 {
		d += len(shape)
	}
	return inOwn(g.Reshape(shape[:d].Len(), shape[d], a[0], shape[d+1:].Len()))(func(t *tensor.Tensor) (*tensor.Tensor, error) {
		return inOwn(t.Sum([]int{2}, false))(func(s *tensor.Tensor) (*tensor.Tensor, error) { return s.Reshape(shape...) })
	})
}
