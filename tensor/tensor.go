package tensor

import (
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Tensor is a handle on an array in a device's memory: a counted storage, the layout of the elements in it, their type,
// and the Exec under which operations on it run. A handle does not change after it was made, except that Release ends it;
// what may change is the content of the storage, by the operations whose names end in InPlace. Handles are used by
// pointer and may be used by several goroutines.
type Tensor struct {
	storage  *storage
	exec     Exec
	layout   layout
	dtype    DType
	kept     atomic.Bool // somebody who is not the caller releases it: see Keep
	lender   *Tensor     // of a handle made by Lend: whose reference it lives on
	released atomic.Bool
	misfit   bool // made by On with an Exec of another device: every use is a DeviceError
	donated  bool // made by Donate: an element-wise operation may write over it
}

// alloc makes a tensor with storage of its own and undefined content. The only Go heap allocation is the owner.
func alloc(name string, e Exec, dt DType, l *layout) (*Tensor, error) {
	if err := e.valid(name); err != nil {
		return nil, err
	}
	if !dt.Valid() {
		return nil, dtypeErr(name, "not an element type", dt)
	}
	o := new(owner)
	if bytes := uint64(l.len()) * uint64(dt.Size()); bytes > 0 {
		block, err := e.alloc.Alloc(bytes, e.stream)
		if err != nil {
			return nil, wrap(name, err)
		}
		o.storage.block = block
		o.storage.home = e.stream.ID()
	}
	o.storage.alloc = e.alloc
	o.storage.refs.Store(1)
	t := &o.handle
	t.storage, t.exec, t.dtype = &o.storage, e, dt
	t.layout = l.packed()
	if !e.owned {
		o.storage.guard()
	}
	return t, nil
}

// allocAs is alloc with l's strides, which have no gaps.
func allocAs(name string, e Exec, dt DType, l *layout) (*Tensor, error) {
	t, err := alloc(name, e, dt, l)
	if err == nil {
		t.layout.strides = l.strides
	}
	return t, err
}

// handle makes another handle on t's storage. The caller has checked that t is usable; if t is released meanwhile by
// another goroutine, and was the last handle, the new one is born released.
func (t *Tensor) handle(l *layout, e Exec) *Tensor {
	h := &Tensor{storage: t.storage, exec: e, layout: *l, dtype: t.dtype}
	if t.Released() || !t.storage.acquire() {
		h.released.Store(true)
		return h
	}
	h.misfit = t.misfit
	if !e.owned {
		t.storage.guard()
	}
	return h
}

// usable refuses nil, released and misplaced operands.
func usable(name string, ts ...*Tensor) error {
	for _, t := range ts {
		if t.Released() {
			return &ReleasedError{Op: name, Nil: t == nil}
		}
		if t.misfit {
			return &DeviceError{Op: name, Devices: []device.ID{t.storage.alloc.Device()},
				Detail: "the handle was made by On with an Exec of another device; ToDevice copies"}
		}
	}
	return nil
}

func devicesErr(name string, e, f Exec) error {
	return &DeviceError{Op: name, Devices: []device.ID{e.Device().ID(), f.Device().ID()}, Detail: "operands are on different devices"}
}

// together refuses operands that are not usable or not on one device.
func together(name string, ts ...*Tensor) error {
	if err := usable(name, ts...); err != nil {
		return err
	}
	for _, t := range ts[1:] {
		if !ts[0].exec.sameDevice(t.exec) {
			return devicesErr(name, ts[0].exec, t.exec)
		}
	}
	return nil
}

// Release ends the handle. When it was the last one of its storage, the memory goes back to its allocator at once; work
// that was enqueued on the streams before is not disturbed. Releasing a handle again does nothing.
func (t *Tensor) Release() { t.release(false) }

// ReleaseLater is Release for code that must neither block nor wait for the allocator's lock, such as runtime cleanups: the
// memory goes back at the next allocation.
func (t *Tensor) ReleaseLater() { t.release(true) }

func (t *Tensor) release(later bool) {
	if t.made() && t.released.CompareAndSwap(false, true) && t.lender == nil {
		t.storage.release(later)
	}
}

// made reports whether t is a handle of this package's making: neither nil nor a zero Tensor. Those count as released.
func (t *Tensor) made() bool { return t != nil && t.storage != nil }

// Exclusive reports whether t is not released and no other handle is on its storage: then nobody else can see what is
// written over it.
func (t *Tensor) Exclusive() bool { return !t.Released() && t.storage.refs.Load() == 1 }

// Released reports whether Release was called on this handle, or on the one that lent it. A nil handle counts as released.
func (t *Tensor) Released() bool {
	return !t.made() || t.released.Load() || t.lender != nil && t.lender.Released()
}

// Retain returns another handle on the same storage with the same layout. A handle of a released tensor is released too, and
// that of a nil one is nil.
func (t *Tensor) Retain() *Tensor {
	if !t.made() {
		return nil
	}
	return t.handle(&t.layout, t.exec)
}

// On returns another handle on the same storage whose operations run under e, which must be on the same device: with
// another one, every use of the result is a *DeviceError. ToDevice copies between devices. Of a nil tensor it is nil.
func (t *Tensor) On(e Exec) *Tensor {
	if !t.made() {
		return nil
	}
	h := t.handle(&t.layout, e)
	h.misfit = t.misplaced(e)
	return h
}

// Shape is the number of elements along each dimension. It is part of the handle: read it, but do not change it (Clone). A nil
// tensor has no dimensions, no type and no device: it is what there is after an error.
func (t *Tensor) Shape() Shape {
	if t == nil {
		return nil
	}
	return t.layout.dims()
}

// Strides is the distance of neighbours along each dimension, in elements. Like Shape it is only for reading.
func (t *Tensor) Strides() []int {
	if t == nil {
		return nil
	}
	return t.layout.strides[:t.layout.ndim:t.layout.ndim]
}

// Dim is the number of elements along dimension i, counted from the end if i is negative, and 0 if there is no such
// dimension.
func (t *Tensor) Dim(i int) int {
	n := t.NDim()
	if i < 0 {
		i += n
	}
	if i < 0 || i >= n {
		return 0
	}
	return t.layout.shape[i]
}

// NDim is the number of dimensions, 0 for a scalar.
func (t *Tensor) NDim() int {
	if t == nil {
		return 0
	}
	return t.layout.ndim
}

// Len is the number of elements, 0 of a nil tensor.
func (t *Tensor) Len() int {
	if t == nil {
		return 0
	}
	return t.layout.len()
}

// DType is the type of the elements, the zero DType of a nil tensor.
func (t *Tensor) DType() DType {
	if t == nil {
		return 0
	}
	return t.dtype
}

// Device is where the memory is, nil for a nil tensor.
func (t *Tensor) Device() device.Device { return t.Exec().Device() }

// Exec is what operations on t run under, the zero Exec for a nil tensor.
func (t *Tensor) Exec() Exec {
	if t == nil {
		return Exec{}
	}
	return t.exec
}

// IsContiguous reports whether the elements lie in row-major order without gaps.
func (t *Tensor) IsContiguous() bool { return t != nil && t.layout.contiguous() }

// StorageBytes is the size of the storage, shared by all views: what the allocator's statistics count for it, in bytes.
func (t *Tensor) StorageBytes() uint64 {
	if !t.made() {
		return 0
	}
	return t.storage.block.Size()
}

// Version moves at each change in place of the storage, through whatever view.
func (t *Tensor) Version() uint32 {
	if !t.made() {
		return 0
	}
	return t.storage.version.Load()
}

// WatchChanges makes the storage remember, from now on, where it is changed in place, for LastChange. Each change then takes about a
// microsecond more.
func (t *Tensor) WatchChanges() {
	if t.made() {
		t.storage.watch.CompareAndSwap(nil, new([]uintptr))
	}
}

// LastChange is the stack of the last change in place since WatchChanges, for runtime.CallersFrames; nil if there was none.
func (t *Tensor) LastChange() []uintptr {
	if !t.made() {
		return nil
	}
	if pcs := t.storage.watch.Load(); pcs != nil {
		return *pcs
	}
	return nil
}

// SharesStorage reports whether u is a view of the same storage.
func (t *Tensor) SharesStorage(u *Tensor) bool { return t.made() && u.made() && t.storage == u.storage }

// view is t as a kernel sees it, under a layout of t's storage.
func (t *Tensor) view(v *op.View, l *layout) {
	v.Ptr = t.storage.block.Ptr()
	if v.Ptr != 0 {
		v.Ptr = v.Ptr.Add(uint64(l.offset) * uint64(t.dtype.Size()))
	}
	v.DType, v.NDim, v.Shape, v.Strides = t.dtype, l.ndim, l.shape, l.strides
}
