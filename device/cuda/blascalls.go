package cuda

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/internal/cublas"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
)

// blasCalls is a batch of calls of the library in the device's context.
type blasCalls struct {
	d       *Device
	b       *driver.Batch
	library *cublas.Library
	timing  *timing        // of the operation among the calls; nil if it is not timed
	funcs   [6]cublas.Func // of the library, by their place in the batch
}

func (d *Device) blasCalls(call string) (c blasCalls, err error) {
	b, err := d.begin(call)
	return blasCalls{d: d, b: b, library: d.blas.library}, err
}

func (s *Stream) blasCalls(call string) (c blasCalls, err error) {
	b, err := s.begin(call)
	return blasCalls{d: s.device, b: b, library: s.device.blas.library}, err
}

func (c *blasCalls) add(f cublas.Func, args ...uintptr) {
	c.b.AddForeign(c.library.Address(f), args...)
	c.funcs[c.b.Len()-1] = f // the driver's names do not know it; the context's call, the first, has no entry
}

// run makes the calls. The error of the library is a *device.Error that has a BLASStatus.
func (c *blasCalls) run() error {
	f, r := c.timing.run(c.b)
	switch {
	case r == driver.Success:
		return nil
	case f != driver.Foreign: // the context could not be made current: a CUresult, and not a status of the library
		return c.d.failed(f, r, "")
	}
	return &device.Error{Device: c.d.id, Call: c.funcs[c.b.Done()].String(), Err: BLASStatus(r)}
}

// reset empties the batch, but for the context.
func (c *blasCalls) reset() {
	c.b.Reset()
	c.b.Add(driver.CtxSetCurrent, c.d.context.Load())
}

func (c *blasCalls) release() { c.b.Release() }

// destroyBLAS gives an object of the library back. If the call fails it is made once more: then there is nothing left to do. It passes
// the gate, because it is part of the device's end; whoever else calls it is inside, or holds the multiplier's lock, for which the
// end waits.
func (d *Device) destroyBLAS(f cublas.Func, object *uintptr) {
	for try := 0; *object != 0 && try < 2; try++ {
		b, err := d.beginLast("cuBLAS")
		if err != nil {
			break // the device is lost, and what it had with it
		}
		c := blasCalls{d: d, b: b, library: d.blas.library}
		c.add(f, *object)
		err = c.run()
		c.release()
		if err == nil {
			break
		}
	}
	*object = 0
}

// create makes an object.
func (c *blasCalls) create(f cublas.Func, args ...uintptr) (uintptr, error) {
	c.reset()
	c.add(f, append([]uintptr{c.b.Out(0)}, args...)...)
	if err := c.run(); err != nil {
		return 0, err
	}
	return uintptr(c.b.Value(0)), nil
}

// setAll sets attributes of an object.
func (c *blasCalls) setAll(f cublas.Func, object uintptr, settings []setting) error {
	for _, s := range settings {
		c.reset()
		c.add(f, object, s.number, c.b.Word(0, s.value), s.size) // the library copies the value; size says how much of the word
		if err := c.run(); err != nil {
			return err
		}
	}
	return nil
}
