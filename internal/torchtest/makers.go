package torchtest

import (
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/internal/elementwise"
	"github.com/cistern-ml/cistern/tensor"
)

// maker adds one or more steps to a program.
type maker func(g *generator)

// times repeats a maker, so that it is chosen more often.
func times(n int, m maker) []maker { return slices.Repeat([]maker{m}, n) }

// Each operation has its makers; those of several operations choose among them.
var (
	bothMakers = slices.Concat(
		times(14, unary), times(6, ofTable), times(4, parametrised), times(12, scalars), times(14, binary), times(10, reductions), times(6, alongDim), times(16, views), times(8, moves),
		times(6, joins), times(6, indexing), times(8, products), times(4, blends), times(2, casts), times(3, convolutions), times(3, pools), times(5, inPlace))
	graphMakers = slices.Concat(bothMakers, commonMakers, composedMakers, rareMakers, times(3, norms), times(7, losses), times(2, attention), times(2, tables), times(14, layers), times(1, hooks))
	// Under autocast only what PyTorch casts alike on the processor and on CUDA devices, whose lists are ours.
	castMakers  = slices.Concat(times(3, castProducts), times(5, views), times(2, castExact))
	eagerMakers = slices.Concat(bothMakers, times(10, eagerOnly), times(8, inPlace), times(3, bitwise))
)

// unaries and binaries are operations of one and of two variables.
var (
	unaries = []string{
		"Abs", "Ceil", "Cos", "Erf", "Exp", "Expm1", "Floor", "IsFinite", "IsInf", "IsNaN", "Log", "Log1p", "Neg", "Not", "ReLU", "Reciprocal", "Round",
		"Rsqrt", "Sigmoid", "Sign", "Sin", "Sqrt", "Tanh", "Trunc", "Contiguous", "GELU", "GELUTanh", "SiLU", "ReLU6",
	}
	binaries = []string{
		"Add", "Add", "Sub", "Mul", "Mul", "Div", "Pow", "Maximum", "Minimum", "Fmod", "Remainder", "And", "Or", "Xor", "Eq", "Ne", "Lt", "Le", "Gt", "Ge",
	}
)

func unary(g *generator) {
	v := g.any()
	op := oneOf(g, unaries...)
	if g.special > 0 && (op == "GELUTanh" || op == "ReLU6") {
		v = g.still(v) // as below; and far from 0 the squares in PyTorch's gradient of GELUTanh overflow
	}
	if !v.float() && slices.Contains([]string{"GELU", "GELUTanh", "SiLU", "ReLU6"}, op) {
		v = g.float()
	}
	g.call(op, v.name)
}

// tableOps are the operations of package elementwise that have no maker here, and no function in testdata/torch.py, but for the table.
var tableOps = slices.DeleteFunc(slices.Clone(elementwise.Ops), func(o elementwise.Op) bool {
	return o.ByHand != 0 || len(o.Scalars) > 0 || slices.Contains(unaries, o.Name) || slices.Contains(binaries, o.Name)
})

// ofTable calls one of them. Its gradients at infinities and NaN are PyTorch's formulas, of which there may be several.
func ofTable(g *generator) {
	o := oneOf(g, tableOps...)
	v := g.any()
	if o.Types == elementwise.OnlyFloats && !v.float() && !g.chance(0.1) {
		v = g.float()
	}
	if g.special > 0 {
		v = g.still(v)
		if o.Name == "Hardswish" {
			return // PyTorch's product overflows where the result is a number
		}
	}
	if o.Second == "" {
		g.call(o.Name, v.name)
		return
	}
	u := g.info(g.broadcast(v))
	if g.special > 0 || v.dtype == tensor.Bool || u.dtype == tensor.Bool { // PyTorch's gradients negate bools, which it refuses
		v, u = g.still(v), g.still(u)
	}
	g.call(o.Name, v.name, u.name)
}

