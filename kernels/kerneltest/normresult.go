package kerneltest

import (
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

// What must come out of each normalisation.

func (k *norm) rowNorm() {
	k.c.in = []*tensor{k.a}
	k.vectors()
	want := k.output()
	for p := range want {
		x, size := k.x(p)
		// The spread shrinks what the mean's error does to rstd.
		w, b := k.of(p)
		want[p] = scaled(x*w+b, size*w*(1+math.Abs(x)), b)
	}
	k.statResults()
}

// statResults adds mean and rstd as they must come out.
func (k *norm) statResults() {
	mean, rstd := make([]result, k.slots()), make([]result, k.slots())
	for i := range mean {
		mean[i] = scaled(k.mean[i], k.big*growth(k.count()))
		rstd[i] = scaled(k.rstd[i], k.rstd[i]*growth(k.count())*(1+k.rstd[i]*k.big))
	}
	if !k.has(op.NormRMS) {
		k.column(mean)
	}
	k.column(rstd)
}

// gradient makes the incoming gradient, and the first inputs of operations that take one.
func (k *norm) gradient() {
	k.g = newTensor(k.narrow, contiguous, k.n, k.ch, k.l)
	k.g.fill(k.m.tame(k.narrow))
	k.bigG = sizeOf(k.g)
	k.c.in = []*tensor{k.g, k.a}
	k.given()
}

func (k *norm) rowNormGrad() {
	k.gradient()
	k.vectors()
	sums, dots, sizes := make([]compensated, k.slots()), make([]compensated, k.slots()), make([]float64, k.slots())
	for p, g := range k.g.values {
		x, size := k.x(p)
		w, _ := k.of(p)
		sums[k.slot(p)].add(g.f * w)
		dots[k.slot(p)].add(g.f * w * x)
		sizes[k.slot(p)] += math.Abs(g.f*w) * (1 + size)
	}
	count := float64(k.count())
	want := k.output()
	for p := range want {
		x, size := k.x(p)
		w, _ := k.of(p)
		s := k.slot(p)
		g, mean, dot := k.g.values[p].f*w, sums[s].value()/count, dots[s].value()/count
		if k.has(op.NormRMS) {
			mean = 0
		}
		spread := sizes[s] / count * growth(k.count()) * (1 + math.Abs(x))
		want[p] = scaled(k.rstd[s]*(g-mean-x*dot), k.rstd[s]*g, k.rstd[s]*spread, k.rstd[s]*dot*size)
	}
	if k.c.call.I[2] != 0 {
		k.added(want)
	}
}

// added makes the result one that is added to what is there.
func (k *norm) added(want []result) {
	dst := k.c.out[0]
	k.c.inPlace = true
	dst.fill(k.m.tame(dst.dtype))
	for p, v := range dst.values {
		want[p].f += v.f
		want[p].scale += math.Abs(v.f)
	}
}

func (k *norm) sums() {
	k.gradient()
	products, sums, sizes := make([]compensated, k.ch), make([]compensated, k.ch), make([]float64, k.ch)
	for p, g := range k.g.values {
		x, size := k.x(p)
		i := p / k.l % k.ch
		products[i].add(g.f * x)
		sums[i].add(g.f)
		sizes[i] += math.Abs(g.f) * (1 + size)
	}
	product, sum := make([]result, k.ch), make([]result, k.ch)
	for i := range sum {
		spread := sizes[i] * growth(k.n*k.l)
		product[i], sum[i] = scaled(products[i].value(), spread), scaled(sums[i].value(), spread)
	}
	k.column(product)
	k.column(sum)
}

func (k *norm) stats() {
	k.c.in = []*tensor{k.a}
	k.statResults()
	if !k.has(op.NormRunning) {
		return
	}
	k.c.inPlace = true
	d := k.m.d
	if k.l%2 == 0 {
		d = op.ComputeType(d)
	}
	count, momentum := float64(k.n*k.l), k.c.call.F[1]
	for r := range 2 {
		t := newTensor(d, contiguous, k.ch)
		t.fill(k.m.within(d, 0.5, 2))
		want := make([]result, k.ch)
		for i := range want {
			now := k.mean[i]
			if r == 1 {
				now = (1/(k.rstd[i]*k.rstd[i]) - k.c.call.F[0]) * count / (count - 1)
			}
			want[i] = scaled((1-momentum)*t.values[i].f+momentum*now, k.big*k.big*growth(k.count()))
		}
		k.c.out, k.c.want = append(k.c.out, t), append(k.c.want, want)
	}
}

func (k *norm) channelNorm() {
	k.c.in = []*tensor{k.a}
	k.given()
	k.vectors()
	want := k.output()
	for p := range want {
		x, size := k.x(p)
		w, b := k.of(p)
		want[p] = scaled(x*w+b, size*w, b)
	}
}

func (k *norm) channelNormGrad() {
	k.gradient()
	if k.weight != nil {
		k.c.in = append(k.c.in, k.weight)
	}
	var sums [2][]float64
	if k.has(op.NormTraining) {
		for i := range sums {
			sums[i] = make([]float64, k.ch)
			for c := range sums[i] {
				sums[i][c] = 10 * k.m.rng.NormFloat64()
			}
			k.c.in = append(k.c.in, k.stat(sums[i]))
		}
	}
	count := float64(k.n * k.l)
	want := k.output()
	for p := range want {
		x, size := k.x(p)
		w, _ := k.of(p)
		s := k.slot(p)
		slope := w * k.rstd[s]
		want[p] = scaled(slope*k.g.values[p].f, slope*k.g.values[p].f)
		if k.has(op.NormTraining) {
			product, sum := sums[0][s]/count, sums[1][s]/count
			want[p] = scaled(slope*(k.g.values[p].f-sum-x*product), slope*k.g.values[p].f, slope*sum, slope*product*size)
		}
	}
}
