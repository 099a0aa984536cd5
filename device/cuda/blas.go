package cuda

import (
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/blas"
	"github.com/cistern-ml/cistern/device/cuda/internal/cublas"
)

var _ blas.Multiplier = (*Device)(nil)

// multiplier is a device's use of cuBLAS. There is one handle for all streams, because a handle holds memory of the driver's that
// no allocator here knows of; a call sets stream and workspace under the lock, which it holds for the microseconds in which
// the library enqueues work on the stream.
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
	d.waiting.RLock() // and no capture begins before it is done
	defer d.waiting.RUnlock()
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

// refuse counts a call that the library did not take.
func (m *multiplier) refuse(err error) {
	m.refusals.Add(1)
	if e, ok := err.(*device.Error); ok {
		m.refusal.Store(e)
	}
}

// HasLibrary implements blas.Multiplier.
func (d *Device) HasLibrary() bool { return d.orAbsent().takes() != nil }

// MatMulWorkspace implements blas.Multiplier.
func (d *Device) MatMulWorkspace(p *blas.Product) (bytes uint64, ok bool) {
	d = d.orAbsent()
	m := d.takes()
	if m == nil {
		return 0, false
	}
	g, ok := p.Gemm()
	switch {
	case !ok:
		return 0, false
	case p.Plain(&g):
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

// MatMul implements blas.Multiplier.
func (d *Device) MatMul(s device.Stream, p *blas.Product, work device.Ptr, bytes uint64) (done bool, err error) {
	d = d.orAbsent()
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
	m.mu.Lock() // until the product is enqueued: stream and workspace are settings of the one handle
	defer m.mu.Unlock()
	begun := false
	if p.Plain(&g) {
		begun, err = m.multiply(own, p, &g, work, bytes)
	} else {
		err = m.multiplyLt(own, p, &g, work, bytes)
	}
	if err == nil {
		m.products.Add(1)
		return true, nil
	}
	// What the library refuses before any work was begun our own kernels compute; other errors leave open what is on the stream.
	if e, ok := err.(*device.Error); ok && !begun {
		if status, ok := e.Err.(BLASStatus); ok && cublas.Status(status).Refused() {
			m.refuse(err)
			return false, nil
		}
	}
	return false, err
}