func parametrised(g *generator) {
	v := g.float()
	kind := g.IntN(12)
	if g.special > 0 && (kind == 0 || kind == 3 || kind > 5) {
		v = g.still(v) // the gradients of ELU and Hardtanh at NaN are not the same in all of PyTorch's loops
	}
	switch kind {
	case 0:
		g.call("ELU", v.name, oneOf(g, 1.0, 0.5, 2))
	case 1:
		g.call("LeakyReLU", v.name, oneOf(g, 0.01, 0.25, 0, 1.5))
	case 2:
		g.call("Softplus", v.name, oneOf(g, 1.0, 2, 0.5), oneOf(g, 20.0, 1, 3))
	case 3:
		g.call("Hardtanh", v.name, oneOf(g, -1.0, -0.5, 0), oneOf(g, 1.0, 0.5, 2))
	case 4:
		v = g.any()
		g.call("Clamp", v.name, oneOf[any](g, -1, -0.5, "-inf", 0, 1), oneOf[any](g, 1, 0.5, 3, 2))
	case 6:
		g.call("CELU", v.name, oneOf(g, 1.0, 0.5, 2))
	case 7:
		g.call("Hardshrink", v.name, oneOf(g, 0.5, 0, 1))
	case 8:
		g.call("Softshrink", v.name, oneOf(g, 0.5, 0, 1))
	case 9:
		g.call("Threshold", v.name, oneOf(g, 0.5, 0, -1), oneOf(g, 0, 2, -3))
	case 10:
		g.call("Logit", v.name, oneOf(g, -1, 0.125, 0.4))
	case 11:
		g.call("Polygamma", v.name, oneOf(g, 1, 2, 3))
	case 5:
		g.call("LerpScalar", v.name, g.like(v.dtype, g.narrower(v.shape)), oneOf(g, 0.3, 0, 1, 0.5, 0.75))
	}
}

func scalars(g *generator) {
	v := g.any()
	op := oneOf(g, "AddScalar", "SubScalar", "MulScalar", "DivScalar", "PowScalar", "RSubScalar", "RDivScalar", "RPowScalar", "FmodScalar", "RemainderScalar",
		"EqScalar", "NeScalar", "LtScalar", "LeScalar", "GtScalar", "GeScalar")
	s := g.number()
	if v.dtype == tensor.Uint8 {
		s = g.IntN(5) // PyTorch wraps numbers that uint8 does not hold
	}
	if op == "PowScalar" && g.chance(0.6) {
		s = oneOf[any](g, 2, 3, 0.5, -1, 1, 0, -2)
	}
	g.call(op, v.name, s)
}

func binary(g *generator) {
	v := g.any()
	op := oneOf(g, binaries...)
	a, b := v.name, g.broadcast(v)
	if g.chance(0.3) {
		a, b = b, a
	}
	g.call(op, a, b)
}

func reductions(g *generator) {
	v := g.any()
	dims, keep := g.dimList(v), g.chance(0.5)
	switch op := oneOf(g, "Sum", "Sum", "Mean", "Prod", "Max", "Min", "Any", "All", "ArgMax", "ArgMin", "Var", "Std", "Norm", "LogSumExp", "CountNonzero", "MaxDim", "MinDim"); op {
	case "ArgMax", "ArgMin", "MaxDim", "MinDim":
		g.call(op, v.name, g.dim(v), keep)
	case "Var", "Std":
		v, correction := g.fit(v), oneOf(g, 1, 1, 0, 2)
		if dims == nil && product(v.shape) <= correction {
			v = g.still(v) // PyTorch's gradient is another one than along dimensions, or an error
		}
		g.call(op, v.name, dims, correction, keep)
	case "Prod":
		if g.special > 0 {
			v = g.still(v) // PyTorch divides the product by each element, and it overflows in float32
		}
		g.call(op, v.name, dims, keep)
	case "Norm":
		g.call(op, g.fit(v).name, oneOf[any](g, 2, 2, 1, 0, 3, "inf", "-inf", 0.5), dims, keep)
	case "CountNonzero":
		if dims == nil {
			dims = []int{}
		}
		g.call(op, v.name, dims)
	case "Mean", "LogSumExp":
		g.call(op, g.fit(v).name, dims, keep)
	default:
		g.call(op, v.name, dims, keep)
	}
}

// still is v without a gradient.
func (g *generator) still(v value) value {
	if g.p.Eager || g.ended {
		return v
	}
	name, _ := g.call("Detach", v.name)
	return g.info(name)
}

// fit is v, or most times, if it is of no floating-point type, v converted.
func (g *generator) fit(v value) value {
	if v.float() || g.chance(0.1) {
		return v
	}
	name, _ := g.call("To", v.name, g.main)
	return g.info(name)
}

