package main

import (
	"math/rand/v2"
	"slices"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/examples/models"
	"github.com/cistern-ml/cistern/tensor"
)

// task is one training, as both sides are told of it.
type task struct {
	Model  string  `json:"model"` // its name in the tables
	Kind   string  `json:"kind"`  // gpt, resnet or mlp
	Batch  int     `json:"batch"`
	AMP    string  `json:"amp"` // off, fp16 or bf16
	Rate   float64 `json:"lr"`
	Layers int     `json:"layers,omitempty"` // of a GPT, as the next four
	Width  int     `json:"width,omitempty"`
	Heads  int     `json:"heads,omitempty"`
	Seq    int     `json:"seq,omitempty"`
	Vocab  int     `json:"vocab,omitempty"`
	Widths []int   `json:"widths,omitempty"` // of a ResNet's stages, or of an MLP from the input to the classes
	Stages []int   `json:"stages,omitempty"` // blocks of each
	Image  int     `json:"image,omitempty"`  // its edge
	Class  int     `json:"classes,omitempty"`

	Warm  int `json:"warm"`  // steps that do not count
	Runs  int `json:"runs"`  // of which the median counts
	Steps int `json:"steps"` // of a run

	Mode   string `json:"mode"` // of the process that gets this
	Device string `json:"device"`
	Start  string `json:"start"` // a file of first weights and the batch

	Profile string `json:"profile,omitempty"` // what names of its files begin with
	Plan    bool   `json:"plan,omitempty"`    // our eager side has one
}

// program is a model with what it is trained on.
type program struct {
	task
	modes []string // PyTorch's
	quick task     // of the same kind, for a try
}

// The ways to train. PyTorch has all; ours are eager and graph.
const (
	eager      = "eager"      // for a ResNet PyTorch's memory format is channels_last
	graph      = "graph"      // a whole step, captured and replayed with the batch that it is given
	contiguous = "contiguous" // a ResNet in PyTorch's default memory format
	compiled   = "compile"    // torch.compile
)

// modes are in the order in which they are measured: what tells most first.
var modes = []string{eager, graph, contiguous, compiled}

var programs = []*program{
	{
		task:  task{Model: "gpt2", Kind: "gpt", Batch: 16, AMP: "bf16", Rate: 3e-4, Layers: 12, Width: 768, Heads: 12, Seq: 1024, Vocab: 50304},
		quick: task{Model: "gpt2", Kind: "gpt", Batch: 2, AMP: "bf16", Rate: 3e-4, Layers: 2, Width: 32, Heads: 2, Seq: 16, Vocab: 96},
		modes: []string{eager, graph, compiled},
	},
	{
		task: task{Model: "resnet50", Kind: "resnet", Batch: 128, AMP: "fp16", Rate: 0.002, Widths: []int{64, 128, 256, 512}, Stages: []int{3, 4, 6, 3},
			Image: 224, Class: 1000},
		quick: task{Model: "resnet50", Kind: "resnet", Batch: 2, AMP: "fp16", Rate: 0.02, Widths: []int{4, 8}, Stages: []int{2, 1}, Image: 16, Class: 10},
		modes: []string{eager, contiguous, compiled},
	},
	{
		task:  task{Model: "gpt", Kind: "gpt", Batch: 8, AMP: "bf16", Rate: 3e-4, Layers: 6, Width: 384, Heads: 6, Seq: 256, Vocab: 8192},
		quick: task{Model: "gpt", Kind: "gpt", Batch: 2, AMP: "bf16", Rate: 3e-4, Layers: 1, Width: 16, Heads: 2, Seq: 8, Vocab: 32},
		modes: []string{eager, graph, compiled},
	},
	{
		task:  task{Model: "mlp", Kind: "mlp", Batch: 256, AMP: "off", Rate: 3e-4, Widths: []int{784, 512, 512, 10}},
		quick: task{Model: "mlp", Kind: "mlp", Batch: 4, AMP: "off", Rate: 3e-4, Widths: []int{12, 16, 4}},
		modes: []string{eager, graph, compiled},
	},
}

func names() (list []string) {
	for _, p := range programs {
		list = append(list, p.Model)
	}
	return list
}

// unit is what the speed counts.
func (t *task) unit() string {
	return map[string]string{"gpt": "tokens", "resnet": "images", "mlp": "samples"}[t.Kind]
}

// items are those of one step.
func (t *task) items() int {
	if t.Kind == "gpt" {
		return t.Batch * t.Seq
	}
	return t.Batch
}

