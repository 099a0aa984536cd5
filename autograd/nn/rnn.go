package nn

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// RNNOption changes how LSTM, GRU and RNN are made.
type RNNOption interface{ applyRNN(c *rnnConfig) }

type rnnOption func(*rnnConfig)

func (o rnnOption) applyRNN(c *rnnConfig) { o(c) }

type rnnConfig struct {
	given
	layers        int
	noBias        bool
	batchFirst    bool
	dropout       float64
	bidirectional bool
	relu          bool
	projection    int
}

// maxLayers is more than anybody stacks, and no more than can be made in no time.
const maxLayers = 4096

// Layers stacks n layers, 1 to 4096, each of which reads the output of the one before. The default is 1.
func Layers(n int) RNNOption { return rnnOption(func(c *rnnConfig) { c.note("Layers"); c.layers = n }) }

// NoRNNBias makes a network without biases.
func NoRNNBias() RNNOption { return rnnOption(func(c *rnnConfig) { c.noBias = true }) }

// DropoutBetween sets elements of the output of each layer but the last to 0 with probability p, in training.
func DropoutBetween(p float64) RNNOption {
	return rnnOption(func(c *rnnConfig) { c.note("DropoutBetween"); c.dropout = p })
}

// Bidirectional runs each layer in both directions and joins their outputs, [T, B, 2*H].
func Bidirectional() RNNOption {
	return rnnOption(func(c *rnnConfig) { c.note("Bidirectional"); c.bidirectional = true })
}

// NonlinearityReLU makes the units of an RNN max(x, 0) instead of tanh (nonlinearity="relu").
func NonlinearityReLU() RNNOption {
	return rnnOption(func(c *rnnConfig) { c.note("NonlinearityReLU"); c.relu = true })
}

// ProjSize makes the states of an LSTM projections of its units to n features (proj_size), by weight_hr_l0 and so on, [n, units]; cells stay as
// large as the units. n is at least 1 and less than the units.
func ProjSize(n int) RNNOption {
	return rnnOption(func(c *rnnConfig) { c.note("ProjSize"); c.projection = n })
}

// RNNLayer is what LSTM, GRU and RNN make. Its parameters have PyTorch's names: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, and
// so on, with _reverse for the second direction.
type RNNLayer struct {
	Base
	Inputs, Units int
	config        rnnConfig
	invalid       error // what is wrong with the options
	unit          unitKind
	directions    []*rnnDirection // by layer; both directions of one are neighbours
}

// unitKind is what the units of a recurrent layer are.
type unitKind int

const (
	lstmUnits unitKind = iota
	gruUnits
	plainUnits
)

// String is the name of the constructor.
func (k unitKind) String() string { return [...]string{"LSTM", "GRU", "RNN"}[k] }

// gates are the rows of weights for each unit.
func (k unitKind) gates() int { return [...]int{4, 3, 1}[k] }

// rnnDirection is the weights of one direction of one layer.
type rnnDirection struct {
	ih, hh, biasIH, biasHH *autograd.Parameter
	hr                     *autograd.Parameter // the projection, or nil
	reverse                bool
}

// LSTM makes a network of long short-term memory, from inputs features to units (torch.nn.LSTM). All weights start uniform in
// ±1/sqrt(units).
func LSTM(inputs, units int, opts ...RNNOption) *RNNLayer {
	return newRNN(lstmUnits, inputs, units, opts)
}

// GRU makes a network of gated recurrent units (torch.nn.GRU). All weights start uniform in ±1/sqrt(units).
func GRU(inputs, units int, opts ...RNNOption) *RNNLayer {
	return newRNN(gruUnits, inputs, units, opts)
}

// RNN makes a network of plain recurrent units, tanh(W x + V h + biases) (torch.nn.RNN). All weights start uniform in ±1/sqrt(units). It is composed of
// other operations, several for each step, which take more time and memory than the kernels of LSTM and GRU.
func RNN(inputs, units int, opts ...RNNOption) *RNNLayer {
	return newRNN(plainUnits, inputs, units, opts)
}