func alongDim(g *generator) {
	v := g.dims(0, 4)
	d := g.dim(v)
	switch op := oneOf(g, "Softmax", "LogSoftmax", "CumSum", "CumProd", "Sort", "ArgSort", "TopK"); op {
	case "Softmax", "LogSoftmax":
		g.call(op, g.fit(v).name, d)
	case "Sort", "ArgSort":
		g.call(op, v.name, d, g.chance(0.5))
	case "TopK":
		n := 1
		if k := (d%max(len(v.shape), 1) + len(v.shape)) % max(len(v.shape), 1); len(v.shape) > 0 {
			n = v.shape[k]
		}
		g.call(op, v.name, g.IntN(n+1), d, g.chance(0.5))
	case "CumProd":
		if g.special > 0 {
			v = g.still(v) // PyTorch divides by each element in the gradient, so that NaN comes of NaN
		}
		g.call(op, v.name, d)
	default:
		g.call(op, v.name, d)
	}
}

// views are operations that copy nothing.
func views(g *generator) {
	v := g.dims(0, 5)
	n := len(v.shape)
	switch g.IntN(19) {
	case 0:
		g.call("Transpose", v.name, g.dim(v), g.dim(v))
	case 1:
		g.call("SwapAxes", v.name, g.dim(v), g.dim(v))
	case 2:
		p := g.Perm(n)
		for i := range p {
			p[i] -= n * g.IntN(2)
		}
		g.call("Permute", v.name, p)
	case 3:
		d := g.dim(v)
		if n == 0 || d >= n {
			return
		}
		size := v.shape[(d+n)%n]
		start := g.IntN(size + 1)
		g.call("Narrow", v.name, d, start, g.IntN(size-start+1))
	case 4:
		d := g.dim(v)
		if n == 0 || d >= n || v.shape[(d+n)%n] == 0 {
			return
		}
		size := v.shape[(d+n)%n]
		g.call("Select", v.name, d, g.IntN(2*size)-size)
	case 5, 6:
		if n == 0 {
			return
		}
		g.call("Slice", v.name, g.IntN(2*n)-n, g.IntN(9)-4, oneOf(g, g.IntN(9)-3, 100), 1+g.IntN(3))
	case 7:
		g.call("Squeeze", v.name, oneOf(g, []int{}, []int{g.dim(v)}))
	case 8:
		g.call("Unsqueeze", v.name, g.IntN(2*n+2)-n-1)
	case 9:
		shape := slices.Clone(v.shape)
		for i, s := range shape {
			if s == 1 && g.chance(0.6) {
				shape[i] = g.IntN(4)
			} else if g.chance(0.2) {
				shape[i] = -1
			}
		}
		if g.chance(0.3) {
			shape = append([]int{2}, shape...)
		}
		g.call("Expand", v.name, shape)
	case 10, 11:
		g.call(oneOf(g, "Reshape", "Reshape", "View"), v.name, g.reshaped(v.shape))
	case 12:
		a, b := 0, -1
		if n > 1 {
			a = g.IntN(n)
			b = a + g.IntN(n-a)
		}
		g.call("Flatten", v.name, a, b)
	case 13:
		g.call("Split", v.name, 1+g.IntN(3), g.dim(v))
	case 14:
		g.call("Chunk", v.name, 1+g.IntN(3), g.dim(v))
	case 15:
		if n == 0 {
			return
		}
		d := g.IntN(n)
		a := g.IntN(v.shape[d] + 1)
		g.call("SplitSizes", v.name, []int{a, v.shape[d] - a}, d)
	case 16:
		g.call("Unbind", v.name, g.dim(v))
	case 17:
		if n < 2 {
			return
		}
		p := g.Perm(n)
		g.call("Diagonal", v.name, g.IntN(5)-2, p[0], p[1])
	case 18:
		if n > 2 {
			g.call("MoveDim", v.name, g.dim(v), g.dim(v))
			return
		}
		g.call("T", v.name)
	}
}

