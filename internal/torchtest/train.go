package torchtest

import (
	"fmt"
	"math"
	"strconv"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
)

// train runs the steps of an optimizer.
func (r *Runner) train(t *Train) *Answer {
	a := &Answer{Failed: -1, Values: map[string]Value{}, Grads: map[string]Value{}}
	params, err := r.parameters(t)
	for _, p := range params {
		defer p.Release()
	}
	if err != nil {
		return &Answer{Error: err.Error()}
	}
	opt, err := t.optimizer(params)
	if err != nil {
		return &Answer{Error: err.Error()}
	}
	defer opt.Release()
	advance := func(int) error { return nil }
	if t.Schedule != nil {
		if advance, err = t.schedule(opt); err != nil {
			return &Answer{Error: err.Error()}
		}
	}
	for k, grads := range t.Grads {
		if err := r.trainStep(t, params, grads, opt, func() error { return advance(k) }); err != nil {
			return &Answer{Failed: k, Error: err.Error()}
		}
		if err := a.note(k, params, opt); err != nil {
			return &Answer{Failed: k, Error: err.Error()}
		}
	}
	return a
}

func (r *Runner) parameters(t *Train) (params []*autograd.Parameter, err error) {
	for i, d := range t.Data {
		x, err := parse(r.exec, t.DType, d, t.Shapes[i])
		if err != nil {
			return params, err
		}
		params = append(params, autograd.NewParameter(fmt.Sprint("p", i), x))
	}
	return params, nil
}

func (r *Runner) trainStep(t *Train, params []*autograd.Parameter, grads []*string, opt *optim.Grouped, advance func() error) error {
	for i, p := range params {
		p.ZeroGrad()
		if grads[i] == nil {
			continue
		}
		g, err := parse(r.exec, t.DType, *grads[i], t.Shapes[i])
		if err != nil {
			return err
		}
		if err := p.SetGrad(g); err != nil {
			g.Release()
			return err
		}
	}
	if err := t.clip(params); err != nil {
		return err
	}
	if err := opt.Step(); err != nil {
		return err
	}
	return advance()
}

func (t *Train) clip(params []*autograd.Parameter) error {
	if t.ClipNorm != nil {
		limit, err := strconv.ParseFloat(*t.ClipNorm, 64)
		if err != nil {
			return err
		}
		kind := 2.0
		if t.NormType != "" {
			if kind, err = strconv.ParseFloat(t.NormType, 64); err != nil {
				return err
			}
		}
		if _, err := optim.ClipGradNorm(params, limit, optim.NormType(kind)); err != nil {
			return err
		}
	}
	if t.ClipValue != nil {
		return optim.ClipGradValue(params, *t.ClipValue)
	}
	return nil
}

func (a *Answer) note(step int, params []*autograd.Parameter, opt *optim.Grouped) error {
	for i, p := range params {
		v, err := format(p.Tensor())
		if err != nil {
			return err
		}
		a.Values[fmt.Sprintf("p%d.%d", i, step)] = v
	}
	for g := range opt.Groups() {
		a.Values[fmt.Sprintf("lr%d.%d", g, step)] = Value{DType: "float64", Shape: []int{}, Data: number(opt.LR(g))}
	}
	return nil
}

func (t *Train) optimizer(params []*autograd.Parameter) (*optim.Grouped, error) {
	make := map[string]func([]*autograd.Parameter, ...optim.Option) *optim.Grouped{"SGD": optim.SGD, "Adam": optim.Adam, "AdamW": optim.AdamW,
		"RMSprop": optim.RMSprop, "Adagrad": optim.Adagrad}[t.Optimizer]
	if make == nil {
		return nil, fmt.Errorf("no optimizer %s", t.Optimizer)
	}
	opts, err := t.options()
	if err != nil {
		return nil, err
	}
	if t.Groups == 0 {
		o := make(params, opts...)
		return o, o.Err()
	}
	o := make(params[:t.Groups], opts...).AddGroup(params[t.Groups:])
	return o, o.Err()
}

