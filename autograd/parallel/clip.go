package parallel

import (
	"context"

	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/tensor"
)

// ClipGradNorm scales the gradients of all parameters together, in place, so that their 2-norm, over the parts of all ranks, is at most maxNorm, and returns the norm before. All
// ranks call it, after the backward pass, and get the same number; it waits for the device, to return that: ClipGradNormAsync does not. It is optim.ClipGradNorm for what Parameters has. As there, a norm that is not
// finite is no error, and leaves the gradients as they are.
func (d *DataParallel) ClipGradNorm(maxNorm float64) (norm float64, err error) {
	err = d.clipped("ClipGradNorm", maxNorm, func(t *tensor.Tensor) error {
		norm, err = t.Item()
		return err
	})
	return norm, err
}

// ClipGradNormAsync is ClipGradNorm without the norm: the norm of the rank's part, the sum over the ranks and the scaling follow each other on the streams, and nothing waits for the device, as with
// optim.ClipGradNormAsync. All ranks call it, or ClipGradNorm.
func (d *DataParallel) ClipGradNormAsync(maxNorm float64) error {
	return d.clipped("ClipGradNormAsync", maxNorm, func(*tensor.Tensor) error { return nil })
}

// clipped clips, and shows the norm to read.
func (d *DataParallel) clipped(op string, maxNorm float64, read func(norm *tensor.Tensor) error) error {
	switch {
	case d == nil || d.comm == nil:
		return &Error{Op: op, Rank: -1, Detail: "the DataParallel was not made by Data"}
	case !(maxNorm >= 0):
		return d.mistake(op, "norm %v; it must not be negative", maxNorm)
	case d.closed:
		return d.mistake(op, "the DataParallel is closed")
	case d.broken != nil:
		return d.broken
	}
	if d.waits() { // the others may have made another pass, and wait
		return d.fatal(op, d.mistake(op, unsummed))
	}
	var grads []*tensor.Tensor
	for _, p := range d.Parameters() {
		if g := p.Grad(); g != nil {
			grads = append(grads, g)
		}
	}
	return d.fatal(op, d.clip(grads, maxNorm, read))
}

func (d *DataParallel) clip(grads []*tensor.Tensor, maxNorm float64, read func(norm *tensor.Tensor) error) error {
	norm, err := steps.GradNorm(d.exec, grads, 2)
	if err != nil {
		return err
	}
	defer func() { norm.Release() }()
	if d.set.stage > 0 {
		whole, err := d.joinNorm(norm)
		if err != nil {
			return err
		}
		norm.Release()
		norm = whole
	}
	if err := steps.ClipGradNorm(grads, norm, maxNorm, false); err != nil {
		return err
	}
	return read(norm)
}

// joinNorm is the norm of all ranks' parts.
func (d *DataParallel) joinNorm(own *tensor.Tensor) (*tensor.Tensor, error) {
	sum, err := own.Square()
	if err != nil {
		return nil, err
	}
	if err := d.agree("all-reduce of the gradients' norm", sum, comm.Sum); err == nil {
		err = sum.SqrtInPlace()
		if err == nil {
			return sum, nil
		}
		sum.Release()
		return nil, err
	} else {
		sum.Release()
		return nil, err
	}
}

// agree all-reduces a tensor on the parameters' stream.
func (d *DataParallel) agree(op string, t *tensor.Tensor, how comm.Op) error {
	if err := order(t.Exec().Stream(), d.side.Stream()); err != nil {
		return err
	}
	if err := d.allReduce(op, t, how); err != nil {
		return err
	}
	if err := order(d.side.Stream(), t.Exec().Stream()); err != nil {
		_ = d.side.Stream().Synchronize(context.Background()) // t is released next
		return err
	}
	return d.comm.Follow(t.Exec().Stream())
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
	return d.fatal(op, d.agree("all-reduce of the overflow", found, comm.Max))
}
