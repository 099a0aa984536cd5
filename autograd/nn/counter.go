package nn

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/replay"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// counter remembers what a count in a buffer is, so that nothing waits for the device in a training step. What the device holds is read only if
// somebody else has changed it, as Load does.
type counter struct {
	n       int64          // what the buffer was set to,
	tensor  *tensor.Tensor // in this tensor,
	version uint32         // which then had this version
}

// value is the count, 0 of a buffer without a tensor.
func (c *counter) value(p *autograd.Parameter) (int64, error) {
	t := p.Tensor()
	switch r := recordingOf(t); {
	case t == nil:
		return 0, nil
	case r != nil:
		return 0, r.Refuse(&tensor.CaptureError{Op: "count of " + excerpt.Quote(p.Name()), Site: tensor.ProgramLine(training.Key{}),
			Detail: "what is computed of it on the host would be the same in each replay"})
	case t == c.tensor && t.Version() == c.version:
		return c.n, nil
	case !t.Exec().Computes(): // nothing is there to read
		return 0, nil
	}
	v, err := t.Item()
	return int64(v), err
}

// set changes the count, of a buffer that has a tensor.
func (c *counter) set(p *autograd.Parameter, n int64) error {
	t := p.Tensor()
	if t == nil {
		return nil
	}
	err := t.FillInPlace(float64(n))
	c.n, c.tensor, c.version = n, t, t.Version()
	return err
}

// recordingOf is the recording that work on t becomes part of (package internal/replay), nil if it runs.
func recordingOf(t *tensor.Tensor) *replay.Recording {
	if t == nil {
		return nil
	}
	return replay.On(t.Exec().Stream())
}

// record counts in the capture r: the count rises on the device in each replay, and is read there when it is needed next.
func (c *counter) record(r *replay.Recording, p *autograd.Parameter) error {
	if err := p.Tensor().AddScalarInPlace(1); err != nil {
		return err
	}
	r.IfFailed(c.forget)
	_, err := r.Words(c, 0, func() replay.Value { return c })
	return err
}

func (c *counter) forget() { c.tensor = nil }

// Fill and Replayed make the counter what a replay tells: it takes nothing from memory, and changes what is there.
func (c *counter) Fill([]uint64) { c.forget() }

// Replayed has nothing to do: see Fill.
func (c *counter) Replayed() {}
