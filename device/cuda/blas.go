package cuda

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/blas"
	"github.com/cistern-ml/cistern/device/cuda/internal/cublas"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
	"github.com/cistern-ml/cistern/tensor/dtype"
)

var _ blas.Multiplier = (*Device)(nil)

// multiplier is a device's use of cuBLAS. There is one handle for all streams, because a handle holds memory of the driver's that
// no allocator here knows of; a call sets stream and workspace under the lock, which it holds for the microseconds in which
// the library puts work on the stream.
type multiplier struct {
	beginning sync.Mutex      // held while the library is being opened
	begun     atomic.Bool     // it has been, well or badly
	library   *cublas.Library // nil if it is not used
	reason    error           // why not

	mu     sync.Mutex // guards the handles' settings, and plans
	handle uintptr
	lt     uintptr // 0 if cuBLASLt is not used
	plans  map[planKey]*plan

	workspace uint64 // bytes
	off       atomic.Bool
	tf32      atomic.Bool
	products  atomic.Uint64
	refusals  atomic.Uint64
	refusal   atomic.Pointer[device.Error] // the last one
}

// multiplies returns what multiplies, or nil. It loads the library if nobody has asked before, but not while a capture goes on:
// making a handle allocates memory and may wait, which can end the capture. Products that are captured before any other are
// computed by own kernels.
func (d *Device) multiplies() *multiplier {
	m := &d.blas
	if !m.begun.Load() && !m.start(d) || m.library == nil {
		return nil
	}
	return m
}

// start is begin, once. It reports false if now is not the time.
func (m *multiplier) start(d *Device) bool {
	m.beginning.Lock()
	defer m.beginning.Unlock()
	if m.begun.Load() {
		return true
	}
	if d.Capturing() {
		return false
	}
	if m.reason = m.begin(d); m.reason != nil {
		m.library = nil
	}
	m.begun.Store(true)
	return true
}

// takes returns what products go to, or nil.
func (d *Device) takes() *multiplier {
	if d.blas.off.Load() {
		return nil
	}
	return d.multiplies()
}

// begin opens the library and makes the handles. Without cuBLASLt's, products without an epilogue still work.
func (m *multiplier) begin(d *Device) (err error) {
	if m.library, err = d.system.cublas(); err != nil {
		return d.fail("cuBLAS", device.ErrUnavailable, "%v", err)
	}
	if m.workspace, err = workspaceSize(d.properties.Major); err != nil {
		return d.fail("cuBLAS", device.ErrInvalidValue, "%v", err)
	}
	c, err := d.blasCalls("cuBLAS")
	if err != nil {
		return err
	}
	defer c.release()
	c.add(cublas.Create, c.b.Out(0))
	if err := c.run(); err != nil {
		return err
	}
	m.handle = uintptr(c.b.Value(0))
	c.reset()
	c.add(cublas.SetMathMode, m.handle, cublas.MathDefault|cublas.MathDisallowReducedReduction)
	if err := c.run(); err != nil {
		m.destroy(d)
		return err
	}
	if m.library.Lt() {
		c.reset()
		c.add(cublas.LtCreate, c.b.Out(0))
		if err := c.run(); err == nil {
			m.lt = uintptr(c.b.Value(0))
		} else {
			m.refuse(err)
		}
	}
	return nil
}

// destroy gives the handles and plans back. There is nobody to tell of an error: the device is being closed, or not begun.
func (m *multiplier) destroy(d *Device) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropPlans(d)
	d.destroyBLAS(cublas.LtDestroy, &m.lt)
	d.destroyBLAS(cublas.Destroy, &m.handle)
}

// destroyBLAS gives an object of the library back. If the call fails it is made once more: then there is nothing left to do.
func (d *Device) destroyBLAS(f cublas.Func, object *uintptr) {
	for try := 0; *object != 0 && try < 2; try++ {
		c, err := d.blasCalls("cuBLAS")
		if err != nil {
			break // the device is lost, and what it had with it
		}
		c.add(f, *object)
		err = c.run()
		c.release()
		if err == nil {
			break
		}
	}
	*object = 0
}

// refuse counts a call that the library did not take.
func (m *multiplier) refuse(err error) {
	m.refusals.Add(1)
	if e, ok := err.(*device.Error); ok {
		m.refusal.Store(e)
	}
}

