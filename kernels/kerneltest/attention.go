package kerneltest

import (
	"iter"
	"math"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// attentionSize are the sizes of a case: batches, heads of q, heads of k and v, queries, keys, and elements of heads.
type attentionSize struct{ b, h, g, t, s, d, e int }

var attentionSizes = []attentionSize{
	{1, 1, 1, 1, 1, 1, 1}, {2, 3, 3, 5, 7, 4, 4}, {1, 4, 2, 3, 9, 8, 5}, {1, 2, 1, 33, 20, 16, 16}, {2, 2, 2, 0, 3, 4, 4},
	{1, 2, 2, 3, 0, 4, 4}, {1, 1, 1, 6, 4, 0, 3}, {1, 1, 1, 6, 4, 3, 0}, {1, 2, 2, 70, 67, 24, 40}, {1, 1, 1, 66, 150, 64, 32},
	{1, 2, 1, 34, 129, 40, 72}, {1, 1, 1, 3, 5, 6, 140}, {1, 1, 1, 3, 5, 133, 2}, {0, 2, 2, 3, 3, 4, 4},
	{2, 0, 2, 3, 3, 4, 4},
}

// attentionTiles have several tiles of queries and of keys, for kernels of short and long heads. They always run, unmasked. Where rows of v
// are short, little hides an error of the gradient of q.
var attentionTiles = []attentionSize{
	{1, 1, 1, 150, 140, 40, 24}, {1, 1, 1, 150, 140, 64, 56}, {1, 1, 1, 150, 140, 72, 128}, {1, 1, 1, 70, 40, 128, 8},
	// Two heads of queries for one of keys, each of an odd number of tiles: the second begins where the first one ended.
	{1, 2, 1, 70, 40, 64, 64}, {1, 2, 1, 70, 40, 96, 96}, {1, 2, 1, 70, 40, 128, 128},
}

// attentionEdges lie at the ends of blocks, of 64 or 128 queries and keys, of the kernels, and always run. Some are
// for the kernels of tensor cores.
var attentionEdges = []attentionSize{
	{1, 1, 1, 63, 64, 8, 8}, {1, 1, 1, 64, 65, 8, 8}, {1, 1, 1, 65, 63, 8, 8}, {1, 1, 1, 127, 64, 8, 8}, {1, 1, 1, 128, 129, 8, 8},
	{1, 1, 1, 129, 127, 8, 8},
}

// attentionKind is how a case sees its keys.
type attentionKind struct {
	causal  bool
	mask    string // "", "bool" or "float"
	dropout float64
	seeded  bool // key and shift of the random numbers are in memory
}

var attentionKinds = []attentionKind{
	{}, {causal: true}, {mask: "bool"}, {mask: "float"}, {dropout: 0.3}, {causal: true, dropout: 0.5},
	{mask: "float", dropout: 1}, {mask: "bool", dropout: 0.25}, {dropout: 0.3, seeded: true}, {mask: "float", dropout: 0.5, seeded: true},
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
		for k, s := range attentionTiles {
			emit(m.attentionAlways(s, attentionKind{}, plans[0], k > 0))
		}
		for k, s := range attentionEdges {
			emit(m.attentionAlways(s, attentionKind{causal: k == 2}, plans[0], k != 1))
		}
		// No depth: only the mask tells one tile from the next.
		emit(m.attentionAlways(attentionSize{1, 1, 1, 70, 140, 0, 3}, attentionKind{mask: "float"}, plans[0], false))
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
	return m.attentionAlways(s, kind, plan, fused)
}

func (m *maker) attentionAlways(s attentionSize, kind attentionKind, plan [4]layout, fused bool) *testCase {
	if m.leavesOut() {
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
	} else {
		c.in, c.out = append([]*tensor{q, k, v}, mask...), []*tensor{out, lse}
	}
	if kind.seeded {
		c.seed(1, 2)
		c.call.I[3] = 1
	}
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
