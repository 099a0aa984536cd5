package cuda

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/blas"
	"github.com/cistern-ml/cistern/device/cuda/internal/cublas"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
	"github.com/cistern-ml/cistern/device/dtype"
)

// Products with an epilogue go to cuBLASLt, which wants descriptors of the product and its operands, and an algorithm chosen
// for them. Both are kept as a plan: programs multiply the same shapes again and again.

// maxPlans is how many plans a device keeps; with more, all are dropped.
const maxPlans = 512

// planKey is what a plan depends on.
type planKey struct { // no addresses, but what they can be divided by: an algorithm may load 16 bytes at a time
	kind, result     dtype.DType
	tf32             bool
	m, n, k          int
	transA, transB   bool
	lda, ldb, ldc    int
	ldd, ldPre       int
	epilogue         uint32
	alignA, alignB   uint32
	alignC, alignD   uint32
	biasAlign, align uint32 // of bias or sums, and of pre
}

// plan is the descriptors of a product, and an algorithm. refused is set instead if cuBLASLt does not compute it.
type plan struct {
	desc      uintptr
	layouts   [4]uintptr // a, b, c, d
	algo      *[8]uint64 // cublasLtMatmulAlgo_t, of which the library keeps nothing
	workspace uint64     // that the algorithm wants, in bytes
	refused   error      // asking again would cost as much, and give the same
}

// epilogueOf is the epilogue of a product that has one (blas.Product.HasEpilogue).
func epilogueOf(p *blas.Product, g *blas.Gemm) (e uint32) {
	switch {
	case g.Sums != 0 && g.SumsOfB:
		e = cublas.EpilogueSumsOfB
	case g.Sums != 0:
		e = cublas.EpilogueSumsOfA
	case p.Activation == blas.Identity:
	case g.Pre == 0:
		e = cublas.EpilogueGELU
	default:
		e = cublas.EpilogueGELUAux
	}
	if g.Bias != 0 {
		e |= cublas.EpilogueBias
	}
	if e == 0 {
		e = cublas.EpilogueDefault
	}
	return e
}

// alignmentOf is the largest power of two, up to 256, that divides an address.
func alignmentOf(p device.Ptr) uint32 {
	a := uint32(256)
	for uint64(p)%uint64(a) != 0 {
		a /= 2
	}
	return a
}

// planFor returns the plan for g, made if there is none, or the library's reason against it. The caller holds m.mu.
func (m *multiplier) planFor(d *Device, p *blas.Product, g *blas.Gemm) (*plan, error) {
	if !p.HasEpilogue(g) {
		return nil, d.fail("cublasLtMatmul", BLASStatus(cublas.NotSupported), "no epilogue does this")
	}
	key := planKey{
		kind: p.Type, result: p.ResultType(), tf32: p.Type == dtype.Float32 && m.tf32.Load(), m: g.M, n: g.N, k: g.K, transA: g.TransA, transB: g.TransB,
		lda: g.LDA, ldb: g.LDB, ldc: g.LDC, ldd: g.LDD, ldPre: g.LDPre, epilogue: epilogueOf(p, g),
		alignA: alignmentOf(g.A), alignB: alignmentOf(g.B), alignC: alignmentOf(g.C), alignD: alignmentOf(g.D),
		biasAlign: alignmentOf(g.Bias | g.Sums), align: alignmentOf(g.Pre),
	}
	if known := m.plans[key]; known != nil {
		return known, known.refused
	}
	if len(m.plans) >= maxPlans {
		m.dropPlans(d)
	}
	made, err := m.newPlan(d, &key, g)
	if err != nil {
		made.drop(d)
		if status, _ := statusOf(err); cublas.Status(status) != cublas.NotSupported && cublas.Status(status) != cublas.ArchMismatch {
			return nil, err // it may work the next time
		}
		made = &plan{refused: err}
	}
	if m.plans == nil {
		m.plans = map[planKey]*plan{}
	}
	m.plans[key] = made
	return made, made.refused
}

// newPlan makes the descriptors and asks for an algorithm. The plan is returned with an error too, for what it has.
func (m *multiplier) newPlan(d *Device, key *planKey, g *blas.Gemm) (*plan, error) {
	p := new(plan)
	data, compute := types(key.kind, key.tf32)
	scale := uintptr(cublas.R32F)
	if key.kind == dtype.Float64 {
		scale = cublas.R64F
	}
	c, err := d.blasCalls("cuBLASLt")
	if err != nil {
		return p, err
	}
	defer c.release()
	if p.desc, err = c.create(cublas.LtMatmulDescCreate, compute, scale); err != nil {
		return p, err
	}
	if err = c.describe(p.desc, key, g); err != nil {
		return p, err
	}
	for i, s := range key.shapes() {
		of := data
		if i >= 2 { // c and d
			of, _ = types(key.result, key.tf32)
		}
		if p.layouts[i], err = c.create(cublas.LtMatrixLayoutCreate, of, uintptr(s[0]), uintptr(s[1]), uintptr(s[2])); err != nil {
			return p, err
		}
	}
	return p, m.choose(&c, key, p)
}

// setting is an attribute of an object: its number, value, and the size of the value.
type setting struct {
	number uintptr
	value  uint64
	size   uintptr
}

