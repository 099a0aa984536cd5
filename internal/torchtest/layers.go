package torchtest

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// config is how a layer is made. What is missing is PyTorch's default.
type config struct {
	In            int     `json:"in,omitempty"`
	Out           int     `json:"out,omitempty"`
	NoBias        bool    `json:"nobias,omitempty"`
	Padding       *int    `json:"padding,omitempty"` // of tables, the padding row; of windows, their padding
	Mode          int64   `json:"mode,omitempty"`
	Shape         []int   `json:"shape,omitempty"`
	Groups        int     `json:"groups,omitempty"`
	Eps           float64 `json:"eps,omitempty"`
	Momentum      float64 `json:"momentum,omitempty"`
	Affine        *bool   `json:"affine,omitempty"`
	Stats         *bool   `json:"stats,omitempty"`
	Kernel        int     `json:"kernel,omitempty"`
	Stride        int     `json:"stride,omitempty"`
	Dilation      int     `json:"dilation,omitempty"`
	OutputPadding int     `json:"outputpadding,omitempty"`
	Same          bool    `json:"same,omitempty"`
	Layers        int     `json:"layers,omitempty"`
	BatchFirst    bool    `json:"batchfirst,omitempty"`
	Bidirectional bool    `json:"bidirectional,omitempty"`
	Heads         int     `json:"heads,omitempty"`
	KDim          int     `json:"kdim,omitempty"`
	VDim          int     `json:"vdim,omitempty"`
	Causal        bool    `json:"causal,omitempty"`
	Feed          int     `json:"feed,omitempty"`
	Activation    string  `json:"activation,omitempty"`
	NormFirst     bool    `json:"normfirst,omitempty"`
}

// layerOf makes a layer.
func layerOf(name string, c config) (nn.Layer, error) {
	switch name {
	case "Linear":
		return nn.Linear(c.In, c.Out, c.common()...), nil
	case "Embedding":
		return nn.Embedding(c.In, c.Out, c.table()...), nil
	case "EmbeddingBag":
		return nn.EmbeddingBag(c.In, c.Out, tensor.BagMode(c.Mode), c.table()...), nil
	case "LayerNorm":
		return nn.LayerNorm(c.Shape, c.common()...), nil
	case "GroupNorm":
		return nn.GroupNorm(c.Groups, c.In, c.common()...), nil
	case "BatchNorm1d":
		return nn.BatchNorm1d(c.In, c.common()...), nil
	case "BatchNorm2d":
		return nn.BatchNorm2d(c.In, c.common()...), nil
	case "InstanceNorm1d":
		return nn.InstanceNorm1d(c.In, c.common()...), nil
	case "InstanceNorm2d":
		return nn.InstanceNorm2d(c.In, c.common()...), nil
	case "Conv1d":
		return nn.Conv1d(c.In, c.Out, c.Kernel, c.window()...), nil
	case "Conv2d":
		return nn.Conv2d(c.In, c.Out, c.Kernel, c.window()...), nil
	case "ConvTranspose1d":
		return nn.ConvTranspose1d(c.In, c.Out, c.Kernel, c.window()...), nil
	case "ConvTranspose2d":
		return nn.ConvTranspose2d(c.In, c.Out, c.Kernel, c.window()...), nil
	case "LSTM":
		return nn.LSTM(c.In, c.Out, c.rnn()...), nil
	case "GRU":
		return nn.GRU(c.In, c.Out, c.rnn()...), nil
	case "LSTMCell":
		return nn.LSTMCell(c.In, c.Out, c.rnn()...), nil
	case "GRUCell":
		return nn.GRUCell(c.In, c.Out, c.rnn()...), nil
	case "MultiheadAttention":
		return nn.MultiheadAttention(c.In, c.Heads, c.attention()...), nil
	case "TransformerBlock":
		return nn.TransformerBlock(c.In, c.Heads, c.block()...), nil
	}
	return nil, fmt.Errorf("no layer %s", name)
}

func (c config) common() (opts []nn.LayerOption) {
	if c.NoBias {
		opts = append(opts, nn.NoBias())
	}
	if c.Eps != 0 {
		opts = append(opts, nn.Eps(c.Eps))
	}
	if c.Momentum != 0 {
		opts = append(opts, nn.Momentum(c.Momentum))
	}
	if c.Affine != nil {
		opts = append(opts, nn.Affine(*c.Affine))
	}
	if c.Stats != nil {
		opts = append(opts, nn.RunningStats(*c.Stats))
	}
	return opts
}

func (c config) table() (opts []nn.LayerOption) {
	if c.Padding != nil {
		opts = append(opts, nn.PaddingIdx(*c.Padding))
	}
	return opts
}

