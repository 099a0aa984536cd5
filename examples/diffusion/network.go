package main

import (
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// unet finds the noise in images of which it is told how noisy they are. It goes down to half the size and up again, where it also sees what it had
// made of the whole size on the way down (Ronneberger and others, 2015).
type unet struct {
	nn.Base
	Time    *nn.SequentialModule // of the embedding of the time
	In      *nn.ConvLayer
	Down    *block
	Smaller *nn.ConvLayer
	Middle  []*block
	Larger  *nn.ConvTransposeLayer
	Up      *block
	Norm    *nn.GroupNormLayer
	Out     *nn.ConvLayer
	width   int
}

// groups is the number of groups that channels are normalized in.
const groups = 4

func newUNet(channels int) *unet {
	c, wide := channels, 2*channels
	return nn.New(&unet{
		width: wide,
		Time:  nn.Sequential(nn.Linear(wide, 2*wide), nn.SiLU(), nn.Linear(2*wide, 2*wide), nn.SiLU()),
		In:    nn.Conv2d(1, c, 3, nn.Padding(1)),
		Down:  newBlock(c, c, 2*wide), Smaller: nn.Conv2d(c, wide, 4, nn.Stride(2), nn.Padding(1)),
		Middle: []*block{newBlock(wide, wide, 2*wide), newBlock(wide, wide, 2*wide)},
		Larger: nn.ConvTranspose2d(wide, c, 4, nn.Stride(2), nn.Padding(1)), Up: newBlock(2*c, c, 2*wide),
		Norm: nn.GroupNorm(groups, c), Out: nn.Conv2d(c, 1, 3, nn.Padding(1), nn.WeightInit(nn.Zeros), nn.BiasInit(nn.Zeros)),
	})
}

// noise finds the noise in images x [N, 1, H, W] after times [N] of diffusion.
func (u *unet) noise(x, times *autograd.Variable) *autograd.Variable {
	return u.Scope(x, func(g *autograd.Graph) *autograd.Variable {
		t := u.Time.Forward(waves(g, times, u.width))
		whole := u.Down.noise(u.In.Forward(x), t)
		h := u.Smaller.Forward(whole)
		for _, b := range u.Middle {
			h = b.noise(h, t)
		}
		h = u.Up.noise(autograd.Cat([]*autograd.Variable{u.Larger.Forward(h), whole}, 1), t)
		return u.Out.Forward(u.Norm.Forward(h).SiLU())
	})
}

// waves embeds times [N] in [N, width], as transformers do with positions.
func waves(g *autograd.Graph, times *autograd.Variable, width int) *autograd.Variable {
	rates := g.Arange(0, float64(width/2), 1, tensor.Float32).MulScalar(-math.Log(10000) / float64(width/2)).Exp()
	angles := times.Unsqueeze(1).Mul(rates)
	return autograd.Cat([]*autograd.Variable{angles.Sin(), angles.Cos()}, 1)
}

// block is two convolutions beside a way past them, with the time between them.
type block struct {
	nn.Base
	Norm1, Norm2 *nn.GroupNormLayer
	Conv1, Conv2 *nn.ConvLayer
	Time         *nn.LinearLayer
	Past         *nn.ConvLayer // nil if the channels stay
}

func newBlock(in, out, time int) *block {
	b := &block{
		Norm1: nn.GroupNorm(groups, in), Norm2: nn.GroupNorm(groups, out), Time: nn.Linear(time, out),
		Conv1: nn.Conv2d(in, out, 3, nn.Padding(1)), Conv2: nn.Conv2d(out, out, 3, nn.Padding(1)),
	}
	if in != out {
		b.Past = nn.Conv2d(in, out, 1)
	}
	return nn.New(b)
}

func (b *block) noise(x, time *autograd.Variable) *autograd.Variable {
	return b.Scope(x, func(*autograd.Graph) *autograd.Variable {
		h := b.Conv1.Forward(b.Norm1.Forward(x).SiLU())
		h = b.Conv2.Forward(b.Norm2.Forward(h.Add(b.Time.Forward(time).Unsqueeze(2).Unsqueeze(3))).SiLU())
		if b.Past != nil {
			x = b.Past.Forward(x)
		}
		return x.Add(h)
	})
}
