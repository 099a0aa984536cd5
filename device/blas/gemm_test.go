package blas_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/blas"
	"github.com/cistern-ml/cistern/device/dtype"
)

// memory is what the addresses of these tests point into, as float64: address 8*i is element i.
type memory []float64

func (m memory) at(p device.Ptr, i int) *float64 { return &m[int(p)/8+i] }

// run computes the calls of a Gemm as BLAS defines them.
func (m memory) run(p *blas.Product, g *blas.Gemm) {
	for call := range p.Calls(g) {
		h := p.At(g, call)
		if p.Dims == 0 {
			h = *g
		}
		for n := range h.Count {
			for i := range h.M {
				for j := range h.N {
					m.element(p, &h, n, i, j)
				}
			}
		}
	}
}

func (m memory) element(p *blas.Product, g *blas.Gemm, n, i, j int) {
	place := func(transposed bool, ld, row, column int) int {
		if transposed {
			row, column = column, row
		}
		return column*ld + row
	}
	sum := 0.0
	for k := range g.K {
		sum += *m.at(g.A, n*g.StrideA+place(g.TransA, g.LDA, i, k)) * *m.at(g.B, n*g.StrideB+place(g.TransB, g.LDB, k, j))
	}
	v := p.Alpha * sum
	if g.Beta != 0 {
		v += g.Beta * *m.at(g.C, n*g.StrideC+j*g.LDC+i)
	}
	if g.Bias != 0 {
		v += *m.at(g.Bias, i)
	}
	*m.at(g.D, n*g.StrideC+j*g.LDD+i) = v
}

// want computes the product from its definition.
func (m memory) want(p *blas.Product) memory {
	r := append(memory(nil), m...)
	var walk func(d int, at [4]int)
	walk = func(d int, at [4]int) {
		if d < p.Dims {
			for i := range p.Shape[d] {
				next := at
				for k := range next {
					next[k] += i * p.Strides[k][d]
				}
				walk(d+1, next)
			}
			return
		}
		for i := range p.M {
			for j := range p.N {
				v := 0.0
				for k := range p.K {
					v += *m.at(p.A.Ptr, at[1]+i*p.A.Row+k*p.A.Column) * *m.at(p.B.Ptr, at[2]+k*p.B.Row+j*p.B.Column)
				}
				v *= p.Alpha
				if p.Beta != 0 {
					v += p.Beta * *m.at(p.C.Ptr, at[3]+i*p.C.Row+j*p.C.Column)
				}
				*r.at(p.Dst.Ptr, at[0]+i*p.Dst.Row+j*p.Dst.Column) = v
			}
		}
	}
	walk(0, [4]int{})
	return r
}

const (
	dst = device.Ptr(8 * 1)
	inA = device.Ptr(8 * 4001)
	inB = device.Ptr(8 * 8001)
	inC = device.Ptr(8 * 12001)
)

func numbers() memory {
	rng := rand.New(rand.NewPCG(1, 2))
	m := make(memory, 16000)
	for i := range m {
		m[i] = float64(rng.IntN(9) - 4)
	}
	return m
}

