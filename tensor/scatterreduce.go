package tensor

import "fmt"

// ScatterReduction says how ScatterReduce joins elements.
type ScatterReduction uint8

// The ways to join elements. Sums and products of integers wrap around; their means are rounded down.
const (
	ScatterSum ScatterReduction = iota
	ScatterProd
	ScatterMean
	ScatterMax // NaN if there is one
	ScatterMin // NaN if there is one
)

// String is PyTorch's name.
func (r ScatterReduction) String() string {
	if int(r) < len(scatterNames) {
		return scatterNames[r]
	}
	return fmt.Sprintf("ScatterReduction(%d)", uint8(r))
}

var scatterNames = []string{"sum", "prod", "mean", "amax", "amin"}

// ScatterReduce is t with the elements of src joined by how where idx says, as Scatter has it, and with what is in that place if self is set.
// Places that no index names keep their elements. All types but bool; half precision is computed in float32, and rounded once. src has t's type.
//
// Elements are sorted by index and joined in about log2(n) passes for n indices along dim, sums of floating-point types in one; in the same order
// every time.
func (t *Tensor) ScatterReduce(dim int, idx, src *Tensor, how ScatterReduction, self bool) (*Tensor, error) {
	const name = "ScatterReduce"
	axis, err := scatterOperands(name, 0, t, dim, idx, src)
	if err != nil {
		return nil, err
	}
	switch {
	case t.dtype == Bool:
		return nil, dtypeErr(name, "not defined for bool", t.dtype, src.dtype)
	case how > ScatterMin:
		return nil, valueErr(name, "%v is no way to join elements", how)
	case idx.Len() == 0:
		return t.convert(name, t.dtype, t.exec)
	}
	var p parts
	wide := wideFor(t.dtype)
	base := p.do(p.of(t).To(wide))
	joined := p.joined(base, p.of(idx), p.do(p.of(src).To(wide)), axis, how, self)
	joined = p.do(joined.Reshape(t.Shape()...)) // without dimensions, if t has none
	if t.dtype == wide {
		return p.result(t.exec, joined)
	}
	return p.result(t.exec, p.do(joined.To(t.dtype)))
}

// joined is ScatterReduce of operands with a last dimension to go along.
func (p *parts) joined(t, idx, src *Tensor, axis int, how ScatterReduction, self bool) *Tensor {
	if p.err != nil {
		return nil
	}
	if t.NDim() == 0 {
		t, idx, src = p.do(t.Reshape(1)), p.do(idx.Reshape(1)), p.do(src.Reshape(1))
	}
	for d, n := range idx.Shape() {
		src = p.do(src.Narrow(d, 0, n))
	}
	idx, src = p.do(p.do(idx.To(Int64)).Transpose(axis, -1)), p.do(src.Transpose(axis, -1))
	order := p.do(idx.ArgSort(-1, false))
	keys, x := p.do(idx.Gather(-1, order)), p.do(src.Gather(-1, order))
	across := p.do(t.Transpose(axis, -1))
	there := p.do(across.Gather(-1, keys))
	x = p.atEnds(keys, x, there, how, self)
	return p.do(p.do(p.do(across.Scatter(-1, keys, x)).Transpose(axis, -1)).Contiguous())
}

// atEnds is what of each run of equal keys belongs into its place, at the last element of the run, which is the one that Scatter keeps.
func (p *parts) atEnds(keys, x, there *Tensor, how ScatterReduction, self bool) *Tensor {
	join := map[ScatterReduction]func(t, u *Tensor) (*Tensor, error){
		ScatterSum: (*Tensor).Add, ScatterMean: (*Tensor).Add, ScatterProd: (*Tensor).Mul, ScatterMax: (*Tensor).Maximum, ScatterMin: (*Tensor).Minimum,
	}[how]
	joined := p.runs(keys, x, join)
	if self {
		joined = p.do(join(there, joined))
	}
	if how != ScatterMean || joined == nil {
		return joined
	}
	counts := p.runs(keys, p.do(keys.OnesLike()), (*Tensor).Add)
	if self {
		counts = p.do(counts.AddScalar(1))
	}
	if x.dtype.IsFloat() {
		return p.do(joined.Div(counts))
	}
	return p.floorDiv(joined, p.do(counts.To(x.dtype)))
}

// runs joins each element with all before it that have the same key: after the step of distance d, with 2d-1 of them. Keys are sorted along the
// last dimension. Each step frees what the one before has made.
func (p *parts) runs(keys, x *Tensor, join func(t, u *Tensor) (*Tensor, error)) *Tensor {
	if p.err != nil {
		return nil
	}
	for d := 1; d < keys.Dim(-1); d *= 2 {
		var q parts
		next := p.do(q.result(keys.exec, q.further(keys, x, d, join)))
		if next == nil {
			return nil
		}
		if d > 1 {
			x.Release()
		}
		x = next
	}
	return x
}

// further is a step of runs.
func (p *parts) further(keys, x *Tensor, d int, join func(t, u *Tensor) (*Tensor, error)) *Tensor {
	n := keys.Dim(-1) - d
	same := p.do(p.do(keys.Narrow(-1, d, n)).Eq(p.do(keys.Narrow(-1, 0, n))))
	later := p.do(x.Narrow(-1, d, n))
	both := p.do(join(p.do(x.Narrow(-1, 0, n)), later))
	rest := p.do(Where(same, both, later))
	return p.do(Cat([]*Tensor{p.do(x.Narrow(-1, 0, d)), rest}, -1))
}

// floorDiv is the quotient of integers, rounded down, by what the remainder, which has the divisor's sign, leaves. Quotients are those of
// float64 numbers, and exact as long as float64 holds the dividends.
func (p *parts) floorDiv(t, u *Tensor) *Tensor {
	whole := p.do(p.do(t.Sub(p.do(t.Remainder(u)))).To(Float64))
	return p.do(p.do(whole.Div(u)).To(t.DType()))
}
