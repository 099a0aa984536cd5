package torchtest

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

func convolutions(g *generator) {
	dims := 1 + g.IntN(2)
	groups := oneOf(g, 1, 1, 1, 2)
	in, out := groups*(1+g.IntN(2)), groups*(1+g.IntN(2))
	image, kernel := []int{in}, []int{}
	if g.chance(0.85) {
		image = append([]int{1 + g.IntN(2)}, image...)
	}
	for range dims {
		kernel = append(kernel, 1+g.IntN(3))
		image = append(image, 3+g.IntN(4))
	}
	dt := dtypes[g.main]
	x := g.like(dt, image)
	var bias any
	if g.chance(0.5) {
		bias = g.like(dt, []int{out})
	}
	if g.special > 0 && !g.p.Eager {
		return // what meets a zero of the padding, which gradients have too, is an algorithm's choice
	}
	list := func(least, n int) []int {
		l := make([]int, oneOf(g, 1, dims))
		for i := range l {
			l[i] = least + g.IntN(n)
		}
		return l
	}
	suffix := strconv.Itoa(dims) + "d"
	if g.special > 0 {
		g.call("Conv"+suffix, x, g.like(dt, append([]int{out, in / groups}, kernel...)), bias, tensor.Conv{Stride: list(1, 2), Groups: groups})
		return
	}
	if g.chance(0.6) {
		c := tensor.Conv{Stride: list(1, 2), Padding: list(0, 3), Dilation: list(1, 2), Groups: groups}
		if g.chance(0.15) {
			c = tensor.Conv{Same: true, Groups: groups, Dilation: list(1, 2)}
		}
		g.call("Conv"+suffix, x, g.like(dt, append([]int{out, in / groups}, kernel...)), bias, c)
		return
	}
	if g.main == "bfloat16" {
		return // PyTorch 1.13 takes it for a convolution that is not transposed
	}
	c := tensor.ConvTranspose{Stride: list(1, 2), Padding: list(0, 2), Dilation: list(1, 2), OutputPadding: list(0, 2), Groups: groups}
	g.call("ConvTranspose"+suffix, x, g.like(dt, append([]int{in, out / groups}, kernel...)), bias, c)
}

func pools(g *generator) {
	dims := 1 + g.IntN(2)
	v := g.floats(dims+1, dims+2)
	k := 1 + g.IntN(3)
	p := map[string]any{"Kernel": []int{k}, "Padding": []int{g.IntN(k/2 + 1)}, "CeilMode": g.chance(0.4)}
	if g.chance(0.7) {
		p["Stride"] = []int{1 + g.IntN(3)}
	}
	suffix := strconv.Itoa(dims) + "d"
	switch g.IntN(5) {
	case 0:
		if g.chance(0.3) {
			p["Dilation"], p["Padding"] = []int{2}, []int{0} // of a window of padding alone PyTorch's gradient goes astray
		}
		g.call("MaxPool"+suffix, v.name, p)
	case 1:
		p["ExcludePadding"] = g.chance(0.5)
		if dims == 2 && g.chance(0.2) {
			p["DivisorOverride"] = 3
		}
		g.call("AvgPool"+suffix, v.name, p)
	case 2, 3:
		op := oneOf(g, "AdaptiveMaxPool", "AdaptiveAvgPool") + suffix
		if dims == 1 {
			g.call(op, v.name, 1+g.IntN(4))
			return
		}
		g.call(op, v.name, oneOf(g, []int{1 + g.IntN(4)}, []int{1 + g.IntN(3), 1 + g.IntN(4)}))
	case 4:
		v = g.floats(4, 4)
		u := map[string]any{}
		if g.chance(0.5) {
			u["Size"] = []int{1 + g.IntN(5), 1 + g.IntN(5)}
		} else {
			u["Scale"] = []float64{oneOf(g, 2, 1.5, 0.5)}
		}
		if g.chance(0.5) {
			g.call("UpsampleNearest2d", v.name, u)
			return
		}
		if g.special > 0 {
			return // infinities times a weight of 0
		}
		u["AlignCorners"] = g.chance(0.4)
		g.call("UpsampleBilinear2d", v.name, u)
	}
}

// maybe is a value, or nothing.
func (g *generator) maybe(dt tensor.DType, shape []int) any {
	if g.chance(0.4) {
		return nil
	}
	return g.like(dt, shape)
}

