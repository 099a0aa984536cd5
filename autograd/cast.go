package autograd

import "github.com/cistern-ml/cistern/tensor"

// To converts v to dt; it shares v's memory if that is its type. The gradient is converted back. Saves nothing.
func (v *Variable) To(dt tensor.DType) *Variable { return to.apply(dt, v) }

var to = takesAnyGrad(define("to", toForward, rule{grad: passGrad}))

func toForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).To(n.arg.(tensor.DType)) }

// Contiguous is v with its elements in row-major order without gaps: v's own memory if it is so already, else a copy. Saves
// nothing.
func (v *Variable) Contiguous() *Variable { return contiguous.apply(nil, v) }

var contiguous = define("contiguous", contiguousForward, rule{grad: passGrad})

func contiguousForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).Contiguous() }
