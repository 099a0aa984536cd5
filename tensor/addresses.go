package tensor

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/training"
)

// Addresses are those of the first elements of contiguous tensors, for work on e's stream that is no operation of this package, such as a collective. The caller keeps the
// tensors, and has the streams that they were allocated on wait for the work before it releases them: no use is recorded, so that memory which is released can be given out
// again at once, however far the program is ahead of the device. It is for packages of this module, which alone can write the key.
func Addresses(_ training.Key, e Exec, ts ...*Tensor) ([]device.Ptr, error) {
	const name = "Addresses"
	if err := e.valid(name); err != nil {
		return nil, err
	}
	if err := usable(name, ts...); err != nil {
		return nil, err
	}
	all := make([]device.Ptr, len(ts))
	for i, t := range ts {
		switch {
		case !t.exec.sameDevice(e):
			return nil, devicesErr(name, e, t.exec)
		case !t.IsContiguous():
			return nil, shapeErr(name, []Shape{t.Shape().Clone()}, "strides %v; the elements must lie in one run", t.Strides())
		}
		if t.storage.abandoned() {
			return nil, wrap(name, t.storage.usedOn(e.stream.ID(), e)) // says so
		}
		if all[i] = t.storage.block.Ptr(); all[i] != 0 {
			all[i] = all[i].Add(uint64(t.layout.offset) * uint64(t.dtype.Size()))
		}
	}
	return all, nil
}

// placed is where a tensor lies in its storage, without the storage.
type placed struct {
	layout layout
	dtype  DType
}

// PlaceIn notes where t lies in its storage; At makes the same view of another one. It is for packages of this module, which alone can write the key.
func PlaceIn(_ training.Key, t *Tensor) placed {
	if !t.made() {
		return placed{}
	}
	return placed{t.layout, t.dtype}
}

// At is a handle, under e, on the place in base's storage, which must be as long as the one that the place was noted of.
func (p placed) At(base *Tensor, e Exec) (*Tensor, error) {
	const name = "At"
	if err := usable(name, base); err != nil {
		return nil, err
	}
	if p.dtype != base.dtype {
		return nil, dtypeErr(name, "a view has the type of its storage", p.dtype, base.dtype)
	}
	if _, end := p.layout.extent(); uint64(end*p.dtype.Size()) > base.storage.block.Size() {
		return nil, shapeErr(name, []Shape{base.Shape().Clone()}, "the view would reach outside of the storage")
	}
	h := base.handle(&p.layout, e)
	h.misfit = base.misplaced(e)
	return h, nil
}