// options translates PyTorch's keywords.
func (t *Train) options() (opts []optim.Option, err error) {
	for key, v := range t.Options {
		f, _ := v.(float64)
		on, _ := v.(bool)
		flag := func(o optim.Option) {
			if on {
				opts = append(opts, o)
			}
		}
		switch key {
		case "lr":
			opts = append(opts, optim.LR(f))
		case "momentum":
			opts = append(opts, optim.Momentum(f))
		case "dampening":
			opts = append(opts, optim.Dampening(f))
		case "weight_decay":
			opts = append(opts, optim.WeightDecay(f))
		case "eps":
			opts = append(opts, optim.Eps(f))
		case "alpha":
			opts = append(opts, optim.Alpha(f))
		case "lr_decay":
			opts = append(opts, optim.LRDecay(f))
		case "initial_accumulator_value":
			opts = append(opts, optim.InitialAccumulator(f))
		case "betas":
			b := v.([]any)
			opts = append(opts, optim.Betas(b[0].(float64), b[1].(float64)))
		case "nesterov":
			flag(optim.Nesterov())
		case "maximize":
			flag(optim.Maximize())
		case "amsgrad":
			flag(optim.AMSGrad())
		case "centered":
			flag(optim.Centered())
		default:
			return nil, fmt.Errorf("no option %s", key)
		}
	}
	return opts, nil
}

func (t *Train) schedule(opt *optim.Grouped) (func(int) error, error) {
	o := t.Schedule.Options
	f := func(key string, missing float64) float64 {
		if v, ok := o[key].(float64); ok {
			return v
		}
		return missing
	}
	n := func(key string, missing int) int { return int(f(key, float64(missing))) }
	var s *optim.Schedule
	switch t.Schedule.Name {
	case "StepLR":
		s = optim.StepLR(opt, n("step_size", 1), f("gamma", 0.1))
	case "MultiStepLR":
		var at []int
		for _, x := range o["milestones"].([]any) {
			at = append(at, int(x.(float64)))
		}
		s = optim.MultiStepLR(opt, at, f("gamma", 0.1))
	case "ExponentialLR":
		s = optim.ExponentialLR(opt, f("gamma", 1))
	case "ConstantLR":
		s = optim.ConstantLR(opt, f("factor", 1./3), n("total_iters", 5))
	case "LinearLR":
		s = optim.LinearLR(opt, f("start_factor", 1./3), f("end_factor", 1), n("total_iters", 5))
	case "CosineAnnealingLR":
		s = optim.CosineAnnealingLR(opt, n("T_max", 1), f("eta_min", 0))
	case "CosineAnnealingWarmRestarts":
		s = optim.CosineAnnealingWarmRestarts(opt, n("T_0", 1), n("T_mult", 1), f("eta_min", 0))
	case "OneCycleLR":
		s = optim.OneCycleLR(opt, []float64{f("max_lr", 0)}, n("total_steps", 0), oneCycle(o, f)...)
	case "ReduceLROnPlateau":
		p := optim.ReduceLROnPlateau(opt, plateau(o, f)...)
		return func(k int) error {
			m, err := strconv.ParseFloat(t.Metrics[k], 64)
			if err != nil {
				return err
			}
			return p.Step(m)
		}, nil
	default:
		return nil, fmt.Errorf("no schedule %s", t.Schedule.Name)
	}
	return func(int) error { return s.Step() }, s.Err()
}

func oneCycle(o map[string]any, f func(string, float64) float64) (opts []optim.OneCycleOption) {
	opts = append(opts, optim.PctStart(f("pct_start", 0.3)))
	if o["anneal_strategy"] == "linear" {
		opts = append(opts, optim.LinearAnneal())
	}
	if o["cycle_momentum"] == false {
		opts = append(opts, optim.FixedMomentum())
	}
	if o["three_phase"] == true {
		opts = append(opts, optim.ThreePhase())
	}
	return opts
}

func plateau(o map[string]any, f func(string, float64) float64) []optim.PlateauOption {
	opts := []optim.PlateauOption{optim.PlateauFactor(f("factor", 0.1)), optim.Patience(int(f("patience", 10))),
		optim.Threshold(f("threshold", 1e-4), o["threshold_mode"] == "abs"), optim.Cooldown(int(f("cooldown", 0))), optim.MinLR(math.Max(f("min_lr", 0), 0))}
	if o["mode"] == "max" {
		opts = append(opts, optim.MaxMode())
	}
	return opts
}
