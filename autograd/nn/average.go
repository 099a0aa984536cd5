package nn

import (
	"cmp"
	stderrors "errors"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/tensor"
)

// AveragedModel is a copy of a model whose parameters are the average of those that the model had in training
// (torch.optim.swa_utils.AveragedModel). EMA and SWA make it. It is here, and not with the optimizers, because it is a module: To moves it, Save, Load
// and package checkpoint have it, under PyTorch's names ("module.0.weight", "n_averaged"), so that a run that goes on averages on.
//
//	ema, err := nn.EMA(model, 0.999)
//	defer ema.Release()
//	...
//	opt.Step(); ema.Update(model)
//	...
//	nn.Eval(ema.Module)
//	y := ema.Module.Forward(x)
//
// Its memory is that of the model's parameters and buffers once more. Of a model that several ranks train it is made, and updated, where its parameters are whole (Whole of autograd/parallel): elsewhere that is an
// error when they are not.
type AveragedModel[M Module] struct {
	Base
	// Module has the averages: the model to evaluate. Its mode is its own: Eval it.
	Module M
	// NAveraged is how many updates there were, [], int64.
	NAveraged *autograd.Parameter

	decay   float64 // or equalWeights
	buffers bool
	count   counter
}

// AverageOption changes EMA and SWA.
type AverageOption func(*averageConfig)

type averageConfig struct{ buffers bool }

// AverageBuffers averages buffers too (use_buffers). Without it, and for integers always, Update copies them, as PyTorch does since 2.0.
func AverageBuffers() AverageOption { return func(c *averageConfig) { c.buffers = true } }

// EMA makes an exponential moving average of m: Update multiplies the average by decay, which is in 0..1, and adds 1-decay of the model. The first
// Update copies the model. Errors are those of Clone, and an *ArgumentError for the decay.
func EMA[M Module](m M, decay float64, opts ...AverageOption) (*AveragedModel[M], error) {
	if !(decay >= 0 && decay <= 1) {
		return nil, argumentErr("EMA", "the decay is %v; it must be in 0..1", decay)
	}
	return averaged(m, decay, opts)
}

// SWA makes an average of m in which all Updates count alike (stochastic weight averaging). It is EMA otherwise.
func SWA[M Module](m M, opts ...AverageOption) (*AveragedModel[M], error) {
	return averaged(m, equalWeights, opts)
}

// equalWeights stands for the decay of an average in which all count alike.
const equalWeights = -1

func averaged[M Module](m M, decay float64, opts []AverageOption) (*AveragedModel[M], error) {
	var c averageConfig
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	copied, err := Clone(m)
	if err != nil {
		return nil, err
	}
	a := &AveragedModel[M]{Module: copied, NAveraged: statistic("n_averaged", integerZero), decay: decay, buffers: c.buffers}
	a.RegisterBufferField("n_averaged", &a.NAveraged)
	for _, n := range everything(copied) {
		if t := n.Parameter.Tensor(); t != nil { // the model is placed, so its average is
			if err := a.NAveraged.Materialize(t.Exec(), nil, tensor.Float32); err != nil {
				copied.Release()
				return nil, errors.WithMessage(err, "nn: parameter n_averaged")
			}
			break
		}
	}
	return New(a), nil
}

// Update takes the values that m has now into the average: call it after each step of the optimizer. m has the names and shapes of the model that
// the average was made of, and memory; another one is an *ArgumentError, and nothing is changed. Its values may have other types and be on another
// device. Nothing waits for the device unless Load has changed the count. An error of a device leaves the average updated in part.
func (a *AveragedModel[M]) Update(m M) error {
	const call = "Update"
	switch {
	case a == nil || absent(a.Module) || a.NAveraged.Tensor() == nil:
		return argumentErr(call, "the average has no memory: make it with EMA or SWA, and call To if the model had none then")
	case absent(m):
		return argumentErr(call, "the model is nil")
	}
	if err := Check(m); err != nil {
		return err
	}
	pairs, err := pairsOf(call, "average", a.Module, m)
	if err != nil {
		return err
	}
	before, err := a.count.value(a.NAveraged)
	if err != nil {
		return errors.WithMessage(err, "nn: Update: n_averaged")
	}
	for _, p := range pairs {
		if err := p.inOrder(func() error { return a.update(p, before) }); err != nil {
			return errors.WithMessagef(err, "nn: Update: %s", excerpt.Of(p.name))
		}
	}
	return a.count.set(a.NAveraged, before+1)
}

