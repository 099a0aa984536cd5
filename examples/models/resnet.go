package models

import (
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
}

// ResNet is a residual network in its form for small images (He et al., "Deep residual learning for image recognition", 2016): a
// stem of one 3x3 convolution, stages of blocks of two, batch norm after each convolution. Widths of 64, 128, 256 and 512 with
// 2 blocks each make what is called ResNet-18.
type ResNet struct {
	nn.Base
	stem, body, head nn.Module
}

// NewResNet makes a ResNet without values; its To gives them.
func NewResNet(c ResNetConfig) (*ResNet, error) {
	if c.Channels < 1 || c.Classes < 1 || c.Blocks < 1 || len(c.Widths) == 0 {
		return nil, errors.Errorf("models: ResNet: %+v has a part that is empty", c)
	}
	m := new(ResNet)
	m.stem = nn.Sequential(conv(c.Channels, c.Widths[0], 1), nn.BatchNorm2d(c.Widths[0]), nn.ReLU())
	var blocks []nn.Module
	in := c.Widths[0]
	for i, width := range c.Widths {
		if width < 1 {
			return nil, errors.Errorf("models: ResNet: stage %d has %d channels", i, width)
		}
		for j := range c.Blocks {
			stride := 1
			if i > 0 && j == 0 {
				stride = 2
			}
			blocks = append(blocks, newResidual(in, width, stride))
			in = width
		}
	}
	m.body = nn.Sequential(blocks...)
	m.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(in, c.Classes))
	m.Register("stem", m.stem)
	m.Register("body", m.body)
	m.Register("head", m.head)
	return m, nil
}

// Forward gives the logits, [batch, classes], of images, [batch, channels, rows, columns].
func (m *ResNet) Forward(x *autograd.Variable) *autograd.Variable {
	if x == nil {
		return nil
	}
	return x.Graph().Scope(func() *autograd.Variable {
		return m.head.Forward(x.Graph().Scope(func() *autograd.Variable { return m.body.Forward(m.stem.Forward(x)) }))
	})
}

func conv(in, out, stride int) nn.Module {
	return nn.Conv2d(in, out, 3, nn.Stride(stride), nn.Padding(1), nn.NoBias())
}

// residual is a block: two convolutions beside a way past them.
type residual struct {
	nn.Base
	branch   nn.Module
	shortcut nn.Module // nil for the input itself
}

func newResidual(in, out, stride int) *residual {
	r := &residual{branch: nn.Sequential(conv(in, out, stride), nn.BatchNorm2d(out), nn.ReLU(), conv(out, out, 1), nn.BatchNorm2d(out))}
	r.Register("branch", r.branch)
	if in != out || stride != 1 {
		r.shortcut = nn.Sequential(nn.Conv2d(in, out, 1, nn.Stride(stride), nn.NoBias()), nn.BatchNorm2d(out))
		r.Register("shortcut", r.shortcut)
	}
	return r
}

// Forward implements nn.Module.
func (r *residual) Forward(x *autograd.Variable) *autograd.Variable {
	if x == nil {
		return nil
	}
	return x.Graph().Scope(func() *autograd.Variable {
		sum := x.Graph().Scope(func() *autograd.Variable {
			past := x
			if r.shortcut != nil {
				past = r.shortcut.Forward(x)
			}
			return r.branch.Forward(x).Add(past)
		})
		return sum.ReLU()
	})
}