func newRNN(unit unitKind, inputs, units int, opts []RNNOption) *RNNLayer {
	l := &RNNLayer{Inputs: inputs, Units: units, unit: unit, config: rnnConfig{layers: 1}}
	for _, o := range opts {
		if o != nil {
			o.applyRNN(&l.config)
		}
	}
	if n := l.config.layers; n < 1 || n > maxLayers {
		l.refuse(argumentErr(l.kind(), "%d layers; there must be 1 to %d", n, maxLayers))
		return l
	}
	if err := probability(l.kind(), l.config.dropout); err != nil {
		l.refuse(err)
		return l
	}
	if err := l.foreign(); err != nil {
		l.refuse(err)
		return l
	}
	for k := range l.config.layers {
		in := inputs
		if k > 0 {
			in = l.features() * l.perLayer()
		}
		for d := range l.perLayer() {
			suffix := fmt.Sprintf("_l%d", k)
			if d == 1 {
				suffix += "_reverse"
			}
			l.directions = append(l.directions, newDirection(&l.Base, unit.gates(), in, units, l.config.projection, suffix, l.config.noBias, d == 1))
		}
	}
	return l
}

// foreign is the error of an option that the units do not have.
func (l *RNNLayer) foreign() error {
	var b Base
	own := "Layers DropoutBetween Bidirectional BatchFirst"
	switch l.unit {
	case lstmUnits:
		own += " ProjSize"
	case plainUnits:
		own += " NonlinearityReLU"
	}
	b.refuseForeign(&l.config.given, l.kind(), own)
	n := l.config.projection
	if b.wrong == nil && slices.Contains(l.config.options, "ProjSize") && (n < 1 || n >= l.Units) {
		return argumentErr(l.kind(), "a projection to %d features; there must be at least 1 and less than the %d units", n, l.Units)
	}
	return b.wrong
}

// features are those of the states and of the output of one direction.
func (l *RNNLayer) features() int {
	if l.config.projection > 0 {
		return l.config.projection
	}
	return l.Units
}

// refuse makes err the error of Forward, and, by a parameter that cannot be made, of To.
func (l *RNNLayer) refuse(err error) {
	l.invalid, l.config.layers = err, 0
	l.RegisterParameter(autograd.RefusedParameter("weight_ih_l0", err))
}

func newDirection(b *Base, gates, inputs, units, projection int, suffix string, noBias, reverse bool) *rnnDirection {
	rows, states := gates*units, units
	if projection > 0 {
		states = projection
	}
	bound := 0.0
	if units > 0 {
		bound = 1 / math.Sqrt(float64(units))
	}
	declare := func(field **autograd.Parameter, name string, shape ...int) {
		*field = autograd.DeclareParameter(name+suffix, Uniform(-bound, bound), shape...)
		b.requires(name+suffix, field)
	}
	d := &rnnDirection{reverse: reverse}
	declare(&d.ih, "weight_ih", rows, inputs)
	declare(&d.hh, "weight_hh", rows, states)
	if !noBias {
		declare(&d.biasIH, "bias_ih", rows)
		declare(&d.biasHH, "bias_hh", rows)
	}
	if projection > 0 {
		declare(&d.hr, "weight_hr", projection, units)
	}
	return d
}

func (d *rnnDirection) weights(g *autograd.Graph, l describedLayer) autograd.RecurrentWeights {
	if d == nil { // of a zero value: the operation refuses weights that are nil
		return autograd.RecurrentWeights{}
	}
	of := func(p *autograd.Parameter) *autograd.Variable { return optional(g, l, p.Name(), p) }
	return autograd.RecurrentWeights{IH: of(d.ih), HH: of(d.hh), BiasIH: of(d.biasIH), BiasHH: of(d.biasHH)}
}

// kind is the name of the constructor.
func (l *RNNLayer) kind() string { return l.unit.String() }

// castAs is the operation that the steps are for autocasting, which takes all of a layer for one.
func (l *RNNLayer) castAs() string {
	switch {
	case l.unit != plainUnits:
		return strings.ToLower(l.kind())
	case l.config.relu:
		return "rnn_relu_cell"
	}
	return "rnn_tanh_cell"
}

