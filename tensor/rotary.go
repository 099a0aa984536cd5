package tensor

// RotaryPairs says which elements RotaryEmbedding turns together.
type RotaryPairs int

const (
	// RotaryHalves pairs element i with element i+R/2, as GPT-NeoX and the LLaMA of Hugging Face do (rotate_half).
	RotaryHalves RotaryPairs = iota
	// RotaryInterleaved pairs elements 2i and 2i+1, as the paper (Su et al., "RoFormer", 2021), GPT-J and the LLaMA of Meta do.
	RotaryInterleaved
)

// String is the name of the constant.
func (p RotaryPairs) String() string {
	switch p {
	case RotaryHalves:
		return "RotaryHalves"
	case RotaryInterleaved:
		return "RotaryInterleaved"
	}
	return "RotaryPairs(?)"
}

// RotaryEmbedding turns pairs of elements of t, [..., L, D], by angles: (a, b) becomes (a*cos - b*sin, b*cos + a*sin). cos and sin are of one
// shape, which broadcasts to [..., L, R/2], where R is at most D: the first R elements of each row are turned, and the others stay. t, cos and sin are of
// floating point; cos and sin are converted to t's type, which is the result's.
func (t *Tensor) RotaryEmbedding(cos, sin *Tensor, pairs RotaryPairs) (*Tensor, error) {
	const name = "RotaryEmbedding"
	if err := checkRotary(name, t, cos, sin, pairs); err != nil {
		return nil, err
	}
	var p parts
	x, n := p.of(t), cos.Dim(-1)
	c, s := p.do(p.of(cos).To(t.dtype)), p.do(p.of(sin).To(t.dtype))
	a, b := p.pairsOf(x, n, pairs)
	first := p.do(p.do(a.Mul(c)).AddCMul(b, s, -1))
	second := p.do(p.do(b.Mul(c)).AddCMul(a, s, 1))
	turned := []*Tensor{first, second}
	if pairs == RotaryInterleaved {
		shape := t.Shape().Clone()
		shape[len(shape)-1] = 2 * n
		turned = []*Tensor{p.do(p.do(Stack(turned, -1)).Reshape(shape...))}
	}
	if rest := t.Dim(-1) - 2*n; rest > 0 {
		turned = append(turned, p.do(x.Narrow(-1, 2*n, rest)))
	}
	if len(turned) == 1 {
		return p.result(t.exec, turned[0])
	}
	return p.result(t.exec, p.do(Cat(turned, -1)))
}

// pairsOf are the first and the second elements of the n pairs in each row.
func (p *parts) pairsOf(x *Tensor, n int, pairs RotaryPairs) (a, b *Tensor) {
	if pairs == RotaryHalves {
		return p.do(x.Narrow(-1, 0, n)), p.do(x.Narrow(-1, n, n))
	}
	return p.do(x.Slice(-1, 0, 2*n, 2)), p.do(x.Slice(-1, min(1, 2*n), 2*n, 2))
}

func checkRotary(name string, t, cos, sin *Tensor, pairs RotaryPairs) error {
	if err := together(name, t, cos, sin); err != nil {
		return err
	}
	if pairs != RotaryHalves && pairs != RotaryInterleaved {
		return valueErr(name, "there is no RotaryPairs of %d", int(pairs))
	}
	if !t.dtype.IsFloat() || !cos.dtype.IsFloat() || !sin.dtype.IsFloat() {
		return dtypeErr(name, needsFloat, t.dtype, cos.dtype, sin.dtype)
	}
	shapes := shapesOf([]*Tensor{t, cos, sin})
	switch {
	case t.NDim() == 0 || cos.NDim() == 0 || !cos.Shape().Equal(sin.Shape()):
		return shapeErr(name, shapes, "want [..., L, D], and cos and sin of one shape, [..., L, R/2]")
	case 2*cos.Dim(-1) > t.Dim(-1):
		return shapeErr(name, shapes, "%d pairs of a row of %d elements", cos.Dim(-1), t.Dim(-1))
	}
	to := t.Shape().Clone()
	to[len(to)-1] = cos.Dim(-1)
	if all, err := BroadcastShapes(to, cos.Shape()); err != nil || !all.Equal(to) {
		return shapeErr(name, shapes, "cos and sin do not broadcast to %v", to)
	}
	return nil
}
