package blas

import "github.com/cistern-ml/cistern/device"

// Gemm is a Product as BLAS has it: matrices in column-major order, each with one leading dimension.
//
//	D = f(alpha * op(A) * op(B) + beta * C + bias)
//
// where D is M by N. A product whose result is row-major, as most are, is computed as its transpose: D' = op(B)' * op(A)'.
type Gemm struct {
	M, N, K          int
	TransA, TransB   bool
	A, B, C, D       device.Ptr
	LDA, LDB, LDC    int
	LDD              int
	InPlace          bool       // C is D, or there is no C: what cuBLAS itself computes
	Bias             device.Ptr // M elements, one for each row of D; 0 for none. Then there is no C
	Pre              device.Ptr
	LDPre            int
	Beta             float64    // of C: 0 if there is none
	Sums             device.Ptr // of op(A)'s rows, M elements, or of op(B)'s columns, N elements; 0 for none
	SumsOfB          bool
	Count            int // products in one call
	StrideA, StrideB int
	StrideC          int
	swapped          bool // operands a and b of the product are B and A here
	outer            int  // the batch dimension that Count stands for, or -1
}

// maxCalls is how many calls a batch may take, each with one of its dimensions. With more the products are small ones.
const maxCalls = 64

// Gemm returns p in the words of BLAS. It reports false for layouts that BLAS does not have (no direction of an operand is
// contiguous, rows overlap, walks are backwards) and sizes beyond its 32-bit numbers.
func (p *Product) Gemm() (g Gemm, ok bool) {
	if p.M == 0 || p.N == 0 || p.K == 0 || max(p.M, p.N, p.K) > 1<<31-1 {
		return g, false
	}
	transposed := p.transposed()
	if g, ok = transposed.columns(); ok { // dst is row-major
		g.swapped, g.SumsOfB = true, g.Sums != 0
		return g, p.batch(&g)
	}
	if g, ok = p.columns(); ok {
		return g, p.batch(&g)
	}
	return g, false
}

// transposed is the product of the transposes.
func (p *Product) transposed() (q Product) {
	q = *p
	q.M, q.N = p.N, p.M
	q.A, q.B = p.B.transposed(), p.A.transposed()
	q.Dst, q.C, q.Pre = p.Dst.transposed(), p.C.transposed(), p.Pre.transposed()
	return q
}

// columns writes down p, whose result must be column-major, without its batch.
func (p *Product) columns() (g Gemm, ok bool) {
	g = Gemm{M: p.M, N: p.N, K: p.K, A: p.A.Ptr, B: p.B.Ptr, D: p.Dst.Ptr, Sums: p.Sums, Count: 1, outer: -1}
	if g.LDD, ok = p.Dst.leading(p.M, p.N); !ok {
		return g, false
	}
	if g.LDA, g.TransA, ok = p.A.either(p.M, p.K); !ok {
		return g, false
	}
	if g.LDB, g.TransB, ok = p.B.either(p.K, p.N); !ok {
		return g, false
	}
	if p.Pre.Ptr != 0 {
		if g.LDPre, ok = p.Pre.leading(p.M, p.N); !ok {
			return g, false
		}
		g.Pre = p.Pre.Ptr
	}
	return g, p.addend(&g)
}

// addend finds the place of c: D itself, a bias, or a matrix of its own.
func (p *Product) addend(g *Gemm) (ok bool) {
	g.C, g.LDC, g.InPlace = g.D, g.LDD, true
	switch {
	case p.Beta == 0:
		return true
	case p.C.Ptr == p.Dst.Ptr:
		g.Beta = p.Beta
		return p.C == p.Dst
	case p.Beta == 1 && (p.C.Row == 1 || p.M == 1) && (p.C.Column == 0 || p.N == 1):
		g.Bias = p.C.Ptr
		return true
	}
	g.C, g.Beta, g.InPlace = p.C.Ptr, p.Beta, false
	g.LDC, ok = p.C.leading(p.M, p.N)
	return ok
}

// leading is the leading dimension of a matrix of so many rows and columns in column-major order. It reports false if the
// matrix does not lie like that.
func (a Matrix) leading(rows, columns int) (ld int, ok bool) {
	if a.Row != 1 && rows > 1 {
		return 0, false
	}
	if columns == 1 {
		return max(rows, 1), true
	}
	return a.Column, a.Column >= rows && a.Column <= 1<<31-1
}

// either is leading of the matrix or else of its transpose.
func (a Matrix) either(rows, columns int) (ld int, transposed, ok bool) {
	if ld, ok = a.leading(rows, columns); ok {
		return ld, false, true
	}
	ld, ok = a.transposed().leading(columns, rows)
	return ld, true, ok
}

// batch takes the largest batch dimension into the call and checks the others.
func (p *Product) batch(g *Gemm) bool {
	if p.Dims == 0 {
		return true
	}
	if !g.InPlace || g.Bias != 0 || g.Pre != 0 || g.Sums != 0 || p.Activation != Identity {
		return false
	}
	calls := 1
	for d := range p.Dims {
		if p.Strides[0][d] <= 0 || p.Strides[1][d] < 0 || p.Strides[2][d] < 0 || p.Beta != 0 && p.Strides[3][d] != p.Strides[0][d] {
			return false
		}
		calls *= p.Shape[d]
		if g.outer < 0 || p.Shape[d] > g.Count {
			g.outer, g.Count = d, p.Shape[d]
		}
	}
	s := &p.Strides
	g.StrideA, g.StrideB, g.StrideC = s[1][g.outer], s[2][g.outer], s[0][g.outer]
	if g.swapped {
		g.StrideA, g.StrideB = g.StrideB, g.StrideA
	}
	return calls/g.Count <= maxCalls && g.Count <= 1<<31-1
}

// Calls is how many calls, of Count products each, make up the batch.
func (p *Product) Calls(g *Gemm) int {
	n := 1
	for d, size := range p.Shape[:p.Dims] {
		if d != g.outer {
			n *= size
		}
	}
	return n
}

// At is g for call i of Calls.
func (p *Product) At(g *Gemm, i int) Gemm {
	h := *g
	a, b := &h.A, &h.B
	if g.swapped {
		a, b = b, a
	}
	size, result := p.Type.Size(), p.ResultType().Size()
	for d := p.Dims - 1; d >= 0; d-- {
		if d == g.outer {
			continue
		}
		at := i % p.Shape[d]
		i /= p.Shape[d]
		step := func(s, size int) device.Ptr { return device.Ptr(at * s * size) }
		h.D += step(p.Strides[0][d], result)
		*a += step(p.Strides[1][d], size)
		*b += step(p.Strides[2][d], size)
	}
	h.C = h.D
	return h
}
