package cuda

import "github.com/cistern-ml/cistern/device/cuda/internal/driver"

// CallForeign calls a function of another library that works on the current context, cuBLAS for one, in the context of the
// device: fn is its address, and it must return a 32-bit status that is 0 for success. It has at most 24 arguments, integers
// and addresses only, narrower ones as their bits. What the arguments point to on the Go heap must be kept alive by the
// caller, and not lie on a stack; the function must not keep such addresses. The error is about the device, not the status.
//
// Work that the function enqueues on a stream should be announced with Stream.Note.
func (d *Device) CallForeign(fn uintptr, args ...uintptr) (status uint32, err error) {
	d = d.orAbsent()
	b, err := d.begin("CallForeign")
	if err != nil {
		return 0, err
	}
	defer b.Release()
	b.AddForeign(fn, args...)
	f, r := b.Run()
	if f != driver.Foreign {
		return 0, d.failed(f, r, "")
	}
	return uint32(r), nil
}
