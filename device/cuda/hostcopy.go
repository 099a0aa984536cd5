package cuda

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
	"github.com/cistern-ml/cistern/device/internal/osmem"
)

// CopyToHost makes the copy and the wait for it in one crossing, so that the driver never holds an address of the Go heap
// while Go code runs.
func (s *Stream) CopyToHost(dst []byte, src device.Ptr) error {
	const call = "CopyToHost"
	s.looking.RLock()
	defer s.looking.RUnlock()
	if err := s.notCapturing(call); err != nil {
		return err
	}
	b, err := s.begin(call)
	if err != nil {
		return err
	}
	defer b.Release()
	n := uint64(len(dst))
	if err := s.device.check(call, src, n); err != nil || n == 0 {
		return err
	}
	s.work.note(call)
	at := s.work.position() // this copy included: the wait below is behind it
	t := s.timeLooking()
	t.begin(b)
	// Whether a copy to pageable memory is done when the call returns is left open by the driver's documentation: it may be copied
	// through pinned memory of the driver's own. So the wait stays, even where the copy looks synchronous.
	b.Add(driver.MemcpyDtoHAsync, b.Bytes(dst), uintptr(src), uintptr(n), s.handle)
	t.end(b)
	b.Add(driver.StreamSynchronize, s.handle)
	f, r := t.run(b)
	if t != nil {
		t.operation = Operation{Kind: CopyOperation, Name: call, Bytes: n}
	}
	t.finish(r == driver.Success)
	if r != driver.Success {
		return s.device.failed(f, r, "%d bytes from address %#x, stream %d", n, uintptr(src), s.id)
	}
	s.work.settle(at)
	if err := s.work.take(); err != nil {
		return err
	}
	return s.device.waited()
}

// CopyToDevice copies src to pinned memory of the stream's, and lets the device copy from there. It waits only when it is
// far ahead of the device. A captured copy would read that memory again with each replay, so it is refused in a capture:
// CopyToDeviceAsync from pinned memory that lives as long as the graph is the way there.
func (s *Stream) CopyToDevice(dst device.Ptr, src []byte) error {
	const call = "CopyToDevice"
	b, err := s.begin(call)
	if err != nil {
		return err
	}
	defer b.Release() // the device does not end while the staging memory is in use
	if err := s.device.check(call, dst, uint64(len(src))); err != nil || len(src) == 0 {
		return err
	}
	if s.Capturing() {
		return s.device.fail(call, device.ErrInvalidValue,
			"stream %d is being captured, and a graph cannot hold the caller's bytes; use CopyToDeviceAsync from pinned memory", s.id)
	}
	return s.staging.copy(s, dst, src)
}

// CopyToDeviceAsync copies from pinned memory, ordered on the stream.
func (s *Stream) CopyToDeviceAsync(dst device.Ptr, src []byte) error {
	const call = "CopyToDeviceAsync"
	b, err := s.beginPinned(call, dst, src)
	if b == nil {
		return err
	}
	return s.enqueue(b, call, driver.MemcpyHtoDAsync, uintptr(dst), osmem.Address(src), uintptr(len(src)), s.handle)
}

// CopyToHostAsync copies to pinned memory, ordered on the stream.
func (s *Stream) CopyToHostAsync(dst []byte, src device.Ptr) error {
	const call = "CopyToHostAsync"
	b, err := s.beginPinned(call, src, dst)
	if b == nil {
		return err
	}
	return s.enqueue(b, call, driver.MemcpyDtoHAsync, osmem.Address(dst), uintptr(src), uintptr(len(dst)), s.handle)
}

// beginPinned begins a copy between device memory at p and pinned memory. It returns no batch if there is nothing to copy.
func (s *Stream) beginPinned(call string, p device.Ptr, host []byte) (*driver.Batch, error) {
	b, err := s.begin(call)
	if err != nil {
		return nil, err
	}
	// The driver would take pageable memory, too. But then the call may wait for the stream, and where it does not, nothing keeps the
	// memory alive until the copy is done.
	err = s.device.check(call, p, uint64(len(host)))
	if err == nil && !s.device.system.isPinned(host) {
		err = s.device.fail(call, device.ErrInvalidValue, "%d bytes of host memory at %#x are not pinned", len(host), osmem.Address(host))
	}
	if err != nil || len(host) == 0 {
		b.Release()
		return nil, err
	}
	return b, nil
}
