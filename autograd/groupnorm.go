package autograd

import (
	"fmt"

	"github.com/cistern-ml/cistern/tensor"
)

// GroupNorm normalises v, [N, C, ...], over each sample's groups of C/groups channels, times weight, plus bias of each channel,
// which are [C] or nil. PyTorch's default of eps is 1e-5. Saves v, the weight if v needs a gradient, and mean and reciprocal
// standard deviation of each group. As in PyTorch a batch whose groups have one element in all is refused.
func (v *Variable) GroupNorm(groups int, weight, bias *Variable, eps float64) *Variable {
	return groupNorms.apply(groupNorm{groups: groups, eps: eps}, v, weight, bias, acrossChannels(v))
}

// InstanceNorm is GroupNorm with a group for each channel, which must have more than one element. It keeps no running
// statistics.
func (v *Variable) InstanceNorm(weight, bias *Variable, eps float64) *Variable {
	return instanceNorms.apply(groupNorm{instance: true, eps: eps}, v, weight, bias, acrossChannels(v))
}

var (
	groupNorms    = defineNorm("group_norm", true)
	instanceNorms = defineNorm("instance_norm", true)
)

// groupNorm is the argument of group norm and instance norm.
type groupNorm struct {
	groups   int
	instance bool // a group for each channel
	eps      float64
}

// of is the number of groups of t's channels.
func (a groupNorm) of(t *tensor.Tensor) int {
	if a.instance {
		return max(t.Dim(1), 1)
	}
	return a.groups
}

func (a groupNorm) forward(n *node, weight, bias *tensor.Tensor) (*tensor.Tensor, tensor.Moments, error) {
	t := n.tensor(0)
	if a.instance && t.NDim() > 1 && t.Shape()[2:].Len() == 1 {
		return nil, tensor.Moments{}, &tensor.ShapeError{Op: "InstanceNorm", Shapes: []tensor.Shape{t.Shape().Clone()},
			Detail: fmt.Sprintf("needs more than one element of each of the %d channels", t.Dim(1))}
	}
	if !a.instance && t.NDim() > 1 && a.groups > 0 && t.Dim(0)*(t.Dim(1)/a.groups)*t.Shape()[2:].Len() == 1 {
		return nil, tensor.Moments{}, &tensor.ShapeError{Op: "GroupNorm", Shapes: []tensor.Shape{t.Shape().Clone()},
			Detail: fmt.Sprintf("needs more than one element of each of the %d groups", a.groups)}
	}
	return tensor.GroupNorm(t, a.of(t), weight, bias, a.eps)
}

func (a groupNorm) saved(stashed func(int) *tensor.Tensor) tensor.Moments {
	return tensor.Moments{Mean: stashed(0), Rstd: stashed(1)}
}

func (a groupNorm) grad(g, t *tensor.Tensor, m tensor.Moments, weight, _, _ *tensor.Tensor) (*tensor.Tensor, error) {
	return gradients.GroupNorm(g, t, a.of(t), m, weight)
}

func (a groupNorm) sums(g, t *tensor.Tensor, m tensor.Moments) (weight, bias *tensor.Tensor, err error) {
	return gradients.GroupNormSums(g, t, a.of(t), m)
}

func (a groupNorm) biasGrad(g *tensor.Tensor, _ tensor.Shape) (*tensor.Tensor, error) {
	return sumChannels(g)
}

func (a groupNorm) inputNeedsSums() bool { return false }

// sumChannels sums all dimensions but the second.
func sumChannels(g *tensor.Tensor) (*tensor.Tensor, error) {
	dims := []int{0}
	for i := 2; i < g.NDim(); i++ {
		dims = append(dims, i)
	}
	return g.Sum(dims, false)
}
