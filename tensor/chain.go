package tensor

// chain is a computation of several operations. A step that fails gives a nil tensor, which makes the steps that use it fail as well; the
// first error is the one that counts. Each chain ends with result, which releases what the steps before the last one made.
type chain struct {
	temps []*Tensor
	err   error
}

// do takes over the result of a step.
func (c *chain) do(t *Tensor, err error) *Tensor {
	if err != nil {
		if c.err == nil {
			c.err = err
		}
		return nil
	}
	c.temps = append(c.temps, t)
	return t
}

// result releases the steps and passes the last one's result on, or the first error.
func (c *chain) result(t *Tensor, err error) (*Tensor, error) {
	for _, temp := range c.temps {
		temp.Release()
	}
	if c.err == nil {
		c.err = err
	}
	if c.err != nil {
		t.Release()
		return nil, c.err
	}
	return t, nil
}
