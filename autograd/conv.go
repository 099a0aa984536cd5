package autograd

import "github.com/cistern-ml/cistern/tensor"

// Conv1d is the convolution of v, [N, C, L] or [C, L], with weight, [O, C/Groups, K], plus bias, [O], or nil for none. It saves v
// if the weight needs a gradient, and the weight if v does.
func (v *Variable) Conv1d(weight, bias *Variable, c tensor.Conv) *Variable {
	return biased(conv1d, conv1dBias, c, v, weight, bias)
}

// Conv2d is the convolution of v, [N, C, H, W] or [C, H, W], with weight, [O, C/Groups, KH, KW], plus bias, [O], or nil for none.
// It saves v if the weight needs a gradient, and the weight if v does.
func (v *Variable) Conv2d(weight, bias *Variable, c tensor.Conv) *Variable {
	return biased(conv2d, conv2dBias, c, v, weight, bias)
}

// ConvTranspose1d is the transposed convolution of v, [N, C, L] or [C, L], with weight, [C, O/Groups, K], plus bias, [O], or nil
// for none. It saves v if the weight needs a gradient, and the weight if v does.
func (v *Variable) ConvTranspose1d(weight, bias *Variable, c tensor.ConvTranspose) *Variable {
	return biased(convTranspose1d, convTranspose1dBias, c, v, weight, bias)
}

// ConvTranspose2d is the transposed convolution of v, [N, C, H, W] or [C, H, W], with weight, [C, O/Groups, KH, KW], plus bias,
// [O], or nil for none. It saves v if the weight needs a gradient, and the weight if v does.
func (v *Variable) ConvTranspose2d(weight, bias *Variable, c tensor.ConvTranspose) *Variable {
	return biased(convTranspose2d, convTranspose2dBias, c, v, weight, bias)
}

var (
	conv1d, conv1dBias = defineConv("conv1d", convForward(tensor.Conv1d), convGradInput, convGradWeight)
	conv2d, conv2dBias = defineConv("conv2d", convForward(tensor.Conv2d), convGradInput, convGradWeight)

	convTranspose1d, convTranspose1dBias = defineConv("conv_transpose1d", convForward(tensor.ConvTranspose1d),
		convTransposeGradInput, convTransposeGradWeight)
	convTranspose2d, convTranspose2dBias = defineConv("conv_transpose2d", convForward(tensor.ConvTranspose2d),
		convTransposeGradInput, convTransposeGradWeight)
)

type gradient = func(n *node, i int, g *tensor.Tensor) (*tensor.Tensor, error)

// defineConv defines an operation on an image and kernels, and the one with a bias as well.
func defineConv(name string, forward func(n *node) (*tensor.Tensor, error), image, weight gradient) (plain, bias *op) {
	left, right := rule{uses: input(1), grad: image}, rule{uses: input(0), grad: weight}
	return define(name, forward, left, right), define(name+"_bias", forward, left, right, rule{grad: convGradBias})
}

// biased applies the operation for three inputs, or for two if there is no bias.
func biased(plain, with *op, arg any, v, weight, bias *Variable) *Variable {
	if bias == nil {
		return plain.apply(arg, v, weight)
	}
	return with.apply(arg, v, weight, bias)
}

func convForward[A any](f func(x, w, bias *tensor.Tensor, a A) (*tensor.Tensor, error)) func(n *node) (*tensor.Tensor, error) {
	return func(n *node) (*tensor.Tensor, error) {
		var bias *tensor.Tensor
		if len(n.in) == 3 {
			bias = n.tensor(2)
		}
		return f(n.tensor(0), n.tensor(1), bias, n.arg.(A))
	}
}

// imageOrder is the memory format of the gradient of a convolution's image, as PyTorch has it: the channels are last if image or kernels have them there.
func (n *node) imageOrder() tensor.MemoryFormat { return max(n.in[0].order(), n.in[1].order()) }

func convGradInput(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return gradients.In(n.imageOrder()).ConvInput(g, n.savedInput(1), n.in[0].Shape(), n.arg.(tensor.Conv))
}

func convGradWeight(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return gradients.In(n.in[1].order()).ConvWeight(g, n.savedInput(0), n.in[1].Shape(), n.arg.(tensor.Conv))
}

func convTransposeGradInput(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return gradients.In(n.imageOrder()).ConvTransposeInput(g, n.savedInput(1), n.in[0].Shape(), n.arg.(tensor.ConvTranspose))
}

func convTransposeGradWeight(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return gradients.In(n.in[1].order()).ConvTransposeWeight(g, n.savedInput(0), n.in[1].Shape(), n.arg.(tensor.ConvTranspose))
}

// convGradBias is the sum of g over all but the channels.
func convGradBias(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	channel := g.NDim() - (n.in[1].NDim() - 1)
	var dims []int
	for d := range g.NDim() {
		if d != channel {
			dims = append(dims, d)
		}
	}
	return g.Sum(dims, false)
}
