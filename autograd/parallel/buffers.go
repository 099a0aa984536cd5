package parallel

import (
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// buffersDue reports whether a forward pass begins with rank 0's buffers: each that trains, outside of NoSync, and the first after those that does not.
func (d *DataParallel) buffersDue(trains bool) bool {
	due := trains && !d.noSync || !trains && d.moved
	d.moved = trains
	return due
}

// sendBuffers gives all ranks the buffers of rank 0, those of one type at once.
func (d *DataParallel) sendBuffers() error {
	byType := map[tensor.DType][]*tensor.Tensor{}
	var types []tensor.DType // in an order that is the same on all ranks
	for _, n := range nn.NamedBuffers(d.model) {
		t := n.Parameter.Tensor()
		if t == nil || t.Len() == 0 || !sendable(t.DType()) {
			continue
		}
		if byType[t.DType()] == nil {
			types = append(types, t.DType())
		}
		byType[t.DType()] = append(byType[t.DType()], t)
	}
	for _, dt := range types {
		if err := d.sendTogether(dt, byType[dt]); err != nil {
			return err
		}
	}
	return nil
}

func (d *DataParallel) sendTogether(dt tensor.DType, ts []*tensor.Tensor) error {
	count := 0
	for _, t := range ts {
		count += t.Len()
	}
	flat, err := tensor.Empty(d.exec, dt, count)
	if err != nil {
		return err
	}
	defer flat.Release()
	copyAll := func(out bool) error {
		at := 0
		for _, t := range ts {
			place, err := view(flat, at, t.Shape(), d.exec)
			if err != nil {
				return err
			}
			if out {
				err = t.CopyFrom(place)
			} else {
				err = place.CopyFrom(t)
			}
			place.Release()
			if err != nil {
				return err
			}
			at += t.Len()
		}
		return nil
	}
	if err := copyAll(false); err != nil {
		return err
	}
	if err := d.behind(); err != nil {
		return err
	}
	if err := d.broadcast("broadcast of buffers", flat); err != nil {
		return err
	}
	if err := d.meet(); err != nil {
		return err
	}
	if err := d.follow(); err != nil {
		return err
	}
	if d.comm.Rank() == 0 {
		return nil // its own
	}
	return copyAll(true)
}
