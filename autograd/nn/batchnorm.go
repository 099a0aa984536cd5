package nn

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// BatchNormLayer normalises each channel: by the moments of the batch in training, which it averages, and by the averages after
// Eval.
type BatchNormLayer struct {
	Base
	name     string
	dims     []int // numbers of dimensions that it takes
	Channels int
	Eps      float64
	Momentum float64 // of a batch in the running statistics; CumulativeAverage for that of all batches

	Weight *autograd.Parameter // [channels], or nil
	Bias   *autograd.Parameter // likewise

	// The running statistics, nil with RunningStats(false). BatchesTracked is of type int64.
	RunningMean, RunningVar, BatchesTracked *autograd.Parameter

	batches counter // BatchesTracked
	joined  JoinedMoments
}

// JoinedMoments normalises x, of a batch that is spread over several devices, by the moments of all of it, and brings the layer's running statistics, if it has them, up to
// date with the given momentum. weight and bias may be nil.
type JoinedMoments func(l *BatchNormLayer, x, weight, bias *autograd.Variable, momentum float64) *autograd.Variable

// JoinMoments makes l normalise by f in training; nil ends that. It is for packages of this module, which alone can write the key.
func JoinMoments(_ training.Key, l *BatchNormLayer, f JoinedMoments) {
	if l != nil {
		l.joined = f
	}
}

// CumulativeAverage as a momentum makes running statistics the averages of all batches (PyTorch's momentum=None).
const CumulativeAverage = -1

// Momentum is the weight of a new batch in running statistics, instead of 0.1, or CumulativeAverage.
func Momentum(m float64) LayerOption { return func(l *layer) { l.note("Momentum"); l.momentum = &m } }

// RunningStats(false) makes a batch norm without running statistics, which normalises by the moments of the batch after Eval
// too (PyTorch's track_running_stats).
func RunningStats(on bool) LayerOption {
	return func(l *layer) { l.note("RunningStats"); l.noStats = !on }
}

// BatchNorm1d makes a layer for [N, channels] or [N, channels, L]. Weight and bias of each channel start as 1 and 0; eps is 1e-5 and
// momentum 0.1 unless options say otherwise. In half precision the layer may stay in float32, as under autocast.
func BatchNorm1d(channels int, opts ...LayerOption) *BatchNormLayer {
	return batchNorm("BatchNorm1d", []int{2, 3}, channels, opts)
}

// BatchNorm2d is BatchNorm1d for [N, channels, H, W].
func BatchNorm2d(channels int, opts ...LayerOption) *BatchNormLayer {
	return batchNorm("BatchNorm2d", []int{4}, channels, opts)
}

// BatchNorm3d is BatchNorm1d for [N, channels, D, H, W].
func BatchNorm3d(channels int, opts ...LayerOption) *BatchNormLayer {
	return batchNorm("BatchNorm3d", []int{5}, channels, opts)
}

func batchNorm(name string, dims []int, channels int, opts []LayerOption) *BatchNormLayer {
	c := normLayer(true, opts)
	l := &BatchNormLayer{name: name, dims: dims, Channels: channels, Eps: c.epsOr(1e-5), Momentum: 0.1}
	l.refuseForeign(&c.given, name, normalises+" Momentum RunningStats")
	if c.momentum != nil {
		l.Momentum = *c.momentum
	}
	l.affine(c, &l.Weight, &l.Bias, channels)
	if !c.noStats {
		l.RunningMean = statistic("running_mean", Zeros, channels)
		l.RunningVar = statistic("running_var", Ones, channels)
		l.BatchesTracked = statistic("num_batches_tracked", integerZero)
	}
	l.RegisterBufferField("running_mean", &l.RunningMean)
	l.RegisterBufferField("running_var", &l.RunningVar)
	l.RegisterBufferField("num_batches_tracked", &l.BatchesTracked)
	return l
}

// statistic declares a buffer.
func statistic(name string, init autograd.Initializer, shape ...int) *autograd.Parameter {
	p := autograd.DeclareParameter(name, init, shape...)
	p.SetRequiresGrad(false)
	return p
}

// integerZero makes an int64, whatever type the model has.
func integerZero(e tensor.Exec, _ *tensor.Generator, _ tensor.DType, shape ...int) (*tensor.Tensor, error) {
	return tensor.Zeros(e, tensor.Int64, shape...)
}

