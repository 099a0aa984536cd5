package kerneltest

import (
	"iter"
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/cistern-ml/cistern/tensor/dtype"
)

// attentionSize are the sizes of a case: batches, heads of q, heads of k and v, queries, keys, and elements of heads.
type attentionSize struct{ b, h, g, t, s, d, e int }

var attentionSizes = []attentionSize{
	{1, 1, 1, 1, 1, 1, 1}, {2, 3, 3, 5, 7, 4, 4}, {1, 4, 2, 3, 9, 8, 5}, {1, 2, 1, 33, 20, 16, 16}, {2, 2, 2, 0, 3, 4, 4}, {1, 2, 2, 3, 0, 4, 4},
	{1, 1, 1, 6, 4, 0, 3}, {1, 1, 1, 6, 4, 3, 0}, {1, 2, 2, 70, 67, 24, 40}, {1, 1, 1, 66, 150, 64, 32}, {1, 2, 1, 34, 129, 40, 72}, {1, 1, 1, 3, 5, 6, 140}, {1, 1, 1, 3, 5, 133, 2}, {0, 2, 2, 3, 3, 4, 4},
}

// attentionKind is how a case sees its keys.
type attentionKind struct {
	causal  bool
	mask    string // "", "bool" or "float"
	dropout float64
}

var attentionKinds = []attentionKind{
	{}, {causal: true}, {mask: "bool"}, {mask: "float"}, {dropout: 0.3}, {causal: true, dropout: 0.5}, {mask: "float", dropout: 1}, {mask: "bool", dropout: 0.25},
}

// attentions are the cases of Attention and AttentionGrad.
func (m *maker) attentions() iter.Seq[*testCase] {
	return list(func(emit func(*testCase)) {
		for n, s := range attentionSizes {
			for k, kind := range attentionKinds {
				plan := plans[(n+k)%5]
				if s.t*s.s < 2000 || k%4 == n%4 {
					emit(m.attention(s, kind, plan, (n+k)%3 == 0))
				}
			}
		}
		long := attentionSize{1, 1, 1, 260, 260, 8, 4}
		emit(m.attention(long, attentionKind{causal: true}, plans[0], true))
		emit(m.attention(long, attentionKind{mask: "bool"}, plans[0], true))
	})
}

// attention makes a case. With fused the operands lie as the heads of one row after the other, as a projection leaves them, at an address that
// kernels for tensor cores can take.
func (m *maker) attention(s attentionSize, kind attentionKind, plan [4]layout, fused bool) *testCase {
	if !m.due() {
		return nil
	}
	c := m.newCase()
	c.ulps = 4
	c.call.F = floats8(1/math.Sqrt(float64(max(s.d, 1)))+0.01, kind.dropout)
	c.call.I = ints8(b2i(kind.causal), 99, 1<<33)
	operand := func(l layout, heads, rows, elements int) *tensor {
		t := newTensor(m.d, l, s.b, heads, rows, elements)
		if fused {
			t = m.projected(s.b, heads, rows, elements)
		}
		return t
	}
	q, k, v := operand(plan[1], s.h, s.t, s.d), operand(plan[2], s.g, s.s, s.d), operand(plan[3], s.g, s.s, s.e)
	for _, t := range []*tensor{q, k, v} {
		t.fill(m.within(m.d, -1.5, 1.5))
	}
	mask := m.attentionMask(s, kind)
	out := operand(plan[0], s.h, s.t, s.e)
	lse := newTensor(op.ComputeType(m.d), contiguous, s.b, s.h, s.t)
	a := &attending{m: m, c: c, s: s, kind: kind, q: q, k: k, v: v, mask: mask, out: out, lse: lse}
	a.forward()
	if m.id == op.AttentionGrad {
		grad := operand(plan[1], s.h, s.t, s.e)
		grad.fill(m.within(m.d, -1, 1))
		a.backward(grad, operand(plan[0], s.h, s.t, s.d), operand(plan[0], s.g, s.s, s.d), operand(plan[0], s.g, s.s, s.e))
		return c
	}
	c.in, c.out = append([]*tensor{q, k, v}, mask...), []*tensor{out, lse}
	return c
}

