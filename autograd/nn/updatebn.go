package nn

import (
	"errors"
	"iter"

	pkgerrors "github.com/pkg/errors"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// UpdateBN computes the running statistics of all batch norms in m anew, as averages over the inputs of some batches (torch.optim.swa_utils.update_bn):
// averaged weights have none of their own. m computes in training mode without gradients; modes and momenta are as before when it returns.
//
//	err := nn.UpdateBN(average.Module, loader.Batches())
//	err = errors.Join(err, loader.Err())
//
// An error ends it, and leaves the statistics of the batches until then.
func UpdateBN(m Layer, batches iter.Seq2[*tensor.Tensor, *tensor.Tensor]) error {
	if absent(m) || batches == nil {
		return argumentErr("UpdateBN", "the model or the batches are nil")
	}
	return UpdateBNBy(m, func() error {
		for x := range batches {
			if err := see(m, x); err != nil {
				return err
			}
		}
		return nil
	})
}

// see lets a model compute for the sake of its statistics.
func see(m Layer, x *tensor.Tensor) error {
	if x.Released() {
		return &tensor.ReleasedError{Op: "UpdateBN", Nil: x == nil}
	}
	g := autograd.NewGraph(x.Device(), autograd.NoGrad(), autograd.WithAllocator(x.Exec().Allocator()), autograd.WithStream(x.Exec().Stream()))
	defer g.Release()
	m.Forward(g.Input(x))
	return g.Err()
}

// UpdateBNBy is UpdateBN for models whose Forward has other inputs: run lets m compute for each batch, in graphs of its own.
func UpdateBNBy(m Module, run func() error) (err error) {
	switch {
	case absent(m) || run == nil:
		return argumentErr("UpdateBN", "the model or the function is nil")
	default:
		if err := Check(m); err != nil {
			return err
		}
	}
	var norms []*BatchNormLayer
	for m := range Modules(m) {
		if l, ok := m.(*BatchNormLayer); ok && l.RunningMean != nil {
			norms = append(norms, l)
		}
	}
	if len(norms) == 0 {
		return nil // nothing to compute
	}
	defer modesOf(m)()
	Train(m)
	for _, l := range norms {
		momentum := l.Momentum
		defer func() { l.Momentum = momentum }()
		l.Momentum = CumulativeAverage
		if err := l.reset(); err != nil {
			return pkgerrors.WithMessage(err, "nn: UpdateBN")
		}
	}
	return run()
}

// modesOf notes the modes of m and of all in it, and returns what brings them back.
func modesOf(m Module) (restore func()) {
	type moded interface {
		Training() bool
		SetTraining(on bool)
	}
	var all []moded
	var was []bool
	for m := range Modules(m) {
		if t, ok := m.(moded); ok {
			all, was = append(all, t), append(was, t.Training())
		}
	}
	return func() {
		for i, t := range all {
			t.SetTraining(was[i])
		}
	}
}

// reset makes the running statistics those of no batch (reset_running_stats).
func (l *BatchNormLayer) reset() error {
	for _, p := range []*autograd.Parameter{l.RunningMean, l.RunningVar} {
		if p.Tensor() == nil {
			return argumentErr(l.String(), "the running statistics have no memory: call To first")
		}
	}
	err := errors.Join(l.RunningMean.Tensor().FillInPlace(0), l.RunningVar.Tensor().FillInPlace(1))
	if l.BatchesTracked != nil {
		err = errors.Join(err, l.batches.set(l.BatchesTracked, 0))
	}
	return err
}