// describe sets what the product is.
func (c *blasCalls) describe(desc uintptr, key *planKey, g *blas.Gemm) error {
	settings := []setting{
		{cublas.DescTransA, uint64(operation(key.transA)), 4},
		{cublas.DescTransB, uint64(operation(key.transB)), 4},
		{cublas.DescEpilogue, uint64(key.epilogue), 4},
	}
	if g.Bias != 0 || g.Sums != 0 { // one is read, the other written, and no product has both; its type is the result's unless that is said
		settings = append(settings, setting{cublas.DescBiasPointer, uint64(g.Bias | g.Sums), 8})
	}
	if g.Pre != 0 {
		settings = append(settings, setting{cublas.DescAuxPointer, uint64(g.Pre), 8}, setting{cublas.DescAuxLD, uint64(key.ldPre), 8})
	}
	return c.setAll(cublas.LtMatmulDescSetAttribute, desc, settings)
}

// shapes are rows, columns and leading dimensions of a, b, c and d as they lie in memory.
func (key *planKey) shapes() [4][3]int {
	shapes := [4][3]int{{key.m, key.k, key.lda}, {key.k, key.n, key.ldb}, {key.m, key.n, key.ldc}, {key.m, key.n, key.ldd}}
	if key.transA {
		shapes[0] = [3]int{key.k, key.m, key.lda}
	}
	if key.transB {
		shapes[1] = [3]int{key.n, key.k, key.ldb}
	}
	return shapes
}

// choose asks for the best algorithm within the workspace.
func (m *multiplier) choose(c *blasCalls, key *planKey, p *plan) error {
	preference, err := c.create(cublas.LtMatmulPreferenceCreate)
	if err != nil {
		return err
	}
	defer c.d.destroyBLAS(cublas.LtMatmulPreferenceDestroy, &preference)
	// Algorithms that add up in the type of the output are left out: a sum in slices would be rounded to half precision in between.
	settings := []setting{{cublas.PrefMaxWorkspace, m.workspace, 8}, {cublas.PrefReductionMask, cublas.ReductionNotOutput, 4}}
	for i, align := range [4]uint32{key.alignA, key.alignB, key.alignC, key.alignD} {
		settings = append(settings, setting{cublas.PrefAlignmentA + uintptr(i), uint64(align), 4})
	}
	if err := c.setAll(cublas.LtMatmulPreferenceSetAttribute, preference, settings); err != nil {
		return err
	}
	result := new(cublas.HeuristicResult)
	c.reset()
	c.add(cublas.LtMatmulAlgoGetHeuristic, m.lt, p.desc, p.layouts[0], p.layouts[1], p.layouts[2], p.layouts[3], preference, 1,
		driver.Keep(c.b, result), c.b.Out(0))
	if err := c.run(); err != nil {
		return err
	}
	if n := int32(c.b.Value(0)); n < 1 || uint32(result.State) != 0 {
		return c.d.fail(cublas.LtMatmulAlgoGetHeuristic.String(), BLASStatus(cublas.NotSupported), "%d algorithms", n)
	}
	p.algo, p.workspace = &result.Algo, result.Workspace
	return nil
}

// drop destroys the descriptors that a plan has.
func (p *plan) drop(d *Device) {
	if p == nil {
		return
	}
	for i := range p.layouts {
		d.destroyBLAS(cublas.LtMatrixLayoutDestroy, &p.layouts[i])
	}
	d.destroyBLAS(cublas.LtMatmulDescDestroy, &p.desc)
}

// dropPlans drops them all. The caller holds m.mu.
func (m *multiplier) dropPlans(d *Device) {
	for _, p := range m.plans {
		p.drop(d)
	}
	m.plans = nil
}

// multiplyLt enqueues a product with an epilogue on a stream.
func (m *multiplier) multiplyLt(s *Stream, p *blas.Product, g *blas.Gemm, work device.Ptr, bytes uint64) error {
	if m.lt == 0 {
		return s.device.fail("cublasLtMatmul", BLASStatus(cublas.NotSupported), "there is no cuBLASLt")
	}
	plan, err := m.planFor(s.device, p, g)
	if err != nil {
		return err
	}
	if bytes < plan.workspace {
		return s.device.fail("cublasLtMatmul", BLASStatus(cublas.AllocFailed), "workspace of %d bytes, needs %d", bytes, plan.workspace)
	}
	c, err := s.blasCalls("MatMul")
	if err != nil {
		return err
	}
	defer c.release()
	alpha, beta := c.scalars(p.Type, p.Alpha, g.Beta)
	// A plan is for all products of its shapes, so its descriptor gets this one's addresses, in the same crossing: m.mu keeps others away
	// until the library has read them.
	if g.Bias != 0 || g.Sums != 0 {
		c.add(cublas.LtMatmulDescSetAttribute, plan.desc, cublas.DescBiasPointer, c.b.Word(2, uint64(g.Bias|g.Sums)), 8)
	}
	if g.Pre != 0 {
		c.add(cublas.LtMatmulDescSetAttribute, plan.desc, cublas.DescAuxPointer, c.b.Word(3, uint64(g.Pre)), 8)
	}
	s.work.note("cublasLtMatmul")
	c.timing = s.time()
	c.timing.begin(c.b)
	l := &plan.layouts
	c.add(cublas.LtMatmul, m.lt, plan.desc, alpha, uintptr(g.A), l[0], uintptr(g.B), l[1], beta, uintptr(g.C), l[2],
		uintptr(g.D), l[3], driver.Keep(c.b, plan.algo), uintptr(work), uintptr(plan.workspace), s.handle)
	c.timing.end(c.b)
	err = c.run()
	if c.timing != nil {
		c.timing.operation = productOperation("cublasLtMatmul", p, g)
	}
	c.timing.finish(err == nil)
	return err
}