// perLayer is the number of directions.
func (l *RNNLayer) perLayer() int {
	if l.config.bidirectional {
		return 2
	}
	return 1
}

// Forward implements Layer: it starts from states of zeros and returns the output alone.
func (l *RNNLayer) Forward(x *autograd.Variable) *autograd.Variable {
	return within(l, x, func(*autograd.Graph) *autograd.Variable {
		out, _, _ := l.run(x, nil, nil, nil)
		return out
	})
}

// ForwardState runs the network over x, [T, B, inputs], or [T, inputs] for one sequence alone, from the state h and, for LSTM, the
// cell c, [layers*directions, B, units] (or [layers*directions, units]); nil ones are zero. It returns the output of the last
// layer, [T, B, directions*units], and the last states and cells of all layers; the cells of a GRU are nil. States of other shapes, or a
// cell for a GRU, are an error of the graph.
//
// To go on from a state in the next graph, as with pieces of a long sequence (truncated backpropagation through time), take the values out
// of this one: Keep last and lastCell, since Backward releases what it passes; after Backward, Take them; release this graph; and give
// them to the next one as Input, which no gradient passes. The taken tensors are the caller's to release.
func (l *RNNLayer) ForwardState(x, h, c *autograd.Variable) (out, last, lastCell *autograd.Variable) {
	return l.forwardState(x, nil, h, c)
}

// ForwardLengths is ForwardState for sequences of different lengths, which are padded to one: lengths has one number for each sequence of the batch, 1
// to T, in any order. As with pack_padded_sequence(enforce_sorted=False) in PyTorch, what is behind the end of a sequence changes no state, gets no
// gradient, and has an output of zeros, [T, B, ...] as x; the second direction begins at the last step of each sequence; last states are those after it.
// Lengths that are not of the batch, or not in 1..T, are an error of the graph. The kernels of LSTM and GRU run
// once for each length that differs from the others; what has none runs step by step, as without lengths.
func (l *RNNLayer) ForwardLengths(x *autograd.Variable, lengths []int, h, c *autograd.Variable) (out, last, lastCell *autograd.Variable) {
	if lengths == nil {
		lengths = []int{}
	}
	return l.forwardState(x, lengths, h, c)
}

func (l *RNNLayer) forwardState(x *autograd.Variable, lengths []int, h, c *autograd.Variable) (out, last, lastCell *autograd.Variable) {
	if x == nil {
		return nil, nil, nil
	}
	if l == nil {
		failed := x.Graph().Refuse("forward", nilLayer[RNNLayer](), x)
		return failed, failed, failed
	}
	if err := l.mistake(); err != nil {
		failed := x.Graph().Refuse("forward", err, x)
		return failed, failed, failed
	}
	return three(x.Graph().ModuleScopes((*located)(&l.Base), func() []*autograd.Variable {
		return l.calling(x.Graph(), x, false, func() []*autograd.Variable {
			out, last, lastCell := l.run(x, lengths, h, c)
			if lastCell == nil {
				return []*autograd.Variable{out, last}
			}
			return []*autograd.Variable{out, last, lastCell}
		})
	}))
}

// three are results, of which the third may be missing; after an error all are the first one.
func three(results []*autograd.Variable) (a, b, c *autograd.Variable) {
	switch len(results) {
	case 0:
		return nil, nil, nil
	case 1:
		return results[0], results[0], results[0]
	case 2:
		return results[0], results[1], nil
	}
	return results[0], results[1], results[2]
}

