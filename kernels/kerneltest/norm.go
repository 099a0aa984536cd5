package kerneltest

import (
	"iter"
	"math"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// normShapes are [N, C, L] and numbers of groups: 1 and L = 1 is layer norm; 0 stands for as many as channels.
var normShapes = []struct{ n, c, l, groups int }{
	{1, 1, 1, 1}, {3, 5, 1, 1}, {2, 8, 1, 1}, {70, 33, 1, 1}, {4, 1024, 1, 1}, {3, 1025, 1, 1}, {2, 5000, 1, 1}, {300, 16, 1, 1},
	{2, 6, 5, 3}, {2, 6, 8, 2}, {1, 4, 700, 2}, {3, 2, 1100, 0}, {2, 12, 1, 4}, {5, 3, 7, 1}, {2, 32, 64, 8}, {90, 4, 3, 2}, {0, 3, 2, 1},
}

// norm is a case of a normalisation in the making.
type norm struct {
	m          *maker
	c          *testCase
	n, ch, l   int
	groups     int // 0 for operations on channels
	a, g       *tensor
	mean, rstd []float64 // of each row or channel
	weight     *tensor
	bias       *tensor
	big        float64 // the largest element's size, and that of gradients
	bigG       float64
	d          dtype.DType // of a, and of all that is not of narrow
	narrow     dtype.DType // of the result of RowNorm, and of the gradient of others
}

// norms are the cases of all normalisations.
func (m *maker) norms() iter.Seq[*testCase] {
	return list(func(emit func(*testCase)) {
		if m.id == op.RowNorm || m.id == op.RowNormGrad { // rows of many lanes, in vectors or not, always run
			for variant := range 2 {
				emit(m.norm(3, 1025, 1, 1, op.NormWeight, variant))
				emit(m.norm(2, 5000, 1, 1, op.NormWeight, variant))
				emit(m.norm(2, 5000, 1, 1, 0, variant))
			}
		}
		for _, s := range normShapes {
			for flags := int64(0); flags < 64; flags++ {
				if !m.takesFlags(flags) || s.n == 0 && m.id == op.ChannelStats {
					continue
				}
				for variant := range m.variants() {
					if groups := m.groupings(s.groups, s.c); m.due() {
						emit(m.norm(s.n, s.c, s.l, groups[int(flags)%len(groups)], flags, variant))
					}
				}
			}
		}
	})
}

// variants is how many there are of a case: two, and one of two types where the operation takes them.
func (m *maker) variants() int {
	switch half := m.d == dtype.Float16 || m.d == dtype.BFloat16; {
	case (m.id == op.RowNorm || m.id == op.NormSums) && half:
		return 3
	case m.id == op.RowNormGrad && m.d == dtype.Float32:
		return 5 // with a gradient of either half type, and two that are added to what is there
	}
	return 2
}

// typed sets the types of a variant.
func (k *norm) typed(variant int) {
	k.d, k.narrow = k.m.d, k.m.d
	switch {
	case variant < 2:
	case k.m.id == op.RowNormGrad:
		k.narrow = []dtype.DType{dtype.Float16, dtype.BFloat16, dtype.Float32}[variant-2]
		if variant > 2 {
			k.c.call.I[2] = 1
		}
	default:
		k.d = dtype.Float32
	}
}

// takesFlags reports whether flags mean something to the operation.
func (m *maker) takesFlags(flags int64) bool {
	allowed := map[op.ID]int64{
		op.RowNorm: op.NormWeight | op.NormBias | op.NormRMS, op.RowNormGrad: op.NormWeight | op.NormRMS, op.NormSums: op.NormRMS,
		op.ChannelStats: op.NormRunning, op.ChannelNorm: op.NormWeight | op.NormBias | op.NormVariance,
		op.ChannelNormGrad: op.NormWeight | op.NormTraining | op.NormVariance,
	}[m.id]
	return flags&^allowed == 0
}

// groupings are the numbers of groups to test: for NormSums also that of operations on channels.
func (m *maker) groupings(groups, channels int) []int {
	if groups == 0 {
		groups = channels
	}
	switch m.id {
	case op.ChannelStats, op.ChannelNorm, op.ChannelNormGrad:
		return []int{0}
	case op.NormSums:
		return []int{groups, 0}
	}
	return []int{groups}
}

// norm makes one case. Variant 1 has elements far from 0, and weights of the type of statistics; those from 2 on are of two types, or added to what is there.
func (m *maker) norm(n, channels, l, groups int, flags int64, variant int) *testCase {
	c := m.newCase()
	c.ulps = 4
	c.call.F, c.call.I = floats8(1e-5, 0.3), ints8(int64(groups), flags)
	if m.id == op.NormSums && groups == 0 {
		c.call.I[1] &^= op.NormRMS
	}
	k := &norm{m: m, c: c, n: n, ch: channels, l: l, groups: groups}
	k.typed(variant)
	k.a = newTensor(k.d, contiguous, n, channels, l)
	offset := []float64{0, 30, 0, 0, 30}[variant]
	tame := m.tame(k.d)
	k.a.fill(func() value { return floatValue(round(k.d, tame().f+offset)) })
	k.big = sizeOf(k.a)
	k.moments()
	k.affine(variant)
	switch m.id {
	case op.RowNorm:
		k.rowNorm()
	case op.RowNormGrad:
		k.rowNormGrad()
	case op.NormSums:
		k.sums()
	case op.ChannelStats:
		k.stats()
	case op.ChannelNorm:
		k.channelNorm()
	case op.ChannelNormGrad:
		k.channelNormGrad()
	}
	return c
}

func sizeOf(t *tensor) float64 {
	size := 0.0
	for _, v := range t.values {
		size = max(size, math.Abs(v.f))
	}
	return size
}

func (k *norm) has(flag int64) bool { return k.c.call.I[1]&flag != 0 }

// slot is the row, or the channel, of position p of the elements.
func (k *norm) slot(p int) int {
	channel := p / k.l % k.ch
	if k.groups == 0 {
		return channel
	}
	return p/(k.l*k.ch)*k.groups + channel/(k.ch/k.groups)
}

func (k *norm) slots() int {
	if k.groups == 0 {
		return k.ch
	}
	return k.n * k.groups
}

// moments computes mean and rstd, rounded as they are given to operations that take them.
func (k *norm) moments() {
	sums, squares := make([]compensated, k.slots()), make([]compensated, k.slots())
	counts := make([]float64, k.slots())
	k.mean, k.rstd = make([]float64, k.slots()), make([]float64, k.slots())
	for p, v := range k.a.values {
		sums[k.slot(p)].add(v.f)
		counts[k.slot(p)]++
	}
	for i := range k.mean {
		if !k.has(op.NormRMS) {
			k.mean[i] = sums[i].value() / counts[i]
		}
	}
	for p, v := range k.a.values {
		d := v.f - k.mean[k.slot(p)]
		squares[k.slot(p)].add(d * d)
	}
	for i := range k.rstd {
		k.rstd[i] = 1 / math.Sqrt(squares[i].value()/counts[i]+k.c.call.F[0])
	}
}

// stat makes a tensor of statistics of these values, and rounds the values to what it holds.
func (k *norm) stat(v []float64) *tensor {
	t := newTensor(op.ComputeType(k.m.d), contiguous, len(v))
	for i := range v {
		v[i] = round(t.dtype, v[i])
		t.values[i] = floatValue(v[i])
	}
	return t
}

// given adds mean and rstd to the inputs, or a variance if that is asked for.
func (k *norm) given() {
	if !k.has(op.NormRMS) {
		k.c.in = append(k.c.in, k.stat(k.mean))
	}
	if !k.has(op.NormVariance) {
		k.c.in = append(k.c.in, k.stat(k.rstd))
		return
	}
	variance := make([]float64, len(k.rstd))
	for i, r := range k.rstd {
		variance[i] = 1/(r*r) - k.c.call.F[0]
	}
	k.c.in = append(k.c.in, k.stat(variance))
	for i, v := range variance {
		k.rstd[i] = 1 / math.Sqrt(v+k.c.call.F[0])
	}
}

// affine makes weight and bias, in the second variant of the type of statistics, and of three dimensions, so that they are
// aligned otherwise.
func (k *norm) affine(variant int) {
	vector := func() *tensor {
		d, shape := k.d, []int{k.ch}
		if variant == 1 {
			d, shape = op.ComputeType(d), []int{1, k.ch, 1}
		}
		t := newTensor(d, contiguous, shape...)
		t.fill(k.m.tame(d))
		return t
	}
	if k.has(op.NormWeight) {
		k.weight = vector()
	}
	if k.has(op.NormBias) {
		k.bias = vector()
	}
}

// of is the weight, or 1, and the bias, or 0, of position p.
func (k *norm) of(p int) (weight, bias float64) {
	weight = 1
	if k.weight != nil {
		weight = k.weight.values[p/k.l%k.ch].f
	}
	if k.bias != nil {
		bias = k.bias.values[p/k.l%k.ch].f
	}
	return weight, bias
}

// vectors adds weight and bias to the inputs.
func (k *norm) vectors() {
	for _, t := range []*tensor{k.weight, k.bias} {
		if t != nil {
			k.c.in = append(k.c.in, t)
		}
	}
}

// x is the normalised element p, and the size of what was rounded on the way to it.
func (k *norm) x(p int) (x, size float64) {
	s := k.slot(p)
	x = (k.a.values[p].f - k.mean[s]) * k.rstd[s]
	return x, (math.Abs(x) + k.big*k.rstd[s]) * growth(k.count())
}

// count is the number of elements of a row or channel.
func (k *norm) count() int {
	if k.slots() == 0 {
		return 0
	}
	return len(k.a.values) / k.slots()
}

// growth is that of the rounding errors of sums of n numbers.
func growth(n int) float64 { return 1 + math.Log2(float64(n+1)) + math.Sqrt(float64(n))/8 }

// output adds a tensor of a's shape to the outputs: of the type of the result.
func (k *norm) output() []result {
	d := k.d
	if k.m.id == op.RowNorm {
		d = k.narrow
	}
	k.c.out = append(k.c.out, newTensor(d, contiguous, k.n, k.ch, k.l))
	want := make([]result, len(k.a.values))
	k.c.want = append(k.c.want, want)
	return want
}

// column adds a vector of statistics to the outputs.
func (k *norm) column(want []result) {
	k.c.out = append(k.c.out, newTensor(op.ComputeType(k.m.d), contiguous, len(want)))
	k.c.want = append(k.c.want, want)
}
