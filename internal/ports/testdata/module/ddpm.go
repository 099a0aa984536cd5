package main

import (
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/tensor"
)

func init() { programs["ddpm"] = ddpm }

// ddpmTime are the sines and cosines of timesteps, [N], at frequencies from 1 to 1/10000: [N, width].
func ddpmTime(t *autograd.Variable, width int) *autograd.Variable {
	half := width / 2
	freqs := t.Graph().Arange(0, float64(half), 1, tensor.Float64).MulScalar(-math.Log(10000) / float64(half-1)).Exp()
	angles := t.Unsqueeze(1).Mul(freqs.Unsqueeze(0))
	return autograd.Cat([]*autograd.Variable{angles.Sin(), angles.Cos()}, -1)
}

type ddpmBlock struct {
	nn.Base
	Norm1    *nn.GroupNormLayer
	Conv1    *nn.ConvLayer
	TimeProj *nn.SequentialModule
	Norm2    *nn.GroupNormLayer
	Conv2    *nn.ConvLayer
	Shortcut nn.Layer
}

func newDDPMBlock(in, out, time int) *ddpmBlock {
	b := &ddpmBlock{
		Norm1: nn.GroupNorm(2, in), Conv1: nn.Conv2d(in, out, 3, nn.Padding(1)),
		TimeProj: nn.Sequential(nn.SiLU(), nn.Linear(time, out)),
		Norm2:    nn.GroupNorm(2, out), Conv2: nn.Conv2d(out, out, 3, nn.Padding(1)),
		Shortcut: nn.Identity(),
	}
	if in != out {
		b.Shortcut = nn.Conv2d(in, out, 1)
	}
	return nn.New(b)
}

func (b *ddpmBlock) Forward(x, time *autograd.Variable) *autograd.Variable {
	return b.Scope(x, func(*autograd.Graph) *autograd.Variable {
		h := b.Conv1.Forward(b.Norm1.Forward(x).SiLU())
		h = h.Add(b.TimeProj.Forward(time).Unsqueeze(-1).Unsqueeze(-1))
		h = b.Conv2.Forward(b.Norm2.Forward(h).SiLU())
		return h.Add(b.Shortcut.Forward(x))
	})
}

type ddpmUNet struct {
	nn.Base
	TimeMLP    *nn.SequentialModule
	ConvIn     *nn.ConvLayer
	Down       *ddpmBlock
	Downsample *nn.ConvLayer
	Mid        *ddpmBlock
	Upsample   *nn.SequentialModule
	Up         *ddpmBlock
	Out        *nn.SequentialModule

	width int
}

func newDDPMUNet(channels, width int) *ddpmUNet {
	time := 2 * width
	return nn.New(&ddpmUNet{
		TimeMLP: nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time)),
		ConvIn:  nn.Conv2d(channels, width, 3, nn.Padding(1)),
		Down:    newDDPMBlock(width, width, time), Downsample: nn.Conv2d(width, 2*width, 3, nn.Stride(2), nn.Padding(1)),
		Mid:      newDDPMBlock(2*width, 2*width, time),
		Upsample: nn.Sequential(nn.Upsample(nn.Nearest, tensor.Upsample{Scale: []float64{2}}), nn.Conv2d(2*width, width, 3, nn.Padding(1))),
		Up:       newDDPMBlock(2*width, width, time),
		Out:      nn.Sequential(nn.GroupNorm(2, width), nn.SiLU(), nn.Conv2d(width, channels, 3, nn.Padding(1))),
		width:    width,
	})
}

// Forward predicts the noise in x, [N, channels, H, W], at timesteps t, [N].
func (m *ddpmUNet) Forward(x, t *autograd.Variable) *autograd.Variable {
	return m.Scope(x, func(*autograd.Graph) *autograd.Variable {
		time := m.TimeMLP.Forward(ddpmTime(t, m.width))
		skip := m.Down.Forward(m.ConvIn.Forward(x), time)
		h := m.Mid.Forward(m.Downsample.Forward(skip), time)
		h = m.Up.Forward(autograd.Cat([]*autograd.Variable{m.Upsample.Forward(h), skip}, 1), time)
		return m.Out.Forward(h)
	})
}

// ddpmSchedule are the numbers of each timestep.
type ddpmSchedule struct {
	nn.Base
	Betas, AlphasCumprod *autograd.Parameter `nn:",buffer"`
}

