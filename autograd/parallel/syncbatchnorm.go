package parallel

import (
	"runtime"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/tensor"
)

// Batch norms over the batches of all ranks. The moments are sums, which are all-reduced where they are computed, on the graph's stream; the gradients of a sum over the ranks are
// sums over the ranks too. The rest is made of operations that have gradients already.

// reduceSum is the sum of a variable over the ranks.
var reduceSum = autograd.Function[*DataParallel]{
	Name: "all_reduce",
	Forward: func(_ *autograd.Context, d *DataParallel, in []*tensor.Tensor) (*tensor.Tensor, error) {
		return d.summedOver(in[0])
	},
	Backward: func(_ *autograd.Context, d *DataParallel, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
		t, err := d.summedOver(grad)
		return []*tensor.Tensor{t}, err
	},
}

// summedOver is the sum of t over the ranks, on t's stream.
func (d *DataParallel) summedOver(t *tensor.Tensor) (*tensor.Tensor, error) {
	const op = "all-reduce of a batch norm's sums"
	sum, err := t.Clone()
	if err != nil {
		return nil, err
	}
	at, err := tensor.Addresses(key, sum.Exec(), sum)
	if err == nil {
		b := comm.Buffer{Ptr: at[0], Count: sum.Len(), Type: sum.DType(), Tag: d.tag(op)}
		err = d.comm.AllReduce(sum.Exec().Stream(), b, b, comm.Sum)
	}
	if err != nil {
		sum.Release()
		return nil, &Error{Op: op, Rank: d.comm.Rank(), Err: err}
	}
	runtime.KeepAlive(t)
	return sum, nil
}

// joinBatchNorms makes the batch norms of the model ones over all ranks, or ends that.
func (d *DataParallel) joinBatchNorms(on bool) {
	for m := range nn.Modules(d.model) {
		l, ok := m.(*nn.BatchNormLayer)
		switch {
		case !ok:
		case on:
			nn.JoinMoments(key, l, d.normalise)
		default:
			nn.JoinMoments(key, l, nil)
		}
	}
}

// normalise is a batch norm over all ranks: the mean first, and the variance of what differs from it, which loses no digits where the mean is large. Ranks may have different numbers of rows, and none.
func (d *DataParallel) normalise(l *nn.BatchNormLayer, x, weight, bias *autograd.Variable, momentum float64) *autograd.Variable {
	g, dt := x.Graph(), x.DType()
	if dt != tensor.Float64 {
		x = x.To(tensor.Float32)
	}
	dims, shape := []int{0}, make([]int, len(x.Shape()))
	rows := 1
	for i := range shape {
		if shape[i] = 1; i != 1 {
			rows *= x.Dim(i)
		}
		if i > 1 {
			dims = append(dims, i)
		}
	}
	shape[1] = l.Channels
	count := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Full(e, float64(rows), x.DType(), 1) })
	sums := reduceSum.Apply(d, autograd.Cat([]*autograd.Variable{x.Sum(dims, false), count}, 0))
	total := sums.Narrow(0, l.Channels, 1)
	mean := sums.Narrow(0, 0, l.Channels).Div(total)
	centred := x.Sub(mean.Reshape(shape...))
	variance := reduceSum.Apply(d, centred.Square().Sum(dims, false)).Div(total)
	y := centred.Mul(variance.AddScalar(l.Eps).Rsqrt().Reshape(shape...))
	if weight != nil {
		y = y.Mul(weight.Reshape(shape...))
	}
	if bias != nil {
		y = y.Add(bias.Reshape(shape...))
	}
	if err := learnMoments(g, l, mean, variance, total, momentum); err != nil {
		return g.Refuse("batch_norm", err, x)
	}
	return y.To(dt)
}

// learnMoments mixes the moments of a batch into the running statistics: of the variance the unbiased estimate, as everywhere.
func learnMoments(g *autograd.Graph, l *nn.BatchNormLayer, mean, variance, total *autograd.Variable, momentum float64) error {
	if l.RunningMean == nil || g.Err() != nil {
		return nil
	}
	var unbiased *autograd.Variable
	g.NoGrad(func() *autograd.Variable {
		unbiased = variance.Mul(total).Div(total.SubScalar(1))
		return unbiased
	})
	for _, s := range []struct {
		running *autograd.Parameter
		now     *autograd.Variable
	}{{l.RunningMean, mean}, {l.RunningVar, unbiased}} {
		t, err := s.now.Tensor()
		if err != nil {
			return err
		}
		have := s.running.Tensor()
		if t.DType() != have.DType() {
			wide, err := t.To(have.DType())
			if err != nil {
				return err
			}
			defer wide.Release()
			t = wide
		}
		if err := have.LerpScalarInPlace(t, momentum); err != nil {
			return err
		}
	}
	return nil
}