// reshaped is another shape of as many elements.
func (g *generator) reshaped(shape []int) []int {
	n := product(shape)
	if n == 0 {
		return slices.Clone(shape)
	}
	var s []int
	for n > 1 && len(s) < 4 {
		f := 2
		for n%f != 0 {
			f++
		}
		if g.chance(0.4) {
			f = n
		}
		s = append(s, f)
		n /= f
	}
	if n > 1 {
		s = append(s, n)
	}
	if g.chance(0.3) {
		s = slices.Insert(s, g.IntN(len(s)+1), 1)
	}
	if len(s) > 0 && g.chance(0.2) {
		s[g.IntN(len(s))] = -1
	}
	if s == nil {
		s = []int{}
	}
	return s
}

// moves are operations that put elements elsewhere.
func moves(g *generator) {
	v := g.dims(0, 4)
	n := len(v.shape)
	switch g.IntN(11) {
	case 0:
		g.call("Flip", v.name, g.Perm(n)[:g.IntN(n+1)])
	case 1:
		if n == 0 || g.chance(0.2) {
			g.call("Roll", v.name, []int{g.IntN(7) - 3}, nil)
			return
		}
		p := g.Perm(n)[:1+g.IntN(n)]
		shifts := make([]int, len(p))
		for i := range shifts {
			shifts[i] = g.IntN(9) - 4
		}
		g.call("Roll", v.name, shifts, p)
	case 2, 3:
		if n < 2 {
			return
		}
		g.call(oneOf(g, "Tril", "Triu"), v.name, g.IntN(5)-2)
	case 4:
		if n == 0 || n > 3 {
			return
		}
		g.call("DiagEmbed", v.name, g.IntN(5)-2)
	case 5:
		if n == 1 || n == 2 {
			g.call("Diag", v.name, g.IntN(5)-2)
		}
	case 6:
		sizes := make([]int, n+g.IntN(2))
		for i := range sizes {
			sizes[i] = oneOf(g, 1, 1, 2, 3, 0)
		}
		g.call("Repeat", v.name, sizes)
	case 7:
		sizes := make([]int, g.IntN(n+2))
		for i := range sizes {
			sizes[i] = oneOf(g, 1, 2, 2, 3)
		}
		g.call("Tile", v.name, sizes)
	case 8:
		g.call("RepeatInterleave", v.name, g.IntN(4), g.dim(v))
	case 9:
		pad := make([]int, 2*g.IntN(n+1))
		for i := range pad {
			pad[i] = g.IntN(4) - 1
		}
		g.call("Pad", v.name, pad, int(tensor.PadConstant), g.IntN(3))
	case 10:
		v = g.floats(1, 3)
		pad := make([]int, 2*(1+g.IntN(min(len(v.shape), 3))))
		for i := range pad {
			pad[i] = g.IntN(3)
		}
		g.call("Pad", v.name, pad, 1+g.IntN(3), 0)
	}
}

func joins(g *generator) {
	v := g.dims(0, 4)
	switch g.IntN(4) {
	case 0, 1:
		if len(v.shape) == 0 {
			return
		}
		d := g.IntN(len(v.shape))
		list := []any{v.name}
		for range g.IntN(3) {
			shape := slices.Clone(v.shape)
			shape[d] = g.size()
			dt := v.dtype
			if g.chance(0.2) {
				dt = dtypes[g.dtype()]
			}
			list = append(list, g.like(dt, shape))
		}
		g.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		g.call("Cat", list, d-len(v.shape)*g.IntN(2))
	case 2:
		list := []any{v.name}
		for range g.IntN(3) {
			list = append(list, g.like(v.dtype, v.shape))
		}
		g.call("Stack", list, g.IntN(2*len(v.shape)+2)-len(v.shape)-1)
	case 3:
		cond := g.pick(func(c value) bool {
			_, err := tensor.BroadcastShapes(v.shape, c.shape)
			return c.dtype == tensor.Bool && err == nil
		}, func() string { return g.input("bool", g.narrower(v.shape)) })
		a, b := v.name, g.broadcast(v)
		if g.chance(0.5) {
			a, b = b, a
		}
		switch {
		case g.chance(0.2):
			g.call("WhereScalar", cond.name, v.name, oneOf(g, 0, 1, 0.5, 2))
		case g.chance(0.2):
			g.call("RWhereScalar", cond.name, oneOf(g, 0, 1, 0.5, 2), v.name)
		default:
			g.call("Where", cond.name, a, b)
		}
	}
}

