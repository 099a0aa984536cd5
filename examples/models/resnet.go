package models

import (
	"slices"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
)

// ResNetConfig is the shape of a ResNet.
type ResNetConfig struct {
	Channels int // of the images
	Classes  int
	Widths   []int // channels of each stage; each but the first halves the image
	Blocks   int   // of each stage
	// Stages are the blocks of each stage, one number for each of Widths, instead of Blocks.
	Stages []int
	// Bottleneck makes blocks of three convolutions, of which the middle one has the stage's width and the last four times as many
	// channels.
	Bottleneck bool
	// Large makes the stem for large images: a 7x7 convolution and a pool that both halve the image.
	Large bool
}

// ResNet is a residual network (He et al., "Deep residual learning for image recognition", 2016): a stem, which is one 3x3
// convolution in its form for small images, stages of blocks of two convolutions, batch norm after each convolution. Widths of 64,
// 128, 256 and 512 with 2 blocks each make what is called ResNet-18; with 3, 4, 6 and 3 bottlenecks and the large stem, ResNet-50,
// in whose bottlenecks the 3x3 convolution is the one that halves the image, as in torchvision.
type ResNet struct {
	nn.Base
	Stem, Body, Head nn.Layer
}

// NewResNet makes a ResNet without values; its To gives them.
func NewResNet(c ResNetConfig) (*ResNet, error) {
	if c.Stages == nil && c.Blocks > 0 {
		c.Stages = slices.Repeat([]int{c.Blocks}, len(c.Widths))
	}
	if c.Channels < 1 || c.Classes < 1 || len(c.Widths) == 0 || len(c.Stages) != len(c.Widths) || slices.Min(c.Stages) < 1 {
		return nil, errors.Errorf("models: ResNet: %+v has a part that is empty", c)
	}
	m := new(ResNet)
	m.Stem = newStem(c)
	block := newResidual
	if c.Bottleneck {
		block = newBottleneck
	}
	var blocks []nn.Layer
	in := c.Widths[0]
	for i, width := range c.Widths {
		if width < 1 {
			return nil, errors.Errorf("models: ResNet: stage %d has %d channels", i, width)
		}
		for j := range c.Stages[i] {
			stride := 1
			if i > 0 && j == 0 {
				stride = 2
			}
			b, out := block(in, width, stride)
			blocks, in = append(blocks, b), out
		}
	}
	m.Body = nn.Sequential(blocks...)
	m.Head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(in, c.Classes))
	return nn.New(m), nil
}

// Forward gives the logits, [batch, classes], of images, [batch, channels, rows, columns].
func (m *ResNet) Forward(x *autograd.Variable) *autograd.Variable {
	return m.Scope(x, func(g *autograd.Graph) *autograd.Variable {
		return m.Head.Forward(g.Scope(func() *autograd.Variable { return m.Body.Forward(m.Stem.Forward(x)) }))
	})
}

// newStem makes what comes before the stages.
func newStem(c ResNetConfig) nn.Layer {
	width := c.Widths[0]
	if c.Large {
		return nn.Sequential(nn.Conv2d(c.Channels, width, 7, nn.Stride(2), nn.Padding(3), nn.NoBias()), nn.BatchNorm2d(width), nn.ReLU(),
			nn.MaxPool2d(3, nn.Stride(2), nn.Padding(1)))
	}
	return nn.Sequential(conv(c.Channels, width, 1), nn.BatchNorm2d(width), nn.ReLU())
}

func conv(in, out, stride int) nn.Layer {
	return nn.Conv2d(in, out, 3, nn.Stride(stride), nn.Padding(1), nn.NoBias())
}

// pointwise is a convolution of single points.
func pointwise(in, out, stride int) nn.Layer {
	return nn.Conv2d(in, out, 1, nn.Stride(stride), nn.NoBias())
}

// residual is a block: convolutions beside a way past them.
type residual struct {
	nn.Base
	Branch   nn.Layer
	Shortcut nn.Layer // nil for the input itself
}

// newResidual makes a block of two convolutions, and says how many channels it gives.
func newResidual(in, width, stride int) (block nn.Layer, out int) {
	branch := nn.Sequential(conv(in, width, stride), nn.BatchNorm2d(width), nn.ReLU(), conv(width, width, 1), nn.BatchNorm2d(width))
	return around(branch, in, width, stride), width
}

// expansion is how many channels a bottleneck gives for each of the stage's width.
const expansion = 4

// newBottleneck makes a block of three convolutions, and says how many channels it gives.
func newBottleneck(in, width, stride int) (block nn.Layer, out int) {
	out = expansion * width
	branch := nn.Sequential(pointwise(in, width, 1), nn.BatchNorm2d(width), nn.ReLU(), conv(width, width, stride), nn.BatchNorm2d(width), nn.ReLU(),
		pointwise(width, out, 1), nn.BatchNorm2d(out))
	return around(branch, in, out, stride), out
}

// around puts a way past a branch that changes channels and size like this.
func around(branch nn.Layer, in, out, stride int) nn.Layer {
	r := &residual{Branch: branch}
	if in != out || stride != 1 {
		r.Shortcut = nn.Sequential(pointwise(in, out, stride), nn.BatchNorm2d(out))
	}
	return nn.New(r)
}

// Forward implements nn.Layer.
func (r *residual) Forward(x *autograd.Variable) *autograd.Variable {
	return r.Scope(x, func(g *autograd.Graph) *autograd.Variable {
		sum := g.Scope(func() *autograd.Variable {
			past := x
			if r.Shortcut != nil {
				past = r.Shortcut.Forward(x)
			}
			return r.Branch.Forward(x).Add(past)
		})
		return sum.ReLU()
	})
}