func norms(g *generator) {
	v := g.floats(1, 4)
	optional := g.maybe
	if g.special > 0 { // PyTorch's moments overflow in float32, which makes other gradients
		v = g.still(v)
		optional = func(dt tensor.DType, shape []int) any { return g.weights(dt, shape) }
	}
	n := len(v.shape)
	eps := oneOf(g, 1e-5, 1e-5, 1e-3)
	weight := any(nil)
	bias := func(shape []int) any {
		if weight == nil {
			return nil
		}
		return optional(v.dtype, shape)
	}
	switch g.IntN(4) {
	case 0:
		shape := v.shape[n-1-g.IntN(min(n, 2)):]
		weight = optional(v.dtype, shape)
		g.call("LayerNorm", v.name, shape, weight, bias(shape), eps)
	case 1:
		shape := v.shape[n-1:]
		g.call("RMSNorm", v.name, shape, optional(v.dtype, shape), oneOf(g, eps, -1))
	default:
		if n < 2 || v.shape[1] == 0 {
			return
		}
		c := v.shape[1]
		weight = optional(v.dtype, []int{c})
		if g.chance(0.5) {
			groups := 1
			if c%2 == 0 && g.chance(0.5) {
				groups = 2
			}
			g.call("GroupNorm", v.name, groups, weight, bias([]int{c}), eps)
			return
		}
		if n > 2 {
			g.call("InstanceNorm", v.name, weight, bias([]int{c}), eps)
		}
	}
}

func losses(g *generator) {
	v := g.floats(0, 3)
	r := int(oneOf(g, autograd.MeanReduction, autograd.MeanReduction, autograd.SumReduction, autograd.NoReduction))
	target := v.shape
	if g.chance(0.1) {
		target = g.narrower(target)
	}
	switch op := oneOf(g, "MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "KLDivLoss", "BCELoss", "BCEWithLogitsLoss", "CrossEntropy", "CrossEntropy", "NLLLoss"); op {
	case "MSELoss", "L1Loss":
		g.call(op, v.name, g.like(v.dtype, target), r)
	case "SmoothL1Loss", "HuberLoss":
		g.call(op, v.name, g.like(v.dtype, target), oneOf(g, 1, 0.5, 2), r)
	case "KLDivLoss":
		log := g.chance(0.4)
		d := share
		if log {
			d = logs
		}
		g.call(op, v.name, g.inputOf(v.dtype.String(), v.shape, d), log, oneOf(g, r, 3))
	case "BCELoss":
		v.name = g.inputOf(v.dtype.String(), v.shape, unit)
		var weight any
		if g.chance(0.3) {
			weight = g.weights(v.dtype, g.narrower(v.shape))
		}
		g.call(op, v.name, g.inputOf(v.dtype.String(), v.shape, unit), weight, r)
	case "BCEWithLogitsLoss":
		var weight, positives any
		if g.chance(0.3) {
			weight = g.weights(v.dtype, g.narrower(v.shape))
		}
		if g.chance(0.3) {
			positives = g.weights(v.dtype, g.narrower(v.shape))
		}
		g.call(op, v.name, g.inputOf(v.dtype.String(), v.shape, unit), weight, positives, r)
	default:
		classLoss(g, op, r)
	}
}

func classLoss(g *generator, op string, r int) {
	v := g.floats(1, 4)
	at := min(1, len(v.shape)-1)
	c := v.shape[at]
	if c == 0 {
		return
	}
	rows := slices.Delete(slices.Clone(v.shape), at, at+1)
	var weight any
	if g.chance(0.4) {
		weight = g.weights(v.dtype, []int{c})
	}
	ignore := oneOf(g, -100, -100, 0, 1)
	if g.special > 0 && ignore >= 0 {
		v = g.still(v) // rows that are ignored have no gradient, and PyTorch's have NaN where a logit is infinite
	}
	target := g.integers("int64", rows, c)
	if op == "CrossEntropy" && g.chance(0.2) {
		target = g.inputOf(v.dtype.String(), v.shape, unit)
		ignore = -100
	}
	if op == "CrossEntropy" {
		g.call(op, v.name, target, weight, ignore, oneOf(g, 0, 0, 0.1, 0.5), r)
		return
	}
	g.call(op, v.name, target, weight, ignore, r)
}

