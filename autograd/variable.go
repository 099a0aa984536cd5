package autograd

import "github.com/cistern-ml/cistern/tensor"

// Variable is a tensor in a graph. Operations are its methods: they return new variables of the same graph, and do nothing
// once the graph has an error. Shape, type and the like stay readable when the value is gone.
type Variable struct {
	g     *Graph
	val   *value // nil when the value is gone
	gone  Reason // why it is gone
	dtype tensor.DType
	ndim  uint8 // of dimensions, and channelsLast

	requires bool // gradients flow through it
	keep     bool // backward does not release the value
	retain   bool // backward leaves a copy of the gradient in grad
	given    bool // the value is a user's tensor (Input)
	stands   bool // it stands for next in the graph, with a value that was saved of it; see doublebackward.go

	dims [tensor.MaxDims]int // a copy: a slice of the tensor's would keep its memory reachable

	node  *node      // the operation that made it, if gradients flow through it; nil for leaves
	param *Parameter // for the leaf of a parameter

	next *Variable // what an operation in place has made of it; see inplace.go

	buf     *value // during a backward pass: the sum of the gradients that have arrived
	pending int    // during a backward pass, for leaves: gradients that have not arrived
	grad    *value // of leaves without a parameter, and after RetainGrad
	hooks   hooks
}

// newVariable makes a variable that takes over t.
func (g *Graph) newVariable(t *tensor.Tensor) *Variable {
	v := &Variable{g: g, val: g.ledger.add(t), dtype: t.DType(), ndim: uint8(t.NDim())}
	if t.MemoryFormat() != tensor.ContiguousFormat {
		v.ndim |= channelsLast
	}
	copy(v.dims[:], t.Shape())
	return g.track(v)
}

// channelsLast in ndim says that the value, as it was made, had its channels last. It is no field of its own: a variable would be longer by a word.
const channelsLast = 0x80

// order is the memory format of the value as it was made: that of gradients of images, and of kernels of convolutions.
func (v *Variable) order() tensor.MemoryFormat {
	switch {
	case v.ndim&channelsLast == 0:
		return tensor.ContiguousFormat
	case v.NDim() == 4:
		return tensor.ChannelsLast
	}
	return tensor.ChannelsLast3d
}

// Graph is the graph that the variable belongs to, nil for a nil variable.
func (v *Variable) Graph() *Graph {
	if v == nil {
		return nil
	}
	return v.g
}

// Shape is the number of elements along each dimension. It is only for reading. The result of an operation after an error has no
// shape; it is given as tensor.MaxDims dimensions of 1, so that a program that asks for the second, or divides by it, goes on to where
// it looks at the error.
func (v *Variable) Shape() tensor.Shape {
	if v == nil || v.dtype == 0 {
		return placeholder()
	}
	n := v.NDim()
	return v.dims[:n:n]
}

// placeholder stands for the shape of what has none.
func placeholder() tensor.Shape {
	s := make(tensor.Shape, tensor.MaxDims)
	for i := range s {
		s[i] = 1
	}
	return s
}

// Dim is the number of elements along dimension i, counted from the end if i is negative, and 0 if there is no such
// dimension. After an error it is 1, as all of Shape is.
func (v *Variable) Dim(i int) int {
	if v == nil || v.dtype == 0 {
		return 1
	}
	n := v.NDim()
	if i < 0 {
		i += n
	}
	if i < 0 || i >= n {
		return 0
	}
	return v.dims[i]
}

// NDim is the number of dimensions, 0 after an error.
func (v *Variable) NDim() int {
	if v == nil {
		return 0
	}
	return int(v.ndim &^ channelsLast)
}

// Len is the number of elements, 1 after an error.
func (v *Variable) Len() int { return v.Shape().Len() }

// DType is the type of the elements, invalid after an error.
func (v *Variable) DType() tensor.DType {
	if v == nil {
		return 0
	}
	return v.dtype
}

// Version moves at each change in place of the value, through whatever view: see tensor.Tensor.Version. It is 0 without a value.
func (v *Variable) Version() uint32 {
	if !v.Alive() {
		return 0
	}
	return v.tensor().Version()
}

// RequiresGrad reports whether gradients flow through the variable.
func (v *Variable) RequiresGrad() bool { return v != nil && v.now().requires }

// IsLeaf reports whether no recorded operation made the variable.
func (v *Variable) IsLeaf() bool { return v != nil && v.now().node == nil }

// Parameter is the parameter whose leaf this is, or nil.
func (v *Variable) Parameter() *Parameter {
	if v == nil {
		return nil
	}
	return v.now().param
}

// Alive reports whether the value is there.
func (v *Variable) Alive() bool { return v != nil && v.now().val != nil && !v.g.released }

// Keep makes the value survive Backward, which otherwise releases each intermediate result when it has passed it. The graph's
// Release still frees it. It returns v.
func (v *Variable) Keep() *Variable {
	if v != nil {
		v.now().keep = true
	}
	return v
}

// RetainGrad makes Backward leave the variable's gradient in Grad. Leaves do so anyway. If v is changed in place later, it is the
// gradient of what v has become, as in PyTorch since 2.0. It returns v.
func (v *Variable) RetainGrad() *Variable {
	if v == nil || v.g == nil {
		return v
	}
	w := v.now()
	if w.g.err == nil && !w.requires {
		v.g.Fail(gradError("RetainGrad of a variable that does not require a gradient"))
	}
	w.retain = true
	return v
}

// operand is what errors keep of v: copies, because an error may outlive the graph.
func (v *Variable) operand() Operand {
	if v == nil || v.dtype == 0 {
		return Operand{}
	}
	return Operand{DType: v.dtype, Shape: v.Shape().Clone()}
}

// check says why the value cannot be used, with the program's line.
func (v *Variable) check(use string) error {
	err := v.unusable(use)
	if gone, ok := err.(*ReleasedError); ok && !gone.Site.Known() {
		gone.Site = callSite()
	}
	return err
}

// unusable is check for what becomes part of an OpError, which has the line. It looks in the order in which it matters: at the graph's
// error, then at what became of the value.
func (v *Variable) unusable(use string) error {
	v = v.now()
	switch {
	case v == nil || v.g == nil:
		return called(use, ErrNilVariable)
	case v.g.released:
		err := &ReleasedError{Use: use, Operand: v.operand(), Reason: GraphReleased}
		v.g.Fail(err)
		return err
	case v.g.err != nil:
		return v.g.err
	case v.val == nil:
		return &ReleasedError{Use: use, Operand: v.operand(), Reason: v.gone}
	}
	return nil
}

// tensor is the value, of a variable that passed check.
func (v *Variable) tensor() *tensor.Tensor { return v.now().val.t }

// release drops the variable's hold on its value.
func (v *Variable) release(why Reason) {
	if v.val == nil {
		return
	}
	v.g.ledger.drop(v.val)
	v.val, v.gone = nil, why
}

// Release gives the value back before its scope or the graph ends. What nodes have saved of it stays until backward.
func (v *Variable) Release() {
	if v != nil && v.g != nil && !v.g.released {
		v.now().release(ReleasedEarly)
	}
}