func newDDPMSchedule(timesteps int) *ddpmSchedule {
	betas := func(e tensor.Exec, _ *tensor.Generator, dt tensor.DType, shape ...int) (*tensor.Tensor, error) {
		return tensor.Linspace(e, 1e-3, 0.3, shape[0], dt)
	}
	return nn.New(&ddpmSchedule{
		Betas: autograd.DeclareParameter("betas", betas, timesteps),
		AlphasCumprod: autograd.DeclareParameter("alphas_cumprod", func(e tensor.Exec, gen *tensor.Generator, dt tensor.DType, shape ...int) (*tensor.Tensor, error) {
			t, err := betas(e, gen, dt, shape...)
			if err != nil {
				return nil, err
			}
			defer t.Release()
			alphas, err := t.RSubScalar(1)
			if err != nil {
				return nil, err
			}
			defer alphas.Release()
			return alphas.CumProd(0)
		}, timesteps),
	})
}

// at takes the numbers of timesteps t, [N], for [N, C, H, W].
func (s *ddpmSchedule) at(values *autograd.Parameter, t *autograd.Variable) *autograd.Variable {
	return t.Graph().Param(values).Gather(0, t).Reshape(-1, 1, 1, 1)
}

// noised are images with the noise that they have after timesteps t.
func (s *ddpmSchedule) noised(x, t, noise *autograd.Variable) *autograd.Variable {
	a := s.at(s.AlphasCumprod, t)
	return a.Sqrt().Mul(x).Add(a.RSubScalar(1).Sqrt().Mul(noise))
}

// denoised is x one timestep before t, where noise is fresh.
func (s *ddpmSchedule) denoised(model *ddpmUNet, x, t, noise *autograd.Variable) *autograd.Variable {
	beta, a := s.at(s.Betas, t), s.at(s.AlphasCumprod, t)
	mean := x.Sub(beta.Mul(model.Forward(x, t)).Div(a.RSubScalar(1).Sqrt())).Div(beta.RSubScalar(1).Sqrt())
	before := a.Div(beta.RSubScalar(1))
	return mean.Add(beta.Mul(before.RSubScalar(1)).Div(a.RSubScalar(1)).Sqrt().Mul(noise))
}

// ddpm is a denoising diffusion model: a U-Net that predicts noise, and images made out of noise by the average of its weights.
func ddpm(p *port) error {
	const timesteps, batch, channels, width, size = 10, 3, 2, 4, 6
	model, schedule := newDDPMUNet(channels, width), newDDPMSchedule(timesteps)
	for _, m := range []nn.Module{model, schedule} {
		if err := p.place(m); err != nil {
			return err
		}
		defer m.Release()
	}
	ema, err := nn.EMA(model, 0.9)
	if err != nil {
		return err
	}
	defer ema.Release()
	p.models = append(p.models, ema)
	opt := optim.AdamW(model.Parameters(), optim.LR(0.01))
	p.train(opt)
	defer opt.Release()

	step := func(i int) error {
		g := p.graph()
		defer g.Release()
		images, noise := p.data(g, float64(i), 1, batch, channels, size, size), p.data(g, 100+1.3*float64(i), 1.4, batch, channels, size, size)
		t := autograd.FromSlice(g, []int64{int64(i), int64(2*i + 1), int64(9 - i)}, batch)
		opt.ZeroGrad()
		loss := model.Forward(schedule.noised(images, t, noise), t).MSELoss(noise, autograd.MeanReduction)
		if err := loss.Backward(); err != nil {
			return err
		}
		if err := opt.Step(); err != nil {
			return err
		}
		if err := ema.Update(model); err != nil {
			return err
		}
		return p.losses(g, loss)
	}
	for i := range 4 {
		if err := step(i); err != nil {
			return err
		}
	}

	nn.Eval(ema.Module)
	// sample goes from x at timestep t to the one before, and gives mean and deviation, too.
	sample := func(x *tensor.Tensor, t int64) (before *tensor.Tensor, log []float64, err error) {
		g := p.graph(autograd.NoGrad())
		defer g.Release()
		in := p.data(g, 50, 1.4, batch, channels, size, size)
		if x != nil {
			in = g.Input(x)
		}
		out := schedule.denoised(ema.Module, in, g.Full(float64(t), tensor.Int64, batch), p.data(g, 200+float64(t), 1.4, batch, channels, size, size))
		deviation, mean := out.StdMean(nil, 1, false)
		for _, v := range []*autograd.Variable{mean, deviation} {
			number, err := v.Item()
			if err != nil {
				return nil, nil, err
			}
			log = append(log, number)
		}
		before, err = out.Take()
		return before, log, err
	}
	var x *tensor.Tensor
	var log []float64
	for t := timesteps - 1; t >= timesteps-3; t-- {
		before, numbers, err := sample(x, int64(t))
		x.Release()
		if err != nil {
			return err
		}
		x, log = before, append(log, numbers...)
	}
	x.Release()
	return p.step(log...)
}