// MatMulWorkspace implements blas.Multiplier.
func (d *Device) MatMulWorkspace(p *blas.Product) (bytes uint64, ok bool) {
	m := d.takes()
	if m == nil {
		return 0, false
	}
	g, ok := p.Gemm()
	switch {
	case !ok:
		return 0, false
	case plain(p, &g):
		return m.workspace, true
	case m.lt == 0:
		return 0, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	plan, err := m.planFor(d, p, &g)
	if err != nil {
		return 0, false
	}
	return plan.workspace, true
}

// plain reports whether cuBLAS computes it. The rest is for cuBLASLt.
func plain(p *blas.Product, g *blas.Gemm) bool {
	return g.InPlace && g.Bias == 0 && g.Pre == 0 && p.Activation == blas.Identity
}

// MatMul implements blas.Multiplier.
func (d *Device) MatMul(s device.Stream, p *blas.Product, work device.Ptr, bytes uint64) (done bool, err error) {
	m := d.takes()
	if m == nil {
		return false, nil
	}
	own, err := d.ownStream("MatMul", s)
	if err != nil {
		return false, err
	}
	g, ok := p.Gemm()
	if !ok {
		return false, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	begun := false
	if plain(p, &g) {
		begun, err = m.multiply(own, p, &g, work, bytes)
	} else {
		err = m.multiplyLt(own, p, &g, work, bytes)
	}
	if err == nil {
		m.products.Add(1)
		return true, nil
	}
	if e, ok := err.(*device.Error); ok && !begun {
		if status, ok := e.Err.(BLASStatus); ok && cublas.Status(status).Refused() {
			m.refuse(err)
			return false, nil
		}
	}
	return false, err
}

// multiply makes the calls of a product without an epilogue. begun says that one of several calls has put work on the stream.
func (m *multiplier) multiply(s *Stream, p *blas.Product, g *blas.Gemm, work device.Ptr, bytes uint64) (begun bool, err error) {
	c, err := s.blasCalls("MatMul")
	if err != nil {
		return false, err
	}
	defer c.release()
	c.add(cublas.SetStream, m.handle, s.handle) // takes the workspace away
	c.add(cublas.SetWorkspace, m.handle, uintptr(work), uintptr(bytes))
	for i := range p.Calls(g) {
		at := p.At(g, i)
		if p.Dims == 0 {
			at = *g
		}
		s.work.note("cublasGemmEx")
		c.gemm(m, p, &at)
		if err := c.run(); err != nil {
			return i > 0, err
		}
		c.reset()
	}
	return false, nil
}

// gemm adds the call of one product, or of a strided batch.
func (c *blasCalls) gemm(m *multiplier, p *blas.Product, g *blas.Gemm) {
	t, compute := types(p.Type, m.tf32.Load())
	alpha, beta := c.scalars(p.Type, p.Alpha, g.Beta)
	opA, opB := operation(g.TransA), operation(g.TransB)
	rows, columns, depth := uintptr(g.M), uintptr(g.N), uintptr(g.K)
	if p.Dims == 0 {
		c.add(cublas.GemmEx, m.handle, opA, opB, rows, columns, depth, alpha, uintptr(g.A), t, uintptr(g.LDA),
			uintptr(g.B), t, uintptr(g.LDB), beta, uintptr(g.D), t, uintptr(g.LDD), compute, cublas.GemmDefault)
		return
	}
	c.add(cublas.GemmStridedBatchedEx, m.handle, opA, opB, rows, columns, depth, alpha,
		uintptr(g.A), t, uintptr(g.LDA), uintptr(g.StrideA), uintptr(g.B), t, uintptr(g.LDB), uintptr(g.StrideB), beta,
		uintptr(g.D), t, uintptr(g.LDD), uintptr(g.StrideC), uintptr(g.Count), compute, cublas.GemmDefault)
}

func operation(transposed bool) uintptr {
	if transposed {
		return cublas.OpT
	}
	return cublas.OpN
}

// types are the library's numbers for an element type and what it is computed with.
func types(d dtype.DType, tf32 bool) (data, compute uintptr) {
	switch d {
	case dtype.Float64:
		return cublas.R64F, cublas.Compute64F
	case dtype.Float16:
		return cublas.R16F, cublas.Compute32F
	case dtype.BFloat16:
		return cublas.R16BF, cublas.Compute32F
	}
	if tf32 {
		return cublas.R32F, cublas.Compute32FFastTF32
	}
	return cublas.R32F, cublas.Compute32F
}

// scalars puts alpha and beta where the library reads them, in the type of computation.
func (c *blasCalls) scalars(d dtype.DType, alpha, beta float64) (a, b uintptr) {
	if d == dtype.Float64 {
		return c.b.Word(0, math.Float64bits(alpha)), c.b.Word(1, math.Float64bits(beta))
	}
	return c.b.Word(0, uint64(math.Float32bits(float32(alpha)))), c.b.Word(1, uint64(math.Float32bits(float32(beta))))
}

// blasCalls is a batch of calls of the library in the device's context.
type blasCalls struct {
	d       *Device
	b       *driver.Batch
	library *cublas.Library
	first   int // calls of the driver before those of the library
	n       int
	funcs   [4]cublas.Func
}

func (d *Device) blasCalls(call string) (c blasCalls, err error) {
	b, err := d.begin(call)
	return blasCalls{d: d, b: b, library: d.blas.library, first: 1}, err
}

func (s *Stream) blasCalls(call string) (c blasCalls, err error) {
	b, err := s.begin(call)
	return blasCalls{d: s.device, b: b, library: s.device.blas.library, first: 1}, err
}

func (c *blasCalls) add(f cublas.Func, args ...uintptr) {
	c.b.AddForeign(c.library.Address(f), args...)
	c.funcs[c.n] = f
	c.n++
}

// run makes the calls. The error of the library is a *device.Error that has a BLASStatus.
func (c *blasCalls) run() error {
	f, r := c.b.Run()
	switch {
	case r == driver.Success:
		return nil
	case f != driver.Foreign:
		return c.d.failed(f, r, "")
	}
	return &device.Error{Device: c.d.id, Call: c.funcs[c.b.Done()-c.first].String(), Err: BLASStatus(r)}
}

// reset empties the batch, but for the context.
func (c *blasCalls) reset() {
	c.b.Reset()
	c.b.Add(driver.CtxSetCurrent, c.d.context.Load())
	c.n = 0
}

func (c *blasCalls) release() { c.b.Release() }