func attention(g *generator) {
	q := []int{1 + g.IntN(2), 1 + g.IntN(4), 1 + g.IntN(4)}
	if g.chance(0.4) {
		q = append([]int{1 + g.IntN(2)}, q...)
	}
	k, v := slices.Clone(q), slices.Clone(q)
	n := len(q)
	k[n-2] = 1 + g.IntN(4)
	v[n-2], v[n-1] = k[n-2], 1+g.IntN(4)
	gqa := g.chance(0.2)
	if gqa {
		q[n-3] = 2 * k[n-3]
	}
	dt := dtypes[g.main]
	sees := g.special > 0 // every row all keys: what an infinite one holds that a row does not see has an effect in PyTorch
	causal := !sees && g.chance(0.3)
	var mask any
	if !sees && !causal && g.chance(0.4) {
		m := oneOf(g, []int{q[n-2], k[n-2]}, append(slices.Clone(q[:n-1]), k[n-2]), []int{k[n-2]})
		mask = g.input(oneOf(g, "bool", g.main), m)
	}
	g.call("Attention", g.like(dt, q), g.like(dt, k), g.like(dt, v), mask, causal, oneOf(g, 0, 0, 0.5), gqa)
}

func tables(g *generator) {
	rows, width := 1+g.IntN(4), 1+g.IntN(3)
	table := g.like(dtypes[g.main], []int{rows, width})
	var padding any
	if g.chance(0.4) {
		padding = g.IntN(2*rows) - rows
	}
	if g.chance(0.5) {
		g.call("Embedding", table, g.integers("int64", g.shape(0, 2), rows), padding)
		return
	}
	mode := g.IntN(3)
	if g.chance(0.5) {
		g.call("EmbeddingBag", table, g.integers("int64", []int{g.IntN(3), 1 + g.IntN(3)}, rows), nil, mode, padding)
		return
	}
	n := 1 + g.IntN(5)
	at := []string{"0"}
	for range g.IntN(3) {
		last, _ := strconv.Atoi(at[len(at)-1])
		at = append(at, strconv.Itoa(last+g.IntN(n-last+1)))
	}
	offsets := g.inputData("int64", []int{len(at)}, nil, at)
	g.call("EmbeddingBag", table, g.integers("int64", []int{n}, rows), offsets, mode, padding)
}

// layers makes a layer and its inputs.
func layers(g *generator) {
	if g.main == "float16" {
		return // PyTorch has hardly any of float16 on the processor
	}
	dt := dtypes[g.main]
	name := oneOf(g, "Linear", "Embedding", "EmbeddingBag", "LayerNorm", "GroupNorm", "BatchNorm1d", "BatchNorm2d", "InstanceNorm1d", "InstanceNorm2d", "Conv1d", "Conv2d",
		"ConvTranspose1d", "ConvTranspose2d", "LSTM", "LSTM", "LSTM", "GRU", "GRU", "GRU", "LSTMCell", "GRUCell", "MultiheadAttention", "TransformerBlock")
	if g.special > 0 && !slices.Contains([]string{"Linear", "Embedding", "EmbeddingBag", "GRU", "MultiheadAttention"}, name) {
		return // infinities meet the zeros of a padding or of a gradient that is not there, which others leave out, and moments overflow
	}
	c := config{In: 1 + g.IntN(4), Out: 1 + g.IntN(4), NoBias: g.chance(0.3)}
	b := 1 + g.IntN(3)
	var in []any
	switch name {
	case "Linear":
		in = []any{g.like(dt, append(g.shape(0, 2), c.In))}
	case "Embedding", "EmbeddingBag":
		if g.chance(0.4) {
			c.Padding = new(int)
			*c.Padding = g.IntN(c.In)
		}
		c.NoBias, c.Mode = false, int64(g.IntN(3))
		in = []any{g.integers("int64", []int{b, 1 + g.IntN(3)}, c.In)}
	case "LayerNorm", "GroupNorm", "BatchNorm1d", "BatchNorm2d", "InstanceNorm1d", "InstanceNorm2d":
		in = g.normLayer(name, &c, dt)
	case "Conv1d", "Conv2d", "ConvTranspose1d", "ConvTranspose2d":
		in = g.convLayer(name, &c, dt)
	case "LSTM", "GRU":
		in = g.rnnLayer(name, &c, dt)
	case "LSTMCell", "GRUCell":
		in = []any{g.like(dt, []int{b, c.In})}
		state := []int{b, c.Out}
		if g.chance(0.2) {
			in, state = []any{g.like(dt, []int{c.In})}, []int{c.Out}
		}
		if g.chance(0.6) {
			in = append(in, g.like(dt, state))
			if name == "LSTMCell" {
				in = append(in, g.like(dt, state))
			}
		}
	case "MultiheadAttention", "TransformerBlock":
		in = g.attentionLayer(name, &c, dt)
	}
	g.addLayer(name, c, in)
}