// pair is a parameter or buffer of the average and that of the model.
type pair struct {
	name          string
	average, from *tensor.Tensor
	buffer        bool
}

// pairsOf pairs what an average, or another model that follows m, has with what m has; what is its name in errors.
func pairsOf(call, what string, average, m Module) ([]pair, error) {
	from := map[string]*autograd.Parameter{}
	all := everything(m)
	for _, n := range all {
		from[n.Name] = n.Parameter
	}
	buffers := len(NamedParameters(average))
	var pairs []pair
	for i, n := range everything(average) {
		p := from[n.Name]
		switch {
		case p == nil:
			return nil, argumentErr(call, "the model has no %s, which the %s has", excerpt.Of(n.Name), what)
		case behind(p) != "":
			return nil, argumentErr(call, "%s: %s", excerpt.Of(n.Name), behind(p))
		case p.Tensor() == nil || n.Parameter.Tensor() == nil:
			return nil, argumentErr(call, "%s has no memory: %s", excerpt.Of(n.Name), cmp.Or(unset(p), unset(n.Parameter), "call To first"))
		case !p.Shape().Equal(n.Parameter.Shape()):
			return nil, argumentErr(call, "%s has shape %v in the model and %v in the %s", excerpt.Of(n.Name), p.Shape(), n.Parameter.Shape(), what)
		}
		pairs = append(pairs, pair{n.Name, n.Parameter.Tensor(), p.Tensor(), i >= buffers})
	}
	if len(pairs) != len(all) {
		return nil, argumentErr(call, "the model has %d parameters and buffers, the %s %d", len(all), what, len(pairs))
	}
	return pairs, nil
}

// update takes one value into its average, of which there are before ones.
func (a *AveragedModel[M]) update(p pair, before int64) error {
	keep, add := a.decay, 1-a.decay
	if a.decay == equalWeights {
		keep, add = float64(before)/float64(before+1), 1/float64(before+1)
	}
	return p.blend(keep, add, before == 0 || p.buffer && !a.buffers)
}

// With runs f while m has the averages, and the average what m had; then both have their own again: to evaluate, or save, a model in the place where it
// is. m must not be trained meanwhile. It returns the error of f. Types are those of the model, or it is a *tensor.DTypeError; other mistakes are those of
// Update. One parameter at a time is in memory once more. When it cannot exchange, nothing is changed, and f is not run.
func (a *AveragedModel[M]) With(m M, f func() error) (err error) {
	const call = "With"
	if a == nil || absent(a.Module) || absent(m) || f == nil {
		return argumentErr(call, "the average, the model or the function is nil")
	}
	pairs, err := matched(call, "average", a.Module, m)
	if err == nil {
		err = sameKind(call, pairs)
	}
	if err == nil {
		err = exchangeAll(call, pairs)
	}
	if err != nil {
		return err
	}
	defer func() { err = stderrors.Join(err, exchangeAll(call, pairs)) }()
	return f()
}

// follows makes later work of e wait for what other has enqueued, if that is another stream of the device.
func follows(e, other tensor.Exec) (err error) {
	if e.Stream().ID() == other.Stream().ID() || e.Device().ID() != other.Device().ID() {
		return nil
	}
	event, err := e.Device().NewEvent()
	if err != nil {
		return err
	}
	if err = other.Stream().Record(event); err == nil {
		err = e.Stream().Wait(event)
	}
	if closed := event.Close(); err == nil {
		err = closed
	}
	return err
}

// String names the average and the model.
func (a *AveragedModel[M]) String() string {
	if a == nil {
		return "nil"
	}
	return Describe("AveragedModel", a)
}
