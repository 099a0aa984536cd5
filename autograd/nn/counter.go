package nn

import (
	"github.com/cistern-ml/cistern/autograd"
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
	switch {
	case t == nil:
		return 0, nil
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