func (g *generator) normLayer(name string, c *config, dt tensor.DType) []any {
	c.NoBias, c.Out = false, 0
	if g.chance(0.3) {
		on := g.chance(0.5)
		c.Affine = &on
	}
	b, h, w := 1+g.IntN(3), 1+g.IntN(4), 1+g.IntN(4)
	image := []int{b, c.In, h}
	switch name {
	case "LayerNorm":
		c.Shape = [][]int{{h}, {c.In, h}}[g.IntN(2)]
		c.In = 0
	case "GroupNorm":
		c.Groups = 1
		if c.In%2 == 0 {
			c.Groups = 2
		}
	case "BatchNorm1d":
		if g.chance(0.4) {
			image = image[:2]
		}
	case "BatchNorm2d", "InstanceNorm2d":
		image = append(image, w)
	}
	if strings.HasPrefix(name, "Batch") {
		if g.chance(0.2) {
			c.Stats = new(bool)
		}
		if g.chance(0.3) {
			c.Momentum = 0.5
		}
	}
	return []any{g.like(dt, image)}
}

func (g *generator) convLayer(name string, c *config, dt tensor.DType) []any {
	if strings.HasPrefix(name, "ConvT") && dt == tensor.BFloat16 {
		dt = tensor.Float32
	}
	c.Kernel = 1 + g.IntN(3)
	if g.chance(0.5) {
		c.Stride = 1 + g.IntN(2)
	}
	if g.chance(0.3) {
		c.Groups = 2
		c.In, c.Out = 2*c.In, 2*c.Out
	}
	if g.chance(0.3) {
		c.Dilation = 2
	}
	if g.chance(0.5) {
		c.Padding = new(int)
		*c.Padding = g.IntN(2)
	}
	image := []int{1 + g.IntN(2), c.In, 3 + g.IntN(4)}
	if strings.HasSuffix(name, "2d") {
		image = append(image, 3+g.IntN(4))
	}
	if strings.HasPrefix(name, "ConvT") && c.Stride == 2 && g.chance(0.5) {
		c.OutputPadding = 1
	}
	return []any{g.like(dt, image)}
}

func (g *generator) rnnLayer(name string, c *config, dt tensor.DType) []any {
	c.BatchFirst, c.Bidirectional = g.chance(0.5), g.chance(0.3)
	if g.chance(0.3) {
		c.Layers = 2
	}
	b, t := 1+g.IntN(3), 1+g.IntN(3)
	rows := max(c.Layers, 1)
	if c.Bidirectional {
		rows *= 2
	}
	x, state := []int{t, b, c.In}, []int{rows, b, c.Out}
	if c.BatchFirst {
		x = []int{b, t, c.In}
	}
	if g.chance(0.15) {
		x, state = []int{t, c.In}, []int{rows, c.Out}
	}
	in := []any{g.like(dt, x)}
	if g.chance(0.6) {
		in = append(in, g.like(dt, state))
		if name == "LSTM" {
			in = append(in, g.like(dt, state))
		}
	}
	return in
}

func (g *generator) attentionLayer(name string, c *config, dt tensor.DType) []any {
	c.Out = 0
	c.Heads = 1 + g.IntN(2)
	c.In *= c.Heads
	b, t, s := 1+g.IntN(2), 1+g.IntN(3), 1+g.IntN(3)
	if name == "TransformerBlock" {
		c.NoBias = false
		c.Feed, c.Activation, c.NormFirst, c.Causal = 1+g.IntN(4), oneOf(g, "relu", "gelu"), g.chance(0.5), g.chance(0.3)
		return []any{g.like(dt, []int{b, t, c.In})}
	}
	q := g.like(dt, []int{b, t, c.In})
	if g.chance(0.4) {
		c.Causal = g.chance(0.4)
		return []any{q, q, q}
	}
	kd, vd := c.In, c.In
	if g.chance(0.3) {
		c.KDim, c.VDim = 1+g.IntN(4), 1+g.IntN(4)
		kd, vd = c.KDim, c.VDim
	}
	return []any{q, g.like(dt, []int{b, s, kd}), g.like(dt, []int{b, s, vd})}
}

// addLayer chooses parameters and adds the step.
func (g *generator) addLayer(name string, c config, in []any) {
	if g.ended {
		return
	}
	state, release, err := g.live.parametersOf(name, c)
	if err != nil {
		return
	}
	defer release()
	s := Step{Op: "nn." + name, Args: append([]any{c}, in...), Params: map[string]string{}, Eval: g.chance(0.15)}
	dtype := "float32"
	if v := g.info(in[0].(string)); v.float() {
		dtype = v.dtype.String()
	}
	special := g.special
	if name == "GRU" || name == "MultiheadAttention" {
		g.special = 0 // long sums with huge terms, in any order: inputs bring infinities and NaN
	}
	defer func() { g.special = special }()
	for _, p := range state {
		if !p.Parameter.Tensor().DType().IsFloat() {
			continue
		}
		d := anyNumber
		if strings.Contains(p.Name, "running_var") {
			d = positive
		}
		words := make([]string, p.Parameter.Len())
		for i := range words {
			words[i] = g.element(dtype, d, false)
		}
		s.Params[p.Name] = strings.Join(words, " ")
	}
	g.add(s)
}

