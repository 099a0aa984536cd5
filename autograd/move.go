package autograd

import "github.com/cistern-ml/cistern/tensor"

// Move is a parameter's value and gradient where they shall go, while the parameter still has the old ones. With one Move for each
// parameter of a model, a failure changes none of them.
type Move struct {
	p           *Parameter
	value, grad *tensor.Tensor
}

// Move prepares what To does: it makes the new value and gradient, and changes nothing. Commit puts them in place, Release drops
// them. What does not change is not copied.
func (p *Parameter) Move(e tensor.Exec, dt tensor.DType) (*Move, error) {
	if p.Tensor() == nil {
		return nil, p.missingFor("To")
	}
	value, err := move(p.value, e, dt)
	if err != nil {
		return nil, err
	}
	m := &Move{p: p, value: value}
	if p.grad == nil {
		return m, nil
	}
	if m.grad, err = move(p.grad, e, dt); err != nil {
		m.Release()
		return nil, err
	}
	return m, nil
}

// InFormat brings the new value and gradient of a parameter of 4 dimensions, or of 5 for tensor.ChannelsLast3d, to a memory format; others stay as
// they are. ContiguousFormat is for all. After an error the Move is as it was.
func (m *Move) InFormat(f tensor.MemoryFormat) error {
	if m == nil || m.p == nil || f == tensor.ChannelsLast && m.value.NDim() != 4 || f == tensor.ChannelsLast3d && m.value.NDim() != 5 {
		return nil
	}
	value, err := m.value.ToMemoryFormat(f)
	if err != nil {
		return err
	}
	if m.grad != nil {
		grad, err := m.grad.ToMemoryFormat(f)
		if err != nil {
			value.Release()
			return err
		}
		m.grad.Release()
		m.grad = grad
	}
	m.value.Release()
	m.value = value
	return nil
}

// Commit gives the parameter its new value and gradient, and releases the old ones. It does nothing after Commit or Release.
func (m *Move) Commit() {
	if m == nil || m.p == nil {
		return
	}
	m.p.dropGrad()
	m.p.grad = m.grad
	m.p.value.Release()
	m.p.value = m.value
	*m = Move{}
}

// Release drops what was prepared. It does nothing after Commit or Release.
func (m *Move) Release() {
	if m == nil {
		return
	}
	m.value.Release()
	m.grad.Release()
	*m = Move{}
}

// move returns a handle on t's elements under e, with type dt; only what differs is copied.
func move(t *tensor.Tensor, e tensor.Exec, dt tensor.DType) (*tensor.Tensor, error) {
	if dt == 0 {
		dt = t.DType()
	}
	c, err := t.To(dt)
	if err != nil || c.Exec() == e {
		return c, err
	}
	return after(c, func(c *tensor.Tensor) (*tensor.Tensor, error) { return c.ToDevice(e) })
}