func (l *RNNLayer) run(x *autograd.Variable, lengths []int, h, c *autograd.Variable) (out, last, lastCell *autograd.Variable) {
	g, alone := x.Graph(), x.NDim() == 2
	err := l.refusal(x, h, c)
	if err == nil && lengths != nil && g.Err() == nil {
		err = l.wrongLengths(x, lengths)
	}
	if err == nil && (lengths != nil || l.composed()) && g.Err() == nil {
		err = l.usable(x, h, c)
	}
	if err != nil {
		failed := g.Refuse(strings.ToLower(l.kind()), err, x)
		return failed, failed, failed
	}
	if alone {
		x, h, c = x.Unsqueeze(1), l.batched(h), l.batched(c)
	} else if l.config.batchFirst {
		x = x.Transpose(0, 1)
	}
	var ends lastStates
	if l.composed() {
		ends.padding = paddingOf(g, x, lengths)
	} else {
		ends.packed = packedOf(g, x, lengths)
	}
	if ends.padding != nil { // before it is cleared, which makes another of its size
		x = g.CastFor(l.castAs(), x)[0]
		ends.padding.zero = g.Zeros(x.DType())
	}
	x = ends.padding.cleared(x)
	for k := range l.config.layers {
		x = l.layer(g, k, x, h, c, &ends)
		if k < l.config.layers-1 && l.config.dropout > 0 && l.Training() {
			x = x.Dropout(l.config.dropout)
		}
	}
	out, last = x, autograd.Stack(ends.h, 0)
	if l.unit == lstmUnits {
		lastCell = autograd.Stack(ends.c, 0)
	}
	switch {
	case alone && lastCell == nil:
		return out.Squeeze(1), last.Squeeze(1), nil
	case alone:
		return out.Squeeze(1), last.Squeeze(1), lastCell.Squeeze(1)
	case l.config.batchFirst:
		return out.Transpose(0, 1), last, lastCell
	}
	return out, last, lastCell
}

// refusal says what is wrong with the options, the input or the states.
func (l *RNNLayer) refusal(x, h, c *autograd.Variable) error {
	switch {
	case l.invalid != nil:
		return l.invalid
	case x.Graph().Err() != nil:
		return nil
	case x.NDim() != 2 && x.NDim() != 3:
		return shapeError(l.String(), x, "the input has %s; want %s, or [T, %d] for one sequence alone", dimensions(x.NDim()), l.inputShape(), l.Inputs)
	case x.Dim(-1) != l.Inputs:
		return shapeError(l.String(), x, "the input has %d features, the layer takes %d", x.Dim(-1), l.Inputs)
	}
	if err := l.checkState("state", x, h, l.features()); err != nil {
		return err
	}
	if err := noCell(l.String(), l.unit, c); err != nil {
		return err
	}
	return l.checkState("cell", x, c, l.Units)
}

// usable refuses an input or states that are gone, or of another type than the weights with which autocasting leaves them: the operations of which the layer is
// composed would name themselves.
func (l *RNNLayer) usable(given ...*autograd.Variable) error {
	if len(l.directions) == 0 {
		return nil
	}
	g, ih := given[0].Graph(), l.directions[0].ih
	w := param(g, l, ih.Name(), ih)
	for i, v := range given {
		if v == nil || g.Err() != nil {
			continue
		}
		what := [...]string{"input", "state", "cell"}[i]
		var gone *autograd.ReleasedError
		if _, err := v.Tensor(); errors.As(err, &gone) {
			gone.Use, gone.Site = "the "+what+" of "+l.String(), autograd.Site{}
			return gone
		}
		if v.DType() == w.DType() {
			continue
		}
		cast := g.CastFor(l.castAs(), v, w)
		if have, want := cast[0].DType(), cast[1].DType(); g.Err() == nil && have != want {
			return &tensor.DTypeError{Op: l.String(), DTypes: []tensor.DType{have, want}, Detail: "the " + what + " must be of the weights' type; To converts"}
		}
	}
	return nil
}

// inputShape is that of batches.
func (l *RNNLayer) inputShape() string {
	if l.config.batchFirst {
		return fmt.Sprintf("[N, T, %d]", l.Inputs)
	}
	return fmt.Sprintf("[T, N, %d]", l.Inputs)
}