// Forward implements Layer.
func (l *BatchNormLayer) Forward(x *autograd.Variable) *autograd.Variable {
	return within(l, x, func(g *autograd.Graph) *autograd.Variable {
		if err := channelsOf(l.name, x, l.dims, l.Channels); err != nil {
			return g.Refuse("batch_norm", err, x)
		}
		for i, p := range []*autograd.Parameter{l.RunningMean, l.RunningVar} {
			if p != nil && p.Tensor() == nil && g.Replacement(p) == nil {
				return withoutTensor(g, l, []string{"running_mean", "running_var"}[i], p)
			}
		}
		if l.Training() && l.RunningMean != nil && g.Err() == nil {
			return l.learn(g, x)
		}
		return l.normalise(g, x, l.Momentum)
	})
}

func (l *BatchNormLayer) normalise(g *autograd.Graph, x *autograd.Variable, momentum float64) *autograd.Variable {
	trains := l.Training() || l.RunningMean == nil
	if l.joined != nil && l.Training() {
		return l.joined(l, x, optional(g, l, "weight", l.Weight), optional(g, l, "bias", l.Bias), momentum)
	}
	return x.BatchNorm(l.RunningMean, l.RunningVar, optional(g, l, "weight", l.Weight), optional(g, l, "bias", l.Bias), trains, momentum, l.Eps)
}

// learn is a forward pass that counts its batch, unless it fails.
func (l *BatchNormLayer) learn(g *autograd.Graph, x *autograd.Variable) *autograd.Variable {
	momentum := l.Momentum
	if r := recordingOf(l.BatchesTracked.Tensor()); r != nil && momentum != CumulativeAverage {
		y := l.normalise(g, x, momentum)
		if g.Err() != nil {
			return y
		}
		if err := l.batches.record(r, l.BatchesTracked); err != nil {
			return g.Refuse("batch_norm", err, x)
		}
		return y
	}
	before, err := l.batches.value(l.BatchesTracked)
	if err != nil {
		return g.Refuse("batch_norm", err, x)
	}
	if momentum == CumulativeAverage {
		momentum = 1 / float64(before+1)
	}
	y := l.normalise(g, x, momentum)
	if g.Err() != nil {
		return y
	}
	if err := l.batches.set(l.BatchesTracked, before+1); err != nil { // a layer of the user's making may be without this buffer
		return g.Refuse("batch_norm", err, x)
	}
	return y
}

// channelsOf refuses inputs that are not [N, channels, ...] of so many dimensions.
func channelsOf(name string, x *autograd.Variable, dims []int, channels int) error {
	if !x.Alive() || slices.Contains(dims, x.NDim()) && x.Dim(1) == channels {
		return nil
	}
	if len(dims) == 0 {
		return argumentErr("Forward", "the layer is a zero value: make it with its constructor, such as nn.BatchNorm2d")
	}
	if !slices.Contains(dims, x.NDim()) {
		return shapeError(name, x, "%s; want %s", dimensions(x.NDim()), channelShapes(dims, channels))
	}
	return shapeError(name, x, "%d channels, the layer has %d; want %s", x.Dim(1), channels, channelShapes(dims, channels))
}

// channelShapes writes the shapes that a layer of channels takes, as in "[N, 3, H, W]".
func channelShapes(dims []int, channels int) string {
	spatial := map[int]string{2: "", 3: ", L", 4: ", H, W", 5: ", D, H, W"}
	var all []string
	for _, d := range dims {
		all = append(all, fmt.Sprintf("[N, %d%s]", channels, spatial[d]))
	}
	return strings.Join(all, " or ")
}

// String is PyTorch's description.
func (l *BatchNormLayer) String() string {
	if l == nil {
		return "nil"
	}
	momentum := "None"
	if l.Momentum != CumulativeAverage {
		momentum = fmt.Sprint(l.Momentum)
	}
	return fmt.Sprintf("%s(%d, eps=%v, momentum=%s, affine=%s, track_running_stats=%s)", l.name, l.Channels, l.Eps, momentum,
		truth(l.Weight != nil), truth(l.RunningMean != nil))
}
