package parallel

import (
	"context"
	"math"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/tensor"
)

// ClipGradNorm scales the gradients of all parameters together, in place, so that their 2-norm, over the parts of all ranks, is at most maxNorm, and returns the norm before. All
// ranks call it, after the backward pass, and get the same number; it waits for the device, to return that: ClipGradNormAsync does not. It is optim.ClipGradNorm for what Parameters has. As there, a norm that is not
// finite is no error, and leaves the gradients as they are.
//
// With ZeRO 1 to 3 ranks that give different limits all get a *MismatchError, and nothing is scaled. What keeps a rank from the sum, as a limit that is negative or NaN, or gradients of NoSync that wait to be summed,
// ends the group: the others wait for it. With ZeRO 0 nothing is sent, and limits are not compared: all ranks have the same gradients, and scale them.
func (d *DataParallel) ClipGradNorm(maxNorm float64) (norm float64, err error) {
	err = d.clipped("ClipGradNorm", maxNorm, &norm)
	return norm, err
}

// ClipGradNormAsync is ClipGradNorm without the norm: the norm of the rank's part, the sum over the ranks and the scaling follow each other on the streams, and nothing waits for the device, as with
// optim.ClipGradNormAsync. All ranks call it. Where limits differ, which no host sees then, a gradient of each rank becomes NaN, with ZeRO 1 to 3: so the losses that come say it.
func (d *DataParallel) ClipGradNormAsync(maxNorm float64) error {
	return d.clipped("ClipGradNormAsync", maxNorm, nil)
}

// clipped clips, and reads the norm unless that is nil.
func (d *DataParallel) clipped(op string, maxNorm float64, norm *float64) error {
	switch {
	case d == nil || d.comm == nil:
		return &Error{Op: op, Rank: -1, Detail: "the DataParallel was not made by Data"}
	case !(maxNorm >= 0):
		err := d.mistake(op, "norm %v; it must be a number that is not negative", maxNorm)
		if d.set.stage == 0 || d.closed {
			return err
		}
		return d.fatal(op, err)
	case d.closed:
		return d.mistake(op, "the DataParallel is closed")
	case d.broken != nil:
		return d.broken
	case d.inside && d.set.stage == 0: // which sends nothing
		return d.mistake(op, withinWhole)
	case d.inside:
		return d.fatal(op, d.mistake(op, withinWhole))
	case d.incomplete(): // the others may have made another pass, and wait
		return d.fatal(op, d.mistake(op, "%s", d.whyWaits()))
	}
	var grads []*tensor.Tensor
	for _, p := range d.Parameters() {
		if g := p.Grad(); g != nil {
			grads = append(grads, g)
		}
	}
	return d.fatal(op, d.clip(op, grads, maxNorm, norm))
}

func (d *DataParallel) clip(op string, grads []*tensor.Tensor, maxNorm float64, read *float64) error {
	own, err := steps.GradNorm(d.exec, grads, 2)
	if err != nil {
		return err
	}
	defer own.Release()
	if d.set.stage > 0 {
		return d.clipParts(op, grads, own, maxNorm, read)
	}
	if read != nil {
		if *read, err = own.Item(); err != nil {
			return err
		}
	}
	return steps.ClipGradNorm(grads, own, maxNorm, false)
}

// clipParts clips by the norm of all ranks' parts, of which own is this rank's.
func (d *DataParallel) clipParts(op string, grads []*tensor.Tensor, own *tensor.Tensor, maxNorm float64, read *float64) error {
	m, err := d.newNormMessage(own, maxNorm)
	defer m.release()
	if err != nil {
		return err
	}
	if err := d.agreed("all-reduce of the gradients' norm", m.sum, m.own, comm.Sum); err != nil {
		return err
	}
	norm, err := m.norm()
	if err != nil {
		return err
	}
	defer norm.Release()
	if read != nil { // before anything is scaled: a collective that has failed is known then, and limits that differ
		if err := d.readNorm(op, m, maxNorm, read); err != nil {
			return err
		}
		return steps.ClipGradNorm(grads, norm, maxNorm, false)
	}
	if err := steps.ClipGradNorm(grads, norm, maxNorm, false); err != nil || len(grads) == 0 {
		return err
	}
	differs, err := m.differs()
	if err != nil {
		return err
	}
	defer differs.Release()
	return steps.ClipGradNorm(grads[:1], differs, math.Inf(1), true) // one is enough to be seen, and costs no pass over all
}

// readNorm waits for the sums: for the norm, and for whether the ranks have the same limit.
func (d *DataParallel) readNorm(op string, m *normMessage, maxNorm float64, norm *float64) error {
	sums, err := tensor.ToSlice[float64](m.sum)
	if err != nil {
		return err
	}
	*norm = sums[0] // of which the root was drawn in place
	if !d.exec.Computes() || same(sums[1:], maxNorm, d.comm.Size()) {
		return nil
	}
	bits, err := d.gatherNumbers("comparison of the limits of "+op, int64(math.Float64bits(maxNorm+0)))
	if err != nil {
		return err
	}
	for rank, b := range bits {
		if b != bits[0] {
			return &MismatchError{Rank: rank, Call: op, Have: number(b), Want: number(bits[0])}
		}
	}
	return nil // not reached: some limit differed
}

// AgreeOverflow makes all ranks have found an infinite or NaN gradient if one of them has, in the flag found, one float32 that is not 0 then. It is what an amp.GradScaler asks for
// (amp.AgreedBy), so that all ranks leave a step out, or none. With ZeRO 0 they have found the same.
func (d *DataParallel) AgreeOverflow(found *tensor.Tensor) error {
	const op = "AgreeOverflow"
	switch {
	case d == nil || d.comm == nil:
		return &Error{Op: op, Rank: -1, Detail: "the DataParallel was not made by Data"}
	case d.closed:
		return d.mistake(op, "the DataParallel is closed")
	case d.broken != nil:
		return d.broken
	case found == nil || found.Released(): // the others wait for this rank's
		return d.fatal(op, &tensor.ReleasedError{Op: op, Nil: found == nil})
	case found.DType() != tensor.Float32 || found.Len() != 1:
		return d.fatal(op, d.mistake(op, "the flag is %v%v; it must be one float32", found.DType(), found.Shape()))
	case d.set.stage == 0:
		return nil
	}
	return d.fatal(op, d.agreed("all-reduce of the overflow", found, found, comm.Max))
}

// agreed all-reduces src into dst, which may be the same, on the parameters' stream.
func (d *DataParallel) agreed(op string, dst, src *tensor.Tensor, how comm.Op) error {
	stream := dst.Exec().Stream()
	if err := order(stream, d.side.Stream()); err != nil {
		return err
	}
	defer tensor.Changed(key, dst)
	if err := d.collect(op, func(s device.Stream, b []comm.Buffer) error { return d.comm.AllReduce(s, b[0], b[1], how) }, dst, src); err != nil {
		return err
	}
	if err := order(d.side.Stream(), stream); err != nil {
		_ = d.side.Stream().Synchronize(context.Background()) // the tensors are released next
		return err
	}
	return d.comm.Follow(stream)
}
