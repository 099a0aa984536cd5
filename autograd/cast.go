package autograd

import (
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// To converts v to dt; it shares v's memory if that is its type. The gradient is converted back. Saves nothing.
func (v *Variable) To(dt tensor.DType) *Variable { return to.apply(dt, v) }

var to = takesAnyGrad(define("to", toForward, rule{grad: passGrad}))

func toForward(n *node) (*tensor.Tensor, error) {
	if made, ok := n.arg.(*tensor.Tensor); ok {
		if v := n.in[0]; !made.Released() && !made.Shape().Equal(v.Shape()) {
			return nil, &tensor.ShapeError{Op: "to", Shapes: []tensor.Shape{v.Shape().Clone(), made.Shape().Clone()}, Detail: "a conversion has the shape of what is converted"}
		}
		return n.g.adopt("to", made)
	}
	return n.tensor(0).To(n.arg.(tensor.DType))
}

// Converted is v.To for a conversion that has been made already: t has the values of v in another type, and stays its owner's. Its content must not
// change while the graph is there. It is for packages of this module, which alone can write the key.
func Converted(_ training.Key, v *Variable, t *tensor.Tensor) *Variable { return to.apply(t, v) }

// Contiguous is v with its elements in row-major order without gaps: v's own memory if it is so already, else a copy. Saves
// nothing.
func (v *Variable) Contiguous() *Variable { return contiguous.apply(nil, v) }

var contiguous = define("contiguous", contiguousForward, rule{grad: passGrad})

// ToMemoryFormat is v with its elements in the order of a memory format, without gaps: v's own memory if they lie so, else a copy. Operations on images
// give results, and gradients of images, in the format of their image. tensor.ChannelsLast takes 4 dimensions, ChannelsLast3d 5. Saves nothing.
func (v *Variable) ToMemoryFormat(f tensor.MemoryFormat) *Variable { return toMemoryFormat.apply(f, v) }

var toMemoryFormat = define("to_memory_format", func(n *node) (*tensor.Tensor, error) {
	return n.tensor(0).ToMemoryFormat(n.arg.(tensor.MemoryFormat))
}, rule{grad: passGrad})

// MemoryFormat is the format that v's value had as it was made: see tensor.Tensor.MemoryFormat.
func (v *Variable) MemoryFormat() tensor.MemoryFormat {
	if v == nil {
		return tensor.ContiguousFormat
	}
	return v.order()
}

func contiguousForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).Contiguous() }