// projected is a tensor of heads that lie beside each other in rows, with other things between the rows.
func (m *maker) projected(b, heads, rows, elements int) *tensor {
	t := newTensor(m.d, contiguous, b, heads, rows, elements)
	row := heads*elements + 16
	t.aligned = true
	t.strides = []int{rows * row, elements, row, 1}
	t.measure()
	return t
}

// attentionMask makes the mask of a kind, in which the second query sees nothing.
func (m *maker) attentionMask(s attentionSize, kind attentionKind) []*tensor {
	if kind.mask == "" {
		return nil
	}
	d, l := m.d, gapped
	if kind.mask == "bool" {
		d, l = dtype.Bool, contiguous
	}
	mask := newTensor(d, l, s.b, s.h, s.t, s.s)
	next := m.tame(d)
	each(mask.shape, func(p int, index []int) {
		switch v := next(); {
		case d == dtype.Bool:
			mask.values[p] = intValue(b2i(v.i != 0 && index[2] != 1))
		case index[2] == 1 || m.rng.IntN(6) == 0:
			mask.values[p] = floatValue(math.Inf(-1))
		default:
			mask.values[p] = v
		}
	})
	return []*tensor{mask}
}

// attending computes what a case wants, one row after the other.
type attending struct {
	m             *maker
	c             *testCase
	s             attentionSize
	kind          attentionKind
	q, k, v       *tensor
	mask          []*tensor
	out, lse      *tensor
	score, size   []float64 // of one row: scores, and how large the numbers were that they are sums of
	dk, dv, dmask []result
}

// each calls f for every row of q.
func (a *attending) each(f func(b, h, t int)) {
	for b := range a.s.b {
		for h := range a.s.h {
			for t := range a.s.t {
				f(b, h, t)
			}
		}
	}
}

// scores computes those of one row, and returns their maximum.
func (a *attending) scores(b, h, t int) float64 {
	a.score, a.size = make([]float64, a.s.s), make([]float64, a.s.s)
	most, kh := math.Inf(-1), h/(a.s.h/a.s.g)
	for s := range a.score {
		var sum, size float64
		for d := range a.s.d {
			p := a.q.at(b, h, t, d).f * a.k.at(b, kh, s, d).f
			sum += p
			size += math.Abs(p)
		}
		sum *= a.c.call.F[0]
		switch {
		case a.kind.causal && s > t:
			sum = math.Inf(-1)
		case a.kind.mask == "bool" && a.mask[0].at(b, h, t, s).i == 0:
			sum = math.Inf(-1)
		case a.kind.mask == "float":
			sum += a.mask[0].at(b, h, t, s).f
		}
		a.score[s], a.size[s] = sum, 1+size*a.c.call.F[0]*(1+float64(a.s.d)/8)+math.Abs(max(sum, -100))
		most = max(most, sum)
	}
	return most
}

// keep is what dropout makes of a probability.
func (a *attending) keep(b, h, t, s int) float64 {
	if a.kind.dropout == 0 {
		return 1
	}
	row := int64((b*a.s.h+h)*a.s.t + t)
	u := uniformAt(dtype.Float32, a.c.call.I[1], a.c.call.I[2]+row*int64((a.s.s+3)/4), s)
	if u < 1-a.kind.dropout {
		return 1 / (1 - a.kind.dropout)
	}
	return 0
}

// rounding is how much larger the rounding errors of probabilities may be than those of the type of computation: half
// precision may round them before they are multiplied.
func (a *attending) rounding() float64 {
	switch a.m.d {
	case dtype.Float16:
		return 1 << 10
	case dtype.BFloat16:
		return 1 << 13
	}
	return 1
}

