package autograd

import "github.com/cistern-ml/cistern/tensor"

// MaxPool1d is the largest element of each window of v, [N, C, L] or [C, L]. Saves which element of its window each result is:
// one byte for each (four if windows have more than 256 elements). v is not saved.
func (v *Variable) MaxPool1d(p tensor.Pool) *Variable { return maxPool1d.apply(p, v) }

// MaxPool2d is the largest element of each window of v, [N, C, H, W] or [C, H, W]. It saves what MaxPool1d saves.
func (v *Variable) MaxPool2d(p tensor.Pool) *Variable { return maxPool2d.apply(p, v) }

// AdaptiveMaxPool1d is MaxPool1d with windows such that the result has a given size.
func (v *Variable) AdaptiveMaxPool1d(size int) *Variable {
	return adaptiveMaxPool1d.apply(tensor.Adaptive(size), v)
}

// AdaptiveMaxPool2d is MaxPool2d with windows such that the result has a given size: one number, or one for rows and one for
// columns.
func (v *Variable) AdaptiveMaxPool2d(size ...int) *Variable {
	return adaptiveMaxPool2d.apply(tensor.Adaptive(size...), v)
}

// AvgPool1d is the average of each window of v, [N, C, L] or [C, L]. Saves nothing.
func (v *Variable) AvgPool1d(p tensor.Pool) *Variable { return avgPool1d.apply(p, v) }

// AvgPool2d is the average of each window of v, [N, C, H, W] or [C, H, W]. Saves nothing.
func (v *Variable) AvgPool2d(p tensor.Pool) *Variable { return avgPool2d.apply(p, v) }

// AdaptiveAvgPool1d is AvgPool1d with windows such that the result has a given size.
func (v *Variable) AdaptiveAvgPool1d(size int) *Variable {
	return adaptiveAvgPool1d.apply(tensor.Adaptive(size), v)
}

// AdaptiveAvgPool2d is AvgPool2d with windows such that the result has a given size: one number, or one for rows and one for
// columns.
func (v *Variable) AdaptiveAvgPool2d(size ...int) *Variable {
	return adaptiveAvgPool2d.apply(tensor.Adaptive(size...), v)
}

var (
	maxPool1d         = defineMaxPool("max_pool1d", 1)
	maxPool2d         = defineMaxPool("max_pool2d", 2)
	adaptiveMaxPool1d = defineMaxPool("adaptive_max_pool1d", 1)
	adaptiveMaxPool2d = defineMaxPool("adaptive_max_pool2d", 2)
	avgPool1d         = defineAvgPool("avg_pool1d", 1)
	avgPool2d         = defineAvgPool("avg_pool2d", 2)
	adaptiveAvgPool1d = defineAvgPool("adaptive_avg_pool1d", 1)
	adaptiveAvgPool2d = defineAvgPool("adaptive_avg_pool2d", 2)
)

func defineMaxPool(name string, dims int) *op {
	forward := (*tensor.Tensor).MaxPool2d
	if dims == 1 {
		forward = (*tensor.Tensor).MaxPool1d
	}
	return define(name,
		func(n *node) (*tensor.Tensor, error) {
			out, from, err := forward(n.tensor(0), n.arg.(tensor.Pool))
			if err == nil {
				n.stash(from)
			}
			return out, err
		},
		rule{uses: stash, grad: func(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
			return gradients.In(n.in[0].order()).MaxPool(g, n.stashed(0), n.in[0].Shape(), dims, n.arg.(tensor.Pool))
		}})
}

func defineAvgPool(name string, dims int) *op {
	forward := (*tensor.Tensor).AvgPool2d
	if dims == 1 {
		forward = (*tensor.Tensor).AvgPool1d
	}
	return define(name,
		func(n *node) (*tensor.Tensor, error) { return forward(n.tensor(0), n.arg.(tensor.Pool)) },
		rule{grad: func(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
			return gradients.In(n.in[0].order()).AvgPool(g, n.in[0].Shape(), dims, n.arg.(tensor.Pool))
		}})
}