func indexing(g *generator) {
	v := g.dims(1, 3)
	n := len(v.shape)
	d := g.IntN(n)
	size := v.shape[d]
	if size == 0 {
		return
	}
	index := func(shape []int) string { return g.integers("int64", shape, size) }
	other := slices.Clone(v.shape)
	other[d] = g.IntN(5)
	switch g.IntN(10) {
	case 0, 1:
		g.call("IndexSelect", v.name, d, index([]int{g.IntN(5)}))
	case 2:
		g.call("Gather", v.name, d, index(g.smaller(v.shape, d)))
	case 3:
		shape := g.narrower(other)
		for len(shape) < n {
			shape = append([]int{1}, shape...)
		}
		g.call("TakeAlongDim", v.name, index(shape), d)
	case 4:
		shape := g.smaller(v.shape, d)
		if shape[d] = g.IntN(2); g.p.Eager || g.chance(0.5) { // several for one place leave it open which wins
			shape[d] = min(1, shape[d])
		}
		g.call("Scatter", v.name, d, index(shape), g.like(v.dtype, shape))
	case 5:
		g.call("ScatterValue", v.name, d, index(g.smaller(v.shape, d)), oneOf(g, 0, 1, 2))
	case 6:
		if v.float() {
			shape := g.smaller(v.shape, d)
			g.call("ScatterAdd", v.name, d, index(shape), g.like(v.dtype, shape))
		}
	case 7:
		if v.float() {
			g.call("IndexAdd", v.name, d, index([]int{other[d]}), g.like(v.dtype, other))
		}
	case 8:
		g.call("OneHot", g.integers("int64", g.shape(0, 3), 4), oneOf(g, 4, 6, -1))
	case 9:
		mask := g.input("bool", g.narrower(v.shape))
		g.call("MaskedFill", v.name, mask, oneOf[any](g, 0, 1, 2))
	}
}

// smaller is a shape for indices: no larger but along d.
func (g *generator) smaller(shape []int, d int) []int {
	s := slices.Clone(shape)
	for i := range s {
		if i == d {
			s[i] = g.IntN(5)
		} else if s[i] > 0 && g.chance(0.3) {
			s[i] = 1 + g.IntN(s[i])
		}
	}
	return s
}

func products(g *generator) {
	switch g.IntN(12) {
	case 0, 1, 2:
		v := g.floats(1, 4)
		k := v.shape[len(v.shape)-1]
		var shape []int
		switch {
		case g.chance(0.2):
			shape = []int{k}
		case len(v.shape) > 2 && g.chance(0.6):
			shape = append(g.narrower(v.shape[:len(v.shape)-2]), k, g.size())
		default:
			shape = []int{k, g.size()}
		}
		g.call("MatMul", v.name, g.like(v.dtype, shape))
	case 3:
		v := g.floats(1, 1)
		if g.chance(0.5) {
			g.call("Outer", v.name, g.like(v.dtype, []int{g.size()}))
		} else {
			g.call("Dot", v.name, g.like(v.dtype, v.shape))
		}
	case 4:
		v := g.floats(2, 2)
		g.call("MM", v.name, g.like(v.dtype, []int{v.shape[1], g.size()}))
	case 5:
		v := g.floats(2, 2)
		g.call("MV", v.name, g.like(v.dtype, []int{v.shape[1]}))
	case 6:
		v := g.floats(3, 3)
		g.call("BMM", v.name, g.like(v.dtype, []int{v.shape[0], v.shape[2], g.size()}))
	case 7:
		v := g.floats(2, 2)
		n := g.size()
		g.call("AddMM", g.like(v.dtype, g.narrower([]int{v.shape[0], n})), v.name, g.like(v.dtype, []int{v.shape[1], n}), oneOf(g, 1, 0.5, 0), oneOf(g, 1, 2, 0.5))
	case 8:
		v := g.floats(3, 3)
		n := g.size()
		g.call("BAddBMM", g.like(v.dtype, g.narrower([]int{v.shape[0], v.shape[1], n})), v.name, g.like(v.dtype, []int{v.shape[0], v.shape[2], n}), oneOf(g, 1, 0.5, 0), oneOf(g, 1, 2, 0.5))
	case 9:
		v := g.floats(2, 3)
		n := len(v.shape)
		g.call("TensorDot", v.name, g.like(v.dtype, []int{v.shape[n-1], g.size(), v.shape[0]}), []int{n - 1, 0}, []int{0, 2})
	case 10:
		einsum(g)
	case 11:
		v := g.floats(1, 3)
		k, n := v.shape[len(v.shape)-1], g.size()
		op := oneOf(g, "Linear", "LinearReLU", "LinearGELU", "LinearGELUTanh")
		if g.p.Eager {
			op = "Linear"
		}
		var bias any
		if g.chance(0.6) {
			bias = g.like(v.dtype, []int{n})
		}
		g.call(op, v.name, g.like(v.dtype, []int{n, k}), bias)
	}
}