func TestGemm_IsTheProductInColumnMajorOrder(t *testing.T) {
	rows := func(p device.Ptr, pitch int) blas.Matrix { return blas.Matrix{Ptr: p, Row: pitch, Column: 1} }
	columns := func(p device.Ptr, pitch int) blas.Matrix { return blas.Matrix{Ptr: p, Row: 1, Column: pitch} }
	for name, p := range map[string]blas.Product{
		"rows":              {M: 3, N: 4, K: 5, Dst: rows(dst, 4), A: rows(inA, 5), B: rows(inB, 4)},
		"pitches":           {M: 3, N: 4, K: 5, Dst: rows(dst, 9), A: rows(inA, 7), B: rows(inB, 6)},
		"transposed inputs": {M: 3, N: 4, K: 5, Dst: rows(dst, 4), A: columns(inA, 3), B: columns(inB, 8)},
		"transposed result": {M: 3, N: 4, K: 5, Dst: columns(dst, 3), A: rows(inA, 5), B: columns(inB, 5)},
		"one row":           {M: 1, N: 4, K: 5, Dst: rows(dst, 77), A: rows(inA, -3), B: columns(inB, 5)},
		"one column":        {M: 3, N: 1, K: 5, Dst: blas.Matrix{Ptr: dst, Row: 2, Column: 1}, A: rows(inA, 5), B: blas.Matrix{Ptr: inB, Row: 1, Column: 9}},
		"a column in rows":  {M: 3, N: 1, K: 5, Dst: rows(dst, 1), A: rows(inA, 5), B: blas.Matrix{Ptr: inB, Row: 3, Column: 1}},
		"k of one":          {M: 3, N: 4, K: 1, Dst: rows(dst, 4), A: rows(inA, 1), B: rows(inB, 4)},
		"bias":              {M: 3, N: 4, K: 5, Dst: rows(dst, 4), A: rows(inA, 5), B: rows(inB, 4), Beta: 1, C: blas.Matrix{Ptr: inC, Column: 1}},
		"addend":            {M: 3, N: 4, K: 5, Dst: rows(dst, 4), A: rows(inA, 5), B: rows(inB, 4), Beta: 2, C: rows(inC, 6)},
		"in place":          {M: 3, N: 4, K: 5, Dst: rows(dst, 4), A: rows(inA, 5), B: rows(inB, 4), Beta: 2, C: rows(dst, 4)},
		"batch": {M: 3, N: 4, K: 5, Dst: rows(dst, 4), A: rows(inA, 5), B: rows(inB, 4), Dims: 1,
			Shape: [8]int{6}, Strides: [4][8]int{{12}, {15}, {0}}},
		"heads": { // [2, 3 heads, 4, 5] as a view of [2, 4, 3, 5]
			M: 4, N: 4, K: 5, Dst: rows(dst, 4), A: rows(inA, 15), B: columns(inB, 15), Dims: 2,
			Shape: [8]int{2, 3}, Strides: [4][8]int{{48, 16}, {60, 5}, {60, 5}}},
		"batch in place, transposed": {M: 3, N: 4, K: 5, Dst: columns(dst, 3), A: rows(inA, 5), B: rows(inB, 4), Beta: 1, C: columns(dst, 3), Dims: 2,
			Shape: [8]int{4, 2}, Strides: [4][8]int{{12, 100}, {15, 0}, {0, 20}, {12, 100}}},
	} {
		t.Run(name, func(t *testing.T) {
			p.Type, p.Alpha = dtype.Float64, 2
			m := numbers()
			want := m.want(&p)
			g, ok := p.Gemm()
			require.True(t, ok)
			m.run(&p, &g)
			require.Equal(t, want, m)
		})
	}
}

func TestGemm_RefusesWhatBLASDoesNotKnow(t *testing.T) {
	good := blas.Product{Type: dtype.Float32, M: 3, N: 4, K: 5, Alpha: 1, Dst: blas.Matrix{Ptr: dst, Row: 4, Column: 1},
		A: blas.Matrix{Ptr: inA, Row: 5, Column: 1}, B: blas.Matrix{Ptr: inB, Row: 4, Column: 1}}
	_, ok := good.Gemm()
	require.True(t, ok)
	for name, change := range map[string]func(p *blas.Product){
		"no direction is contiguous": func(p *blas.Product) { p.A.Column = 2 },
		"rows overlap":               func(p *blas.Product) { p.A.Row = 4 },
		"rows are the same":          func(p *blas.Product) { p.B.Row = 0 },
		"backwards":                  func(p *blas.Product) { p.B.Row = -4 },
		"result with gaps":           func(p *blas.Product) { p.Dst.Column, p.Dst.Row = 2, 8 },
		"nothing":                    func(p *blas.Product) { p.K = 0 },
		"too large":                  func(p *blas.Product) { p.M = 1 << 31 },
		"addend in another order":    func(p *blas.Product) { p.Beta, p.C = 1, blas.Matrix{Ptr: inC, Row: 1, Column: 3} },
		"addend over part of dst":    func(p *blas.Product) { p.Beta, p.C = 1, blas.Matrix{Ptr: dst, Row: 5, Column: 1} },
		"pre in another order":       func(p *blas.Product) { p.Pre = blas.Matrix{Ptr: inC, Row: 1, Column: 3} },
		"batch with a bias": func(p *blas.Product) {
			p.Dims, p.Shape[0], p.Strides[0][0], p.Beta, p.C = 1, 2, 12, 1, blas.Matrix{Ptr: inC, Column: 1}
		},
		"batch that walks backwards":   func(p *blas.Product) { p.Dims, p.Shape[0], p.Strides[0][0], p.Strides[1][0] = 1, 2, 12, -15 },
		"batch of many, many products": func(p *blas.Product) { p.Dims, p.Shape, p.Strides[0] = 2, [8]int{100, 100}, [8]int{1200, 12} },
	} {
		p := good
		change(&p)
		_, ok := p.Gemm()
		require.False(t, ok, name)
	}
}
