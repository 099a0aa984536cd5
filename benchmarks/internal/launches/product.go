package launches

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/blas"
)

// HasLibrary implements blas.Multiplier.
func (d *Device) HasLibrary() bool { return true }

// workspace is what products are given: cuBLAS's default on most GPUs. How much does not matter to the counts.
const workspace = 8 << 20

// MatMulWorkspace implements blas.Multiplier.
func (d *Device) MatMulWorkspace(p *blas.Product) (bytes uint64, ok bool) {
	if _, _, ok := takes(p); !ok {
		return 0, false
	}
	return workspace, true
}

// MatMul implements blas.Multiplier.
func (d *Device) MatMul(_ device.Stream, p *blas.Product, _ device.Ptr, _ uint64) (done bool, err error) {
	g, name, ok := takes(p)
	if !ok {
		return false, nil
	}
	n := p.Calls(&g)
	d.add(Count{Name: name, Operations: n, LibraryCalls: n, Bytes: productBytes(p, &g)})
	return true, nil
}

// takes is a product in the library's words, and which function computes it.
func takes(p *blas.Product) (g blas.Gemm, name string, ok bool) {
	g, ok = p.Gemm()
	switch {
	case !ok:
		return g, "", false
	case p.Plain(&g):
		return g, "product, cuBLAS", true
	case p.HasEpilogue(&g):
		return g, "product, cuBLASLt", true
	}
	return g, "", false
}

// productBytes is what a product moves at least.
func productBytes(p *blas.Product, g *blas.Gemm) int64 {
	size := int64(p.Type.Size())
	batch := func(operand int) int64 { // how many different matrices there are of an operand
		n := int64(1)
		for d := range p.Dims {
			if p.Strides[operand][d] != 0 {
				n *= int64(p.Shape[d])
			}
		}
		return n
	}
	m, n, k := int64(p.M), int64(p.N), int64(p.K)
	total := batch(0)*m*n + batch(1)*m*k + batch(2)*k*n
	switch {
	case g.Bias != 0:
		total += int64(g.M)
	case p.Beta != 0:
		total += batch(3) * m * n
	}
	if g.Pre != 0 {
		total += m * n
	}
	return total * size
}
