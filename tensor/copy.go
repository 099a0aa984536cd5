package tensor

import (
	"context"
	"errors"
	"runtime"

	"github.com/cistern-ml/cistern/device"
)

// Contiguous returns another handle on t if its elements lie in row-major order without gaps, else a copy that does.
func (t *Tensor) Contiguous() (*Tensor, error) {
	const name = "Contiguous"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if t.layout.contiguous() {
		return t.Retain(), nil
	}
	return t.convert(name, t.dtype, t.exec)
}

// Clone copies t into storage of its own, without gaps. As in PyTorch dimensions keep their order, whatever it is: strides are those of t
// if its elements lie side by side.
func (t *Tensor) Clone() (*Tensor, error) {
	const name = "Clone"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	l := t.layout.preserved()
	return t.convertTo(name, &l, t.dtype, t.exec)
}

// To converts to another type: float to integer truncates toward zero, anything to bool is "not 0". What an integer type cannot hold wraps, and what int64
// cannot hold, NaN included, is its lowest number before that; PyTorch leaves it open, and on GPUs it is another one. With t's own type it
// returns another handle on t, without a copy.
func (t *Tensor) To(dt DType) (*Tensor, error) {
	const name = "To"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if dt == t.dtype {
		return t.Retain(), nil
	}
	return t.cast(name, dt, t.exec)
}

// ToDevice brings t to e's device, behind the work on t's stream. On the same device it is On(e), without a copy, and e's stream waits for t's if they
// are two, unless one of them is being captured. Between devices of one driver (device.PeerCopier) the driver copies on e's stream, and the call waits for
// nothing; else the bytes go through host memory, in pieces, and the call returns when they have been read from t's device. A simulated device has no
// values that one that computes could take: that is a *ValuesError.
func (t *Tensor) ToDevice(e Exec) (*Tensor, error) {
	const name = "ToDevice"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if err := e.valid(name); err != nil {
		return nil, err
	}
	if !t.exec.sameDevice(e) {
		return t.transfer(name, e)
	}
	r := t.On(e)
	if err := r.behind(t); err != nil {
		r.Release()
		return nil, wrap(name, err)
	}
	return r, nil
}

// behind is follow of a tensor of the same device. Of what is captured and what is not neither can wait for the other.
func (t *Tensor) behind(of *Tensor) error {
	if t.exec.stream.ID() == of.exec.stream.ID() || capturing(t.exec.stream) != capturing(of.exec.stream) {
		return nil
	}
	return t.follow(of)
}

func capturing(s device.Stream) bool {
	c, ok := s.(interface{ Capturing() bool })
	return ok && c.Capturing()
}

// stagingBytes is the size of the pieces in which a tensor goes from one device to another.
const stagingBytes = 4 << 20

// transfer copies t to another device.
func (t *Tensor) transfer(name string, e Exec) (*Tensor, error) {
	if t.Len() > 0 && e.Computes() && !t.exec.Computes() {
		return nil, &ValuesError{Op: name, Device: t.Device().ID(), onto: e.Device().ID().String()}
	}
	src, err := t, error(nil)
	if !t.layout.formatted() {
		src, err = t.cast(name, t.dtype, t.exec.Owned())
	}
	if err != nil {
		return nil, err
	}
	defer drop(src, t)
	r, err := allocAs(name, e, t.dtype, &src.layout)
	if err != nil {
		return nil, err
	}
	if err := r.receive(src); err != nil {
		r.Release()
		return nil, wrap(name, err)
	}
	return r, nil
}

// receive fills r, which is new, with the bytes of src, which has no gaps and is on another device.
func (r *Tensor) receive(src *Tensor) error {
	total := uint64(r.Len()) * uint64(r.dtype.Size())
	if total == 0 {
		return nil
	}
	if err := src.storage.usedOn(src.exec.stream.ID(), src.exec); err != nil {
		return err
	}
	if err := src.uncaptured("copy to another device", noValue); err != nil {
		return err
	}
	if err := r.uncaptured("copy from another device", noBytes); err != nil {
		return err
	}
	if done, err := r.receiveFromPeer(src, total); done || err != nil {
		return err
	}
	staging := make([]byte, min(total, stagingBytes))
	for done := uint64(0); done < total; {
		piece := staging[:min(total-done, stagingBytes)]
		if err := src.exec.stream.CopyToHost(piece, src.ptr(&src.layout).Add(done)); err != nil {
			return err
		}
		if err := r.exec.stream.CopyToDevice(r.ptr(&r.layout).Add(done), piece); err != nil {
			return err
		}
		done += uint64(len(piece))
	}
	runtime.KeepAlive(src)
	return nil
}

// receiveFromPeer has the driver copy, if it copies between the two devices, and reports whether it does. The copy is on r's stream, since
// what was in r's memory before has its order there; src's stream waits for it, behind which src's memory may be another tensor's.
func (r *Tensor) receiveFromPeer(src *Tensor, bytes uint64) (bool, error) {
	to, ok := r.Device().(device.PeerCopier)
	from := src.Device()
	if _, peers := from.(device.PeerCopier); !ok || !peers || from.ID().Kind != to.ID().Kind {
		return false, nil
	}
	if err := r.follow(src); err != nil {
		return false, err
	}
	err := to.CopyPeer(r.exec.stream, r.ptr(&r.layout), from, src.ptr(&src.layout), bytes)
	if errors.Is(err, device.ErrUnavailable) { // an old driver
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err = src.follow(r); err != nil { // the copy is under way
		err = errors.Join(err, r.exec.stream.Synchronize(context.Background()))
	}
	runtime.KeepAlive(src)
	return true, err
}

// follow makes t's stream wait for what has been enqueued on that of another tensor.
func (t *Tensor) follow(of *Tensor) (err error) {
	e, err := of.Device().NewEvent()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }() // a wait that is enqueued does not need it
	if err := of.exec.stream.Record(e); err != nil {
		return err
	}
	return t.exec.stream.Wait(e)
}

// packedCopy returns t itself if it is contiguous, else a contiguous temporary, which the caller gives back with drop(x, t).
func (t *Tensor) packedCopy(name string) (*Tensor, error) {
	if t.layout.contiguous() {
		return t, nil
	}
	return t.convert(name, t.dtype, t.exec.Owned())
}

// ptr is the address of the first element under a layout of t's storage. The tensor is not empty.
func (t *Tensor) ptr(l *layout) device.Ptr {
	return t.storage.block.Ptr().Add(uint64(l.offset) * uint64(t.dtype.Size()))
}

// copyBytes copies n bytes between layouts without gaps, and of one order, on one device, on t's stream.
func (t *Tensor) copyBytes(to *layout, src *Tensor, from *layout, n int) error {
	id := t.exec.stream.ID()
	if err := t.storage.usedOn(id, t.exec); err != nil {
		return err
	}
	if err := src.storage.usedOn(id, t.exec); err != nil {
		return err
	}
	err := t.exec.stream.Copy(t.ptr(to), src.ptr(from), uint64(n))
	runtime.KeepAlive(t)
	runtime.KeepAlive(src)
	return err
}

// Synchronize waits until the work on t's stream is done, and returns the first error among it that nobody was told yet.
func (t *Tensor) Synchronize(ctx context.Context) error {
	const name = "Synchronize"
	if err := usable(name, t); err != nil {
		return err
	}
	return wrap(name, t.exec.stream.Synchronize(ctx))
}
