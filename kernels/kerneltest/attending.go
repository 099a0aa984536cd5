package kerneltest

import (
	"math"

	"github.com/cistern-ml/cistern/device/dtype"
)

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

// rounding is what a weight of half precision, w, may be off by, in units of the tolerance. Kernels on tensor cores round weights before they
// multiply them, as PyTorch's do. That is half an ulp, 2**-11 of w in float16, and at least half of the smallest number: below 2**-14 float16
// has no more digits. A unit is c.ulps ulps of float32, which are at least 2**-24 of a number each.
func (a *attending) rounding(w float64) float64 {
	unit := a.c.ulps * 0x1p-24
	switch w = math.Abs(w); a.m.d {
	case dtype.Float16:
		return max(w, 0x1p-14) * 0x1p-11 / unit
	case dtype.BFloat16:
		return w * 0x1p-8 / unit // its smallest numbers are those of float32
	}
	return w
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
			var total, size, rounded float64
			for s, v := range a.score {
				if sum > 0 && !math.IsInf(v, -1) {
					w, x := math.Exp(v-most)*a.keep(b, h, t, s), a.v.at(b, h/(a.s.h/a.s.g), s, e).f/sum
					total += w * x
					size += math.Abs(w * x)
					rounded += a.rounding(w) * math.Abs(x)
				}
			}
			want[a.out.position(b, h, t, e)] = scaled(total, size*(worst+math.Sqrt(float64(a.s.s)))+rounded)
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
			add(&a.dv[a.c.out[2].position(b, kh, s, e)], p*keep*g, g*(p*keep*(a.size[s]+math.Abs(lse)+4)+a.rounding(p*keep)))
			x := keep * g * a.v.at(b, kh, s, e).f
			dp += x
			dpSize += math.Abs(x)
		}
		ds := p * (dp - delta)
		size := p * (dpSize + deltaSize) * (a.size[s] + math.Abs(lse) + 4 + float64(a.s.e)/8)
		rounded := a.rounding(ds)
		for d := range a.s.d {
			q, k := a.q.at(b, h, t, d).f*scale, a.k.at(b, kh, s, d).f*scale
			add(&wantQ[dq.position(b, h, t, d)], ds*k, (size+rounded)*k)
			add(&a.dk[a.c.out[1].position(b, kh, s, d)], ds*q, (size+rounded)*q)
		}
		if a.dmask != nil {
			a.dmask[a.mask[0].position(b, h, t, s)] = scaled(ds, size)
		}
	}
}