func einsum(g *generator) {
	text := oneOf(g, "ij,jk->ik", "ij,jk", "bij,bjk->bik", "i,j->ij", "ij->ji", "ii->i", "ij,ij->", "bij,bkj->bik", "i,ij,j->", "ijk->kj", "...ij,jk->...ik", "ij,kj->ik")
	size := map[rune]int{}
	for _, c := range "bijk" {
		size[c] = 1 + g.IntN(3)
	}
	var list []any
	shape := []int{}
	for _, c := range text + "," {
		switch {
		case c == ',' || c == '-':
			list = append(list, g.like(dtypes[g.main], shape))
			if c == '-' {
				g.call("Einsum", text, list)
				return
			}
			shape = []int{}
		case size[c] > 0:
			shape = append(shape, size[c])
		}
	}
	g.call("Einsum", text, list)
}

func blends(g *generator) {
	v := g.float()
	a, b := g.like(v.dtype, g.narrower(v.shape)), g.like(v.dtype, g.narrower(v.shape))
	switch {
	case g.chance(0.3):
		g.call("Lerp", v.name, a, b)
	default:
		g.call(oneOf(g, "AddCMul", "AddCDiv"), v.name, a, b, oneOf(g, 1, 0.5, -2, 0))
	}
}

func casts(g *generator) {
	v := g.any()
	if g.p.Eager || g.chance(0.8) {
		to := oneOf(g, "float32", "float64", "bfloat16", "float16", "int64", "int32", "bool", "uint8")
		if v.float() && strings.Contains(to, "int") && g.chance(0.8) { // integers of NaN and of what they do not hold are left open
			if g.p.Eager { // tensors alone have no such operation
				to = "float64"
			} else {
				name, _ := g.call("NanToNum", v.name, 0, 7, 1)
				v = g.info(name)
			}
		}
		g.call("To", v.name, to)
		return
	}
	g.call("Detach", v.name)
}

func hooks(g *generator) {
	v := g.pick(func(v value) bool {
		u, ok := g.live.values[v.name].Interface().(variable)
		return ok && u.RequiresGrad()
	}, func() string { return "" })
	if v.name != "" {
		g.call("Hook", v.name, oneOf(g, 2, -1, 0.5))
	}
}

