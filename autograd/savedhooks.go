package autograd

import "github.com/cistern-ml/cistern/tensor"

// SavedTensorHooks decides in what form operations save tensors for backward (torch.autograd.graph.saved_tensors_hooks): on the
// host instead of the device, in fewer bits, on disk.
type SavedTensorHooks interface {
	// Pack is called with each tensor that an operation saves, right after the operation. leaf says that it is the value of a
	// leaf: an input or a parameter, which stays in memory whether or not it is saved. Pack returns what stands for the tensor,
	// or nil to save it as it is. It must neither change the tensor nor keep it; a handle that it takes (Retain) is its own to
	// release. A tensor that several operations save is packed once.
	Pack(t *tensor.Tensor, leaf bool) (Packed, error)
}

// Packed stands for a saved tensor.
type Packed interface {
	// Unpack makes the tensor again under e, with the elements, shape and type that it had. The graph releases it when the
	// operation's gradient rules have run. It is called once for each operation and backward pass.
	Unpack(e tensor.Exec) (*tensor.Tensor, error)
	// Release gives back what the Packed holds. It is called once, when no operation needs it any more.
	Release()
}

// WithSavedTensorHooks makes all operations of a graph save tensors through h.
func WithSavedTensorHooks(h SavedTensorHooks) Option { return func(c *config) { c.saving = h } }

// SavedTensors runs f with hooks for what operations save in it, in place of those around; nil is none. It returns what f
// returns.
func (g *Graph) SavedTensors(h SavedTensorHooks, f func() *Variable) *Variable {
	if g == nil || f == nil {
		return g.without("SavedTensors")
	}
	if err := nilPointer("SavedTensors", "object with the hooks", h); err != nil {
		return g.Refuse("SavedTensors", err)
	}
	defer func(before *saving) { g.saving = before }(g.saving)
	g.saving = savingWith(h)
	return f()
}

// saving is a region with hooks.
type saving struct{ hooks SavedTensorHooks }

func savingWith(h SavedTensorHooks) *saving {
	if h == nil {
		return nil
	}
	return &saving{h}
}

// packed is what the hooks of a region made of a value, for all nodes that saved it there. The value knows it as long as it is
// there itself; holders are the nodes.
type packed struct {
	by      *saving
	of      *value
	it      Packed
	holders int
}

// dropPacked takes a node's hold away. With the last one what the hooks made is released.
func (l *ledger) dropPacked(p *packed) {
	if p == nil || p.holders == 0 {
		return
	}
	if p.holders--; p.holders == 0 {
		delete(l.packs, p)
		if p.of.packed == p {
			p.of.packed = nil
		}
		p.it.Release()
	}
}

// releasePacks releases all that hooks made, also if one of them panics.
func (l *ledger) releasePacks() {
	defer func() {
		if len(l.packs) > 0 {
			l.releasePacks()
		}
	}()
	for p := range l.packs {
		delete(l.packs, p)
		p.holders = 0
		p.it.Release()
	}
}

// pack gives what the node has saved to the hooks of the region.
func (n *node) pack() error {
	if n.g.saving == nil {
		return nil
	}
	for i := range n.saved {
		s := &n.saved[i]
		if s.val == nil {
			continue
		}
		p, err := n.g.ledger.pack(n.g.outer, n.g.saving, s.val, n.leaf(s))
		if err != nil {
			return err
		}
		if p != nil {
			n.g.ledger.drop(s.val)
			s.val, s.packed = nil, p
		}
	}
	return nil
}

// leaf reports whether what was saved is the value of a leaf.
func (n *node) leaf(s *saved) bool {
	for _, v := range n.in {
		if v.val == s.val {
			return v.node == nil && v.keepsValue()
		}
	}
	return false
}

// keepsValue reports whether somebody outside of the graph has the value of a leaf in memory.
func (v *Variable) keepsValue() bool { return v.param != nil || v.given }

func (l *ledger) pack(outer tensor.Exec, r *saving, v *value, leaf bool) (*packed, error) {
	if p := v.packed; p != nil && p.by == r {
		p.holders++
		return p, nil
	}
	it, err := r.hooks.Pack(v.t.Lend(outer), leaf)
	if err != nil || it == nil {
		return nil, err
	}
	if l.closed {
		it.Release()
		return nil, &ReleasedError{Use: "Pack", Reason: GraphReleased}
	}
	p := &packed{by: r, of: v, it: it, holders: 1}
	v.packed = p
	if l.packs == nil {
		l.packs = map[*packed]struct{}{}
	}
	l.packs[p] = struct{}{}
	return p, nil
}

// unpack brings back what the node has saved, before its rules run.
func (n *node) unpack() error {
	for i := range n.saved {
		s := &n.saved[i]
		if s.packed == nil || s.val != nil {
			continue
		}
		t, err := s.packed.it.Unpack(n.g.outer)
		if err == nil {
			err = s.packed.made(t)
		}
		if err != nil {
			t.Release()
			return err
		}
		if t, err = n.g.own("hook", t); err != nil {
			return err
		}
		s.val = n.g.ledger.add(t)
		s.version = t.Version()
	}
	return nil
}

// made checks what was unpacked.
func (p *packed) made(t *tensor.Tensor) error {
	const name = "Unpack"
	was := p.of.t
	switch {
	case t.Released():
		return &tensor.ReleasedError{Op: name, Nil: t == nil}
	case !t.Shape().Equal(was.Shape()):
		return &tensor.ShapeError{Op: name, Shapes: []tensor.Shape{t.Shape().Clone(), was.Shape().Clone()},
			Detail: "it must be the shape of what was packed"}
	case t.DType() != was.DType():
		return &tensor.DTypeError{Op: name, DTypes: []tensor.DType{t.DType(), was.DType()}, Detail: "it must be the type of what was packed"}
	}
	return nil
}

// unload drops what unpack has brought, for a graph that is retained.
func (n *node) unload() {
	for i := range n.saved {
		if s := &n.saved[i]; s.packed != nil {
			n.g.ledger.drop(s.val)
			s.val = nil
		}
	}
}