// forward computes result and lse.
func (a *attending) forward() {
	want, lse := make([]result, len(a.out.values)), make([]result, len(a.lse.values))
	a.each(func(b, h, t int) {
		most := a.scores(b, h, t)
		var sum, worst float64
		for s, v := range a.score {
			if !math.IsInf(v, -1) {
				sum += math.Exp(v - most)
				worst = max(worst, a.size[s])
			}
		}
		l := math.Inf(-1)
		if sum > 0 {
			l = most + math.Log(sum)
		}
		lse[a.lse.position(b, h, t)] = scaled(l, l, worst)
		for e := range a.s.e {
			var total, size float64
			for s, v := range a.score {
				if p := math.Exp(v - most); sum > 0 && !math.IsInf(v, -1) {
					x := p / sum * a.keep(b, h, t, s) * a.v.at(b, h/(a.s.h/a.s.g), s, e).f
					total += x
					size += math.Abs(x)
				}
			}
			want[a.out.position(b, h, t, e)] = scaled(total, size*(worst+math.Sqrt(float64(a.s.s))+a.rounding()))
		}
	})
	a.c.want = [][]result{want, lse}
}

// backward makes the case one of gradients: what forward gave, rounded, are inputs.
func (a *attending) backward(grad, dq, dk, dv *tensor) {
	for i, t := range []*tensor{a.out, a.lse} {
		for p, r := range a.c.want[i] {
			t.values[p] = floatValue(round(t.dtype, r.f))
		}
	}
	a.c.in = append([]*tensor{grad, a.q, a.k, a.v, a.out, a.lse}, a.mask...)
	a.c.out = []*tensor{dq, dk, dv}
	wantQ := make([]result, len(dq.values))
	a.dk, a.dv = make([]result, len(dk.values)), make([]result, len(dv.values))
	if a.kind.mask == "float" {
		a.c.out = append(a.c.out, newTensor(a.m.d, backwards, a.mask[0].shape...))
		a.dmask = make([]result, len(a.mask[0].values))
	}
	a.each(func(b, h, t int) { a.rowGrad(b, h, t, grad, dq, wantQ) })
	a.c.want = [][]result{wantQ, a.dk, a.dv}
	if a.dmask != nil {
		a.c.want = append(a.c.want, a.dmask)
	}
}

// rowGrad adds what one query contributes.
func (a *attending) rowGrad(b, h, t int, grad, dq *tensor, wantQ []result) {
	a.scores(b, h, t)
	lse := a.lse.at(b, h, t).f
	if math.IsInf(lse, -1) {
		return
	}
	var delta, deltaSize float64
	for e := range a.s.e {
		x := grad.at(b, h, t, e).f * a.out.at(b, h, t, e).f
		delta += x
		deltaSize += math.Abs(x)
	}
	kh, scale := h/(a.s.h/a.s.g), a.c.call.F[0]
	add := func(r *result, x, size float64) {
		r.f += x
		r.scale += math.Abs(size)
	}
	for s, v := range a.score {
		p, keep := math.Exp(v-lse), a.keep(b, h, t, s)
		var dp, dpSize float64
		for e := range a.s.e {
			g := grad.at(b, h, t, e).f
			add(&a.dv[a.c.out[2].position(b, kh, s, e)], p*keep*g, p*keep*g*(a.size[s]+math.Abs(lse)+4+a.rounding()))
			x := keep * g * a.v.at(b, kh, s, e).f
			dp += x
			dpSize += math.Abs(x)
		}
		ds := p * (dp - delta)
		size := p * (dpSize + deltaSize) * (a.size[s] + math.Abs(lse) + 4 + float64(a.s.e)/8 + a.rounding())
		for d := range a.s.d {
			q, k := a.q.at(b, h, t, d).f*scale, a.k.at(b, kh, s, d).f*scale
			add(&wantQ[dq.position(b, h, t, d)], ds*k, size*k)
			add(&a.dk[a.c.out[1].position(b, kh, s, d)], ds*q, size*q)
		}
		if a.dmask != nil {
			a.dmask[a.mask[0].position(b, h, t, s)] = scaled(ds, size)
		}
	}
}