func (c config) window() (opts []nn.ConvOption) {
	if c.NoBias {
		opts = append(opts, nn.NoBias())
	}
	if c.Stride != 0 {
		opts = append(opts, nn.Stride(c.Stride))
	}
	if c.Padding != nil {
		opts = append(opts, nn.Padding(*c.Padding))
	}
	if c.Dilation != 0 {
		opts = append(opts, nn.Dilation(c.Dilation))
	}
	if c.Groups != 0 {
		opts = append(opts, nn.Groups(c.Groups))
	}
	if c.OutputPadding != 0 {
		opts = append(opts, nn.OutputPadding(c.OutputPadding))
	}
	if c.Same {
		opts = append(opts, nn.PaddingSame())
	}
	return opts
}

func (c config) rnn() (opts []nn.RNNOption) {
	if c.NoBias {
		opts = append(opts, nn.NoRNNBias())
	}
	if c.Layers != 0 {
		opts = append(opts, nn.Layers(c.Layers))
	}
	if c.BatchFirst {
		opts = append(opts, nn.BatchFirst())
	}
	if c.Bidirectional {
		opts = append(opts, nn.Bidirectional())
	}
	return opts
}

func (c config) attention() []nn.AttentionLayerOption {
	opts := []nn.AttentionLayerOption{nn.BatchFirst()}
	if c.NoBias {
		opts = append(opts, nn.AttentionNoBias())
	}
	if c.KDim != 0 {
		opts = append(opts, nn.KDim(c.KDim))
	}
	if c.VDim != 0 {
		opts = append(opts, nn.VDim(c.VDim))
	}
	return opts
}

func (c config) block() []nn.BlockOption {
	opts := []nn.BlockOption{nn.BatchFirst(), nn.BlockDropout(0), nn.FeedForward(c.Feed)}
	if c.Activation == "gelu" {
		opts = append(opts, nn.ActivationGELU())
	}
	if c.NormFirst {
		opts = append(opts, nn.NormFirst())
	}
	if c.Causal {
		opts = append(opts, nn.CausalBlock())
	}
	return opts
}

// layer makes the layer of a step, gives it its parameters and runs it.
func (c *run) layer(s *Step) ([]reflect.Value, error) {
	text, err := json.Marshal(s.Args[0])
	if err != nil {
		return nil, err
	}
	var conf config
	if err := json.Unmarshal(text, &conf); err != nil {
		return nil, err
	}
	m, err := layerOf(s.Op[3:], conf)
	if err != nil {
		return nil, err
	}
	in := make([]variable, 0, 5)
	dt := tensor.Float32
	for _, a := range s.Args[1:] {
		v, err := c.argument(variableType, a)
		if err != nil {
			return nil, err
		}
		in = append(in, v.Interface().(variable))
	}
	if in[0].DType().IsFloat() {
		dt = in[0].DType()
	}
	c.layers[s.name()] = m
	if err := m.To(c.dev, nn.WithAllocator(c.alloc), nn.DType(dt)); err != nil {
		return nil, err
	}
	if err := c.fill(m, s.Params); err != nil {
		return nil, err
	}
	if s.Eval {
		nn.Eval(m)
	}
	var results []reflect.Value
	for _, v := range forward(m, conf, in) {
		if v != nil {
			results = append(results, reflect.ValueOf(v))
		}
	}
	return results, nil
}

// fill sets parameters and buffers.
func (c *run) fill(m nn.Layer, params map[string]string) error {
	for _, p := range nn.NamedState(m) {
		text, ok := params[p.Name]
		if !ok {
			continue
		}
		t := p.Parameter.Tensor()
		from, err := parse(c.exec, t.DType().String(), text, t.Shape())
		if err != nil {
			return err
		}
		err = t.CopyFrom(from)
		from.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// forward runs a layer on its inputs, of which those at the end may be missing or nil.
func forward(m nn.Layer, c config, in []variable) []variable {
	for len(in) < 5 {
		in = append(in, nil)
	}
	switch l := m.(type) {
	case *nn.RNNLayer:
		out, last, cell := l.ForwardState(in[0], in[1], in[2])
		return []variable{out, last, cell}
	case *nn.RNNCellLayer:
		next, cell := l.Step(in[0], in[1], in[2])
		return []variable{next, cell}
	case *nn.EmbeddingBagLayer:
		return []variable{l.Bags(in[0], in[1])}
	case *nn.MultiheadAttentionLayer:
		var opts []nn.AttendOption
		if c.Causal {
			opts = append(opts, nn.IsCausal())
		}
		if in[3] != nil {
			opts = append(opts, nn.AttnMask(in[3]))
		}
		if in[4] != nil {
			opts = append(opts, nn.KeyPaddingMask(in[4]))
		}
		return []variable{l.Attend(in[0], in[1], in[2], opts...)}
	}
	return []variable{m.Forward(in[0])}
}

// parametersOf lists names and shapes of the parameters and buffers of a layer, and which are buffers.
func (r *Runner) parametersOf(name string, c config) (state []nn.Named, release func(), err error) {
	m, err := layerOf(name, c)
	if err != nil {
		return nil, nil, err
	}
	if err := m.To(r.dev, nn.WithAllocator(r.alloc)); err != nil {
		m.Release()
		return nil, nil, err
	}
	return nn.NamedState(m), m.Release, nil
}