// checkState refuses states that are not those of all layers and directions, of which some would go unused.
func (l *RNNLayer) checkState(name string, x, v *autograd.Variable, units int) error {
	want, meaning := tensor.Shape{l.config.layers * l.perLayer(), units}, "[layers*directions, units]"
	if x.NDim() == 3 {
		batch := x.Dim(1)
		if l.config.batchFirst {
			batch = x.Dim(0)
		}
		want, meaning = tensor.Shape{want[0], batch, units}, "[layers*directions, N, units]"
	}
	if v == nil || v.Shape().Equal(want) {
		return nil
	}
	return &tensor.ShapeError{Op: l.String(), Shapes: []tensor.Shape{x.Shape().Clone(), v.Shape().Clone()},
		Detail: fmt.Sprintf("the %s has shape %v, want %v, which is %s", name, v.Shape(), want, meaning)}
}

// noCell refuses the cell of a GRU or RNN, which have none.
func noCell(name string, unit unitKind, cell *autograd.Variable) error {
	if unit != lstmUnits && cell != nil {
		return &tensor.ValueError{Op: name, Detail: map[unitKind]string{gruUnits: "a GRU has no cell", plainUnits: "an RNN has no cell"}[unit]}
	}
	return nil
}

func (l *RNNLayer) batched(v *autograd.Variable) *autograd.Variable {
	if v == nil {
		return nil
	}
	return v.Unsqueeze(1)
}

// lastStates are the last states and cells of the layers that have run, in PyTorch's order.
type lastStates struct {
	h, c    []*autograd.Variable
	padding *padding // of what runs step by step; nil for none
	packed  *packed  // of what runs by kernels; nil for none
}

// layer runs layer k and notes its last states and cells.
func (l *RNNLayer) layer(g *autograd.Graph, k int, x, h, c *autograd.Variable, ends *lastStates) *autograd.Variable {
	var outs []*autograd.Variable
	for d := range l.perLayer() {
		at := k*l.perLayer() + d
		dir, h0 := l.directions[at], l.first(g, x, h, at, l.features())
		var c0, out, last, cell *autograd.Variable
		if l.unit == lstmUnits {
			c0 = l.first(g, x, c, at, l.Units)
		}
		switch {
		case l.composed():
			out, last, cell = l.steps(x, h0, c0, dir, ends.padding)
		case ends.packed != nil:
			out, last, cell = l.runs(x, h0, c0, dir, ends.packed)
		case l.unit == gruUnits:
			out, last = x.GRU(h0, dir.weights(g, l), dir.reverse)
		default:
			out, last, cell = x.LSTM(h0, c0, dir.weights(g, l), dir.reverse)
		}
		if cell != nil {
			ends.c = append(ends.c, cell)
		}
		outs, ends.h = append(outs, out), append(ends.h, last)
	}
	if len(outs) == 1 {
		return outs[0]
	}
	return autograd.Cat(outs, -1)
}

// composed reports whether the layer has no kernel, and runs step by step.
func (l *RNNLayer) composed() bool { return l.unit == plainUnits || l.config.projection > 0 }

// first is the state that a direction starts from.
func (l *RNNLayer) first(g *autograd.Graph, x, given *autograd.Variable, at, units int) *autograd.Variable {
	if given != nil {
		return given.Select(0, at)
	}
	return zeroState(g, x, x.Dim(1), units)
}

func zeroState(g *autograd.Graph, x *autograd.Variable, shape ...int) *autograd.Variable {
	return g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Zeros(e.Owned(), x.DType(), shape...) })
}

// String is PyTorch's description.
func (l *RNNLayer) String() string {
	if l == nil {
		return "nil"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s(%d, %d", l.kind(), l.Inputs, l.Units)
	if n := l.config.projection; n != 0 {
		fmt.Fprintf(&b, ", proj_size=%d", n)
	}
	if l.config.layers != 1 {
		fmt.Fprintf(&b, ", num_layers=%d", l.config.layers)
	}
	if l.config.noBias {
		b.WriteString(", bias=False")
	}
	if l.config.batchFirst {
		b.WriteString(", batch_first=True")
	}
	if l.config.dropout != 0 {
		fmt.Fprintf(&b, ", dropout=%v", l.config.dropout)
	}
	if l.config.bidirectional {
		b.WriteString(", bidirectional=True")
	}
	b.WriteByte(')')
	return b.String()
}
