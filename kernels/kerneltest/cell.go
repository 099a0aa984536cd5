package kerneltest

import (
	"iter"
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

// cells are the cases of the cells of recurrent layers: rows and units of different numbers, rows that lie apart, gradients
// that are written over the gates.
func (m *maker) cells() iter.Seq[*testCase] {
	return list(func(emit func(*testCase)) {
		for _, shape := range [][2]int{{1, 1}, {3, 5}, {0, 4}, {2, 0}, {4, 64}, {7, 33}, {2, 1030}, {40, 96}} {
			for _, gap := range []int{0, 3} {
				for alias := range 2 {
					if m.due() {
						emit(m.cell(shape[0], shape[1], gap, alias))
					}
				}
			}
		}
	})
}

// cellViews says how many gates each view of a cell has: outputs, then inputs.
var cellViews = map[op.ID][2][]int{
	op.LSTMCell:     {{4, 1, 1}, {1}},
	op.LSTMCellGrad: {{4, 1}, {4, 1, 1, 1, 1, 1}},
	op.GRUCell:      {{3, 1, 1}, {3, 1}},
	op.GRUCellGrad:  {{3, 3, 1}, {3, 1, 1, 1, 1}},
}

func (m *maker) cell(rows, units, gap, alias int) *testCase {
	c := m.newCase()
	c.ulps = 6
	gradient := m.id == op.LSTMCellGrad || m.id == op.GRUCellGrad
	c.inPlace = !gradient
	if gradient {
		c.alias = alias
	}
	make2 := func(gates int, next func() value) *tensor {
		t := newTensor(m.d, contiguous, rows, gates*units)
		t.strides[0] += gap
		t.measure()
		t.fill(next)
		return t
	}
	views := cellViews[m.id]
	for _, gates := range views[0] {
		c.out = append(c.out, make2(gates, m.tame(m.d)))
		c.want = append(c.want, make([]result, rows*gates*units))
	}
	for i, gates := range views[1] {
		next := m.tame(m.d)
		if gradient && i == 0 {
			next = m.within(m.d, 0.0625, 0.9375)
		}
		c.in = append(c.in, make2(gates, next))
	}
	for row := range rows {
		for unit := range units {
			m.unit(c, units, row, unit)
		}
	}
	return c
}

// unit computes what is wanted of one unit of one row.
func (m *maker) unit(c *testCase, units, row, unit int) {
	at := func(t *tensor, gate int) float64 { return t.at(row, gate*units+unit).f }
	want := func(o, gate int, r result) { c.want[o][c.out[o].position(row, gate*units+unit)] = r }
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	switch m.id {
	case op.LSTMCell:
		i, f, o := sigmoid(at(c.out[0], 0)), sigmoid(at(c.out[0], 1)), sigmoid(at(c.out[0], 3))
		g := math.Tanh(at(c.out[0], 2))
		state, size := f*at(c.in[0], 0)+i*g, math.Abs(f*at(c.in[0], 0))+math.Abs(i*g)
		for gate, v := range []float64{i, f, g, o} {
			want(0, gate, exact(v))
		}
		want(1, 0, scaled(o*math.Tanh(state), o*size))
		want(2, 0, scaled(state, size))
	case op.LSTMCellGrad:
		i, f, g, o := at(c.in[0], 0), at(c.in[0], 1), at(c.in[0], 2), at(c.in[0], 3)
		p, t, dc := at(c.in[1], 0), math.Tanh(at(c.in[2], 0)), at(c.in[5], 0)
		y, r := at(c.in[3], 0), at(c.in[4], 0)
		dh, size := y+r, math.Abs(y)+math.Abs(r)
		d, spread := dh*o*(1-t*t)+dc, size+math.Abs(dc)
		want(0, 0, scaled(d*g*i*(1-i), spread))
		want(0, 1, scaled(d*p*f*(1-f), spread*math.Abs(p)))
		want(0, 2, scaled(d*i*(1-g*g), spread))
		want(0, 3, scaled(dh*t*o*(1-o), size))
		want(1, 0, scaled(d*f, spread))
	case op.GRUCell:
		share, p := at(c.in[0], 2), at(c.in[1], 0)
		sums := []float64{at(c.out[0], 0), at(c.out[0], 1), at(c.out[0], 2)}
		r, z := sigmoid(sums[0]+at(c.in[0], 0)), sigmoid(sums[1]+at(c.in[0], 1))
		n := math.Tanh(sums[2] + r*share)
		size := math.Abs(sums[0]) + math.Abs(sums[1]) + math.Abs(sums[2]) + math.Abs(share) + math.Abs(p) +
			math.Abs(at(c.in[0], 0)) + math.Abs(at(c.in[0], 1)) + 1
		want(0, 0, scaled(r, size/8))
		want(0, 1, scaled(z, size/8))
		want(0, 2, scaled(n, size))
		want(1, 0, scaled(n+z*(p-n), size))
		want(2, 0, exact(share))
	case op.GRUCellGrad:
		r, z, n, inner, p := at(c.in[0], 0), at(c.in[0], 1), at(c.in[0], 2), at(c.in[1], 0), at(c.in[2], 0)
		dh, size := at(c.in[3], 0)+at(c.in[4], 0), math.Abs(at(c.in[3], 0))+math.Abs(at(c.in[4], 0))
		dz, dn := dh*(p-n)*z*(1-z), dh*(1-z)*(1-n*n)
		dr := dn * inner * r * (1 - r)
		toZ, toN, toR := scaled(dz, size*(math.Abs(p)+1)), scaled(dn, size), scaled(dr, size*math.Abs(inner))
		for o, last := range []result{toN, scaled(dn*r, size)} {
			want(o, 0, toR)
			want(o, 1, toZ)
			want(o, 2, last)
		}
		want(2, 0, scaled(dh*z, size))
	}
}