// inPlace are changes of what is there.
func inPlace(g *generator) {
	v := g.any()
	t := v.name
	ops := []string{"AddInPlace", "SubInPlace", "MulInPlace", "DivInPlace", "AddScalarInPlace", "MulScalarInPlace", "ClampInPlace", "ReLUInPlace",
		"SigmoidInPlace", "TanhInPlace", "ExpInPlace", "MaskedFillInPlace"}
	if g.p.Eager {
		ops = append(ops, "NegInPlace", "SqrtInPlace", "AddCMulInPlace", "AddCDivInPlace", "LerpInPlace", "LerpScalarInPlace", "ZeroInPlace", "CopyFrom", "CopyFrom", "ScatterInPlace", "ScatterAddInPlace", "IndexAddInPlace", "IndexCopyInPlace")
	} else if g.chance(0.6) {
		t, _ = g.call("MulScalar", t, 2)
		v = g.info(t)
	}
	switch op := oneOf(g, ops...); op {
	case "AddInPlace":
		g.call(op, t, g.like(v.dtype, g.narrower(v.shape)), oneOf(g, 1, 2, -1))
	case "SubInPlace", "MulInPlace", "DivInPlace":
		g.call(op, t, g.like(v.dtype, g.narrower(v.shape)))
	case "CopyFrom":
		g.call(op, t, g.input(g.dtype(), g.narrower(v.shape)))
	case "AddScalarInPlace", "MulScalarInPlace":
		g.call(op, t, g.number())
	case "ClampInPlace":
		low := oneOf[any](g, -1, "-inf", 0)
		if v.dtype == tensor.Uint8 {
			low = 0 // PyTorch takes -1 for 255
		}
		g.call(op, t, low, oneOf[any](g, 1, "inf", 2))
	case "MaskedFillInPlace":
		g.call(op, t, g.input("bool", g.narrower(v.shape)), oneOf(g, 0, 1, 2))
	case "AddCMulInPlace", "AddCDivInPlace":
		g.call(op, t, g.like(v.dtype, g.narrower(v.shape)), g.like(v.dtype, g.narrower(v.shape)), oneOf(g, 1, 2, -1))
	case "LerpInPlace":
		g.call(op, t, g.like(v.dtype, g.narrower(v.shape)), g.like(v.dtype, g.narrower(v.shape)))
	case "LerpScalarInPlace":
		g.call(op, t, g.like(v.dtype, g.narrower(v.shape)), oneOf(g, 0.25, 0, 1, 0.75))
	case "ScatterInPlace", "ScatterAddInPlace", "IndexAddInPlace", "IndexCopyInPlace":
		if len(v.shape) == 0 || product(v.shape) == 0 {
			return
		}
		d := g.IntN(len(v.shape))
		shape := slices.Clone(v.shape)
		shape[d] = 1
		if strings.HasPrefix(op, "Index") {
			g.call(op, t, d, g.integers("int64", []int{1}, v.shape[d]), g.input(v.dtype.String(), shape))
			return
		}
		g.call(op, t, d, g.integers("int64", shape, v.shape[d]), g.input(v.dtype.String(), shape))
	default:
		g.call(op, t)
	}
}

// eagerOnly are methods that variables do not have.
func eagerOnly(g *generator) {
	v := g.any()
	switch g.IntN(4) {
	case 0:
		g.call("Clone", v.name)
	case 1:
		v = g.float()
		g.call("SumTo", v.name, g.narrowerSum(v.shape))
	case 2:
		g.call("AddScaled", v.name, g.broadcast(v), oneOf(g, 1, 2, -1))
	case 3:
		g.call("BroadcastTo", v.name, append([]int{2}, v.shape...))
	}
}

func (g *generator) narrowerSum(shape []int) []int {
	s := g.narrower(shape)
	if s == nil {
		s = []int{}
	}
	return s
}

func castProducts(g *generator) {
	v := g.floats(2, 3)
	n := len(v.shape)
	k, o := v.shape[n-1], g.size()
	switch g.IntN(3) {
	case 0:
		g.call("MatMul", v.name, g.like(tensor.Float32, []int{k, o}))
	case 1:
		g.call("Linear", v.name, g.like(tensor.Float32, []int{o, k}), g.maybe(tensor.Float32, []int{o}))
	case 2:
		c := config{In: k, Out: 1 + g.IntN(3), NoBias: g.chance(0.3)}
		if k > 0 {
			g.addLayer("Linear", c, []any{v.name})
		}
	}
}

func castExact(g *generator) {
	g.call(oneOf(g, "ReLU", "Neg", "Abs", "Contiguous"), g.float().name)
}

// bitwise are the operations of bits, by all numbers of places; now and then of a type that has none.
func bitwise(g *generator) {
	v := g.any()
	if v.float() && !g.chance(0.1) {
		v = g.info(g.like(oneOf(g, tensor.Int64, tensor.Int32, tensor.Uint8, tensor.Bool), v.shape))
	}
	op := "Bitwise" + oneOf(g, "And", "Or", "Xor", "LeftShift", "RightShift", "Not")
	place := oneOf(g, "", "", "InPlace")
	switch {
	case op == "BitwiseNot":
		g.call(op+place, v.name)
	case g.chance(0.4):
		g.call(op+"Scalar"+place, v.name, oneOf(g, 1, 0, 3, -1, 7, 31, 64))
	case place != "":
		g.call(op+place, v.name, g.like(oneOf(g, tensor.Int64, tensor.Int32, tensor.Uint8, tensor.Bool), g.narrower(v.shape)))
	default:
		g.call(op, v.name, g.broadcast(v))
	}
}