// train chooses an optimizer, its settings and gradients.
func (g *generator) train() *Train {
	t := &Train{Optimizer: oneOf(g, "SGD", "Adam", "AdamW", "RMSprop", "Adagrad"), DType: oneOf(g, "float32", "float64"), Options: map[string]any{}}
	t.Options["lr"] = oneOf(g, 0.1, 0.01, 0.5)
	maybe := func(key string, values ...any) {
		if g.chance(0.4) {
			t.Options[key] = oneOf(g, values...)
		}
	}
	maybe("weight_decay", 0.1, 0.5)
	switch t.Optimizer {
	case "SGD":
		maybe("momentum", 0.9, 0.5)
		if t.Options["momentum"] != nil && g.chance(0.5) {
			t.Options["nesterov"] = true
		} else {
			maybe("dampening", 0.1)
		}
		maybe("maximize", true)
	case "Adam", "AdamW":
		maybe("betas", []float64{0.8, 0.99}, []float64{0.5, 0.9})
		maybe("eps", 1e-6)
		maybe("amsgrad", true)
		maybe("maximize", true)
	case "RMSprop":
		maybe("alpha", 0.9)
		maybe("momentum", 0.9)
		maybe("centered", true)
		maybe("eps", 1e-6)
	case "Adagrad":
		maybe("lr_decay", 0.1)
		maybe("initial_accumulator_value", 0.5)
		maybe("maximize", true)
	}
	numbers := func(shape []int) string {
		words := make([]string, product(shape))
		for i := range words {
			words[i] = g.element(t.DType, anyNumber, g.chance(0.5))
		}
		return strings.Join(words, " ")
	}
	for range 1 + g.IntN(3) {
		shape := g.anyShape()
		t.Shapes = append(t.Shapes, shape)
		t.Data = append(t.Data, numbers(shape))
	}
	if len(t.Shapes) > 1 && g.chance(0.3) {
		t.Groups = 1
	}
	for range 1 + g.IntN(6) {
		var grads []*string
		for _, shape := range t.Shapes {
			text := numbers(shape)
			if grads = append(grads, &text); g.chance(0.15) {
				grads[len(grads)-1] = nil
			}
		}
		t.Grads = append(t.Grads, grads)
		t.Metrics = append(t.Metrics, number(g.Float64()))
	}
	switch g.IntN(6) {
	case 0:
		limit := oneOf(g, "1", "0.5", "100")
		t.ClipNorm, t.NormType = &limit, oneOf(g, "2", "1", "inf", "3")
	case 1:
		limit := 0.5
		t.ClipValue = &limit
	}
	if g.chance(0.5) {
		t.Schedule = g.schedule(t)
	}
	return t
}

func (g *generator) schedule(t *Train) *Settings {
	s := &Settings{Name: oneOf(g, "StepLR", "MultiStepLR", "ExponentialLR", "ConstantLR", "LinearLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "OneCycleLR",
		"ReduceLROnPlateau"), Options: map[string]any{}}
	o := s.Options
	switch s.Name {
	case "StepLR":
		o["step_size"], o["gamma"] = 1+g.IntN(3), 0.5
	case "MultiStepLR":
		o["milestones"], o["gamma"] = []int{1, 3}, 0.5
	case "ExponentialLR":
		o["gamma"] = 0.9
	case "ConstantLR":
		o["factor"], o["total_iters"] = 0.5, 1+g.IntN(4)
	case "LinearLR":
		o["start_factor"], o["total_iters"] = 0.25, 1+g.IntN(5)
	case "CosineAnnealingLR":
		o["T_max"], o["eta_min"] = 1+g.IntN(5), 0.01
	case "CosineAnnealingWarmRestarts":
		o["T_0"], o["T_mult"] = 1+g.IntN(3), 1+g.IntN(2)
	case "OneCycleLR":
		o["max_lr"], o["total_steps"], o["cycle_momentum"] = 0.5, 10, g.chance(0.3)
		o["anneal_strategy"], o["three_phase"] = oneOf(g, "cos", "linear"), g.chance(0.3)
	case "ReduceLROnPlateau":
		o["patience"], o["factor"], o["mode"], o["cooldown"] = g.IntN(2), 0.5, oneOf(g, "min", "max"), g.IntN(2)
	}
	return s
}
