package blas

// What libraries compute beside products: bias, another addend, GELU, and the sums that a bias's gradient is.

// Plain reports whether g, of p, is a product without an epilogue: what cuBLAS computes.
func (p *Product) Plain(g *Gemm) bool {
	return g.InPlace && g.Bias == 0 && g.Pre == 0 && g.Sums == 0 && p.Activation == Identity
}

// HasEpilogue reports whether cuBLASLt has an epilogue that is what p wants of g beside the product. Its GELU is the approximation with
// tanh, which it may compute with the hardware's own: that is enough for half types. What it makes of NaN in ReLU is not documented.
func (p *Product) HasEpilogue(g *Gemm) bool {
	switch {
	case g.Count != 1 || p.Dims != 0:
		return false
	case g.Sums != 0:
		return p.Activation == Identity && g.Pre == 0 && p.Beta == 0
	case p.Activation == Identity && g.Pre == 0:
		return true
	case p.Activation != GELUTanh || p.Type.Size() != 2:
		return false
	}
	return g.Pre == 0 || g.LDPre%8 == 0 && g.Pre%16 == 0
}
