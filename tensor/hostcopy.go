package tensor

import (
	"runtime"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/memory/pinned"
)

// HostCopy is the elements of a tensor in host memory, with what is needed to make the tensor again, or for the first time. It is for
// one goroutine at a time.
//
// It has the safety net of tensors: pinned memory of a copy that was dropped without Release goes back to its pool when the garbage
// collector has found it.
type HostCopy struct {
	shape   Shape
	dtype   DType
	bytes   []byte
	stream  device.Stream // that of the first copy
	pinned  *pinnedCopy   // nil for memory of the Go heap
	cleanup runtime.Cleanup
}

// pinnedCopy is what gives pinned memory back. It is apart from the HostCopy, to which it must not point, for the safety net.
type pinnedCopy struct {
	block  pinned.Block
	pool   *pinned.Allocator
	stream device.Stream // that of the last copy, nil if there was none
}

// NewHostCopy makes room in host memory for the elements of a tensor that is yet to be made, on dev: the program writes them into
// Data, and Tensor uploads them. Their values are undefined. With pinned the memory is taken from dev's pool (package memory/pinned),
// and Tensor does not wait for the upload. It fails with a *DTypeError or a *ShapeError for what is no type or shape, or is larger than
// the device's memory, with a *DeviceError without a device, and with pinned also if the device has no such memory
// (device.ErrUnavailable), or not enough (memory.ErrOutOfMemory).
func NewHostCopy(dev device.Device, dt DType, pinned bool, shape ...int) (*HostCopy, error) {
	const name = "NewHostCopy"
	if isnil.Value(dev) || dev.ID().Kind == 0 {
		return nil, &DeviceError{Op: name, Detail: "no device"}
	}
	if !dt.Valid() {
		return nil, dtypeErr(name, "not an element type", dt)
	}
	l, err := newLayout(name, shape)
	if err != nil {
		return nil, err
	}
	bytes := uint64(l.len()) * uint64(dt.Size())
	if total := dev.Properties().TotalMemory; bytes > total { // the Go heap would end the program
		return nil, shapeErr(name, []Shape{shape}, "%d bytes; the device has %d", bytes, total)
	}
	h := &HostCopy{shape: l.dims().Clone(), dtype: dt}
	if err := h.take(dev, bytes, pinned); err != nil {
		return nil, wrap(name, err)
	}
	return h, nil
}

// Data is the memory: elements in row-major order and the machine's byte order, a bool as one byte that is 0 or 1. It must be written
// before Tensor is called, and not after it while the memory is pinned and the copy may be under way. It is nil after Release.
func (h *HostCopy) Data() []byte {
	if h == nil {
		return nil
	}
	return h.bytes
}

// CopyToHost copies t to host memory, in row-major order. With pinned it takes memory that the operating system does not move
// (package memory/pinned), and the copy is enqueued on t's stream without waiting for it, if the device can do so: t may be released
// at once, because its memory is reused in stream order. Without, the copy is in the Go heap, and the call waits for the stream.
func (t *Tensor) CopyToHost(pinned bool) (*HostCopy, error) {
	const name = "CopyToHost"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	src, err := t.packedCopy(name)
	if err != nil {
		return nil, err
	}
	defer drop(src, t)
	h := &HostCopy{shape: t.Shape().Clone(), dtype: t.dtype, stream: t.exec.stream}
	if err := h.take(t.exec.Device(), uint64(t.Len())*uint64(t.dtype.Size()), pinned); err != nil {
		return nil, wrap(name, err)
	}
	if err := h.fill(src); err != nil {
		h.Release()
		return nil, wrap(name, err)
	}
	return h, nil
}

// take makes room for n bytes.
func (h *HostCopy) take(dev device.Device, n uint64, pin bool) error {
	if !pin || n == 0 {
		h.bytes = make([]byte, n)
		return nil
	}
	pool, err := pinned.For(dev)
	if err != nil {
		return err
	}
	b, err := pool.Alloc(n)
	if err != nil {
		return err
	}
	h.pinned, h.bytes = &pinnedCopy{b, pool, h.stream}, b.Bytes()[:n]
	// Giving pinned memory back may wait for locks and call the device, which cleanups must not.
	h.cleanup = runtime.AddCleanup(h, func(c *pinnedCopy) { go c.release() }, h.pinned)
	return nil
}

// fill copies src, which is contiguous.
func (h *HostCopy) fill(src *Tensor) error {
	if len(h.bytes) == 0 {
		return nil
	}
	async, ok := h.stream.(device.AsyncCopier)
	if h.pinned == nil || !ok {
		return src.download(h.bytes)
	}
	if err := src.storage.usedOn(h.stream.ID(), src.exec); err != nil {
		return err
	}
	err := async.CopyToHostAsync(h.bytes, src.ptr(&src.layout))
	runtime.KeepAlive(src)
	return err
}

// Tensor makes the tensor again, contiguous, under e, whose stream must be ordered behind the one that was copied from. From
// pinned memory it does not wait. After Release it is a *ReleasedError.
func (h *HostCopy) Tensor(e Exec) (*Tensor, error) {
	const name = "HostCopy"
	if h == nil {
		return nil, &ReleasedError{Op: name, Nil: true}
	}
	l, err := newLayout(name, h.shape)
	if err != nil {
		return nil, err
	}
	if h.bytes == nil { // also the zero value
		return nil, &ReleasedError{Op: name}
	}
	t, err := alloc(name, e, h.dtype, &l)
	if err != nil {
		return nil, err
	}
	if err := h.restore(t); err != nil {
		t.Release()
		return nil, wrap(name, err)
	}
	return t, nil
}

func (h *HostCopy) restore(t *Tensor) error {
	defer runtime.KeepAlive(h) // while its bytes are read
	if h.pinned != nil {
		if err := h.pinned.pool.RecordStream(h.pinned.block, t.exec.stream); err != nil { // the pool was closed, for one
			return err
		}
	}
	async, ok := t.exec.stream.(device.AsyncCopier)
	if h.pinned == nil || !ok || len(h.bytes) == 0 {
		return t.upload(h.bytes)
	}
	h.pinned.stream = t.exec.stream
	err := async.CopyToDeviceAsync(t.ptr(&t.layout), h.bytes)
	runtime.KeepAlive(t)
	return err
}

// Bytes is the size of the copy, in bytes.
func (h *HostCopy) Bytes() uint64 {
	if h == nil {
		return 0
	}
	return uint64(len(h.bytes))
}

// Release gives the memory back; pinned memory is used again when the copies on the stream are done. Releasing again does
// nothing.
func (h *HostCopy) Release() {
	if h == nil {
		return
	}
	h.bytes = nil
	if h.pinned == nil {
		return
	}
	h.cleanup.Stop()
	h.pinned.release()
	h.pinned = nil
	runtime.KeepAlive(h)
}

func (c *pinnedCopy) release() {
	// Both fail only for blocks that are not the pool's or already free, or when the device is lost: then the next wait says so,
	// and memory whose copies could not be recorded stays the pool's, unused.
	if c.stream != nil {
		if err := c.pool.RecordStream(c.block, c.stream); err != nil {
			return
		}
	}
	_ = c.pool.Free(c.block)
}