// flops estimates what one step multiplies and adds: for each item 6 for each parameter that is multiplied with, and for attention
// 12 * layers * width * length, as if it were not causal. It is 0 where weights are used more than once.
func (t *task) flops(parameters int) float64 {
	each := 0.0
	switch t.Kind {
	case "gpt":
		each = 6*float64(parameters-t.Seq*t.Width) + 12*float64(t.Layers)*float64(t.Width)*float64(t.Seq)
	case "mlp":
		each = 6 * float64(parameters)
	}
	return each * float64(t.items())
}

// model makes the model, without values.
func (t *task) model() (nn.Layer, error) {
	switch t.Kind {
	case "gpt":
		return models.NewGPT(models.GPTConfig{Vocab: t.Vocab, Context: t.Seq, Layers: t.Layers, Width: t.Width, Heads: t.Heads, Tied: true})
	case "resnet":
		return models.NewResNet(models.ResNetConfig{Channels: 3, Classes: t.Class, Widths: t.Widths, Stages: t.Stages, Bottleneck: true, Large: true})
	case "mlp":
		var layers []nn.Layer
		for i := range len(t.Widths) - 1 {
			layers = append(layers, nn.Linear(t.Widths[i], t.Widths[i+1]), nn.ReLU())
		}
		return nn.Sequential(layers[:len(layers)-1]...), nil
	}
	return nil, errors.Errorf("no kind of model is %q", t.Kind)
}

// optimizer is that of the model's kind; the script has the same.
func (t *task) optimizer(params []*autograd.Parameter) *optim.Grouped {
	if t.Kind == "resnet" {
		return optim.SGD(params, optim.LR(t.Rate), optim.Momentum(0.9))
	}
	return optim.AdamW(params, optim.LR(t.Rate), optim.Betas(0.9, 0.95), optim.WeightDecay(0.1))
}

// shapes are those of the batch and of its classes. Tokens have as many classes as there are tokens.
func (t *task) shapes() (x []int, y, classes int) {
	switch t.Kind {
	case "gpt":
		return []int{t.Batch, t.Seq}, t.items(), t.Vocab
	case "resnet":
		return []int{t.Batch, 3, t.Image, t.Image}, t.Batch, t.Class
	}
	return []int{t.Batch, t.Widths[0]}, t.Batch, t.Widths[len(t.Widths)-1]
}

// batch makes x and y at random: normal images, or tokens with those that follow them. With zeros only the shapes count.
func (t *task) batch(e tensor.Exec, zeros bool) (x, y *tensor.Tensor, err error) {
	shape, n, classes := t.shapes()
	numbers := make([]int64, n+1)
	if !zeros {
		random := rand.New(rand.NewPCG(1, 2))
		for i := range numbers {
			numbers[i] = random.Int64N(int64(classes))
		}
	}
	switch {
	case t.Kind == "gpt":
		x, err = tensor.FromSlice(e, numbers[:n], shape...)
	case zeros:
		x, err = tensor.Zeros(e, tensor.Float32, shape...)
	default:
		x, err = tensor.RandN(e, tensor.NewGenerator(2), tensor.Float32, shape...)
	}
	if err != nil {
		return nil, nil, err
	}
	if y, err = tensor.FromSlice(e, numbers[1:]); err != nil {
		x.Release()
		return nil, nil, err
	}
	return x, y, nil
}

// start is a model with the batch that it is trained on: what both sides begin with.
type start struct {
	nn.Base
	x, y *autograd.Parameter
	net  nn.Layer
}

// newStart makes a start whose model has no values yet; its Release gives the batch back too.
func (t *task) newStart(e tensor.Exec, zeros bool) (*start, error) {
	model, err := t.model()
	if err != nil {
		return nil, err
	}
	x, y, err := t.batch(e, zeros)
	if err != nil {
		return nil, err
	}
	s := &start{x: autograd.NewParameter("x", x), y: autograd.NewParameter("y", y), net: model}
	nn.RegisterField(&s.Base, "model", &s.net)
	s.RegisterBuffer(s.x)
	s.RegisterBuffer(s.y)
	return s, nil
}

// Forward implements nn.Layer.
func (s *start) Forward(x *autograd.Variable) *autograd.Variable { return s.net.Forward(x) }

// has reports whether a program is measured in a mode in PyTorch.
func (p *program) has(mode string) bool { return slices.Contains(p.modes, mode) }
