package nn

import (
	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/tensor"
)

// SoftUpdate moves the parameters of target by a part tau of the way to those of m (Polyak averaging), as the target networks of reinforcement learning
// do; a tau of 1 copies them. Buffers are copied. target is a Clone of m, or has its names and shapes; another one, a target that shares a parameter with m,
// and a tau outside of 0..1 are an *ArgumentError, and nothing is changed. Nothing waits for the device.
//
//	target, err := nn.Clone(model)
//	...
//	opt.Step(); nn.SoftUpdate(target, model, 0.005)
func SoftUpdate(target, m Module, tau float64) error {
	const call = "SoftUpdate"
	switch {
	case absent(target) || absent(m):
		return argumentErr(call, "a model is nil")
	case !(tau >= 0 && tau <= 1):
		return argumentErr(call, "tau is %v; it must be in 0..1", tau)
	}
	pairs, err := matched(call, "target", target, m)
	if err != nil {
		return err
	}
	keep, add := 1-tau, tau
	for _, p := range pairs {
		if err := p.inOrder(func() error { return p.blend(keep, add, p.buffer || tau == 1) }); err != nil {
			return errors.WithMessagef(err, "nn: SoftUpdate: %s", excerpt.Of(p.name))
		}
	}
	return nil
}

// matched pairs the values of two models that share none.
func matched(call, what string, a, b Module) ([]pair, error) {
	for _, m := range []Module{a, b} {
		if err := Check(m); err != nil {
			return nil, err
		}
	}
	pairs, err := pairsOf(call, what, a, b)
	if err != nil {
		return nil, err
	}
	for _, p := range pairs {
		if p.average == p.from {
			return nil, argumentErr(call, "the models share %s", excerpt.Of(p.name))
		}
	}
	return pairs, nil
}

// blend makes the first value keep times itself and add times the second one, or a copy of it.
func (p pair) blend(keep, add float64, copied bool) error {
	if copied || !p.average.DType().IsFloat() || !p.from.DType().IsFloat() {
		return p.average.CopyFrom(p.from)
	}
	from, err := p.from.To(p.average.DType())
	if err != nil {
		return err
	}
	defer from.Release()
	local, err := from.ToDevice(p.average.Exec())
	if err != nil {
		return err
	}
	defer local.Release()
	if err := p.average.MulScalarInPlace(keep); err != nil {
		return err
	}
	return p.average.AddInPlace(local, add)
}

// inOrder runs f after what the second value's stream has enqueued, and before what that will.
func (p pair) inOrder(f func() error) error {
	if err := follows(p.average.Exec(), p.from.Exec()); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	return follows(p.from.Exec(), p.average.Exec())
}

// exchange makes each value the other one's. It takes the memory of one of them for as long.
func (p pair) exchange() error {
	before, err := p.average.Clone()
	if err != nil {
		return err
	}
	defer before.Release()
	if err := p.average.CopyFrom(p.from); err != nil {
		return err
	}
	return p.from.CopyFrom(before)
}

// exchangeAll is exchange of all pairs, or of none.
func exchangeAll(call string, pairs []pair) error {
	for i, p := range pairs {
		if err := p.inOrder(p.exchange); err != nil {
			for _, done := range pairs[:i] {
				_ = done.inOrder(done.exchange) // the first error is what there is to say
			}
			return errors.WithMessagef(err, "nn: %s: %s", call, excerpt.Of(p.name))
		}
	}
	return nil
}

// sameKind refuses pairs of different types, which an exchange would round.
func sameKind(call string, pairs []pair) error {
	for _, p := range pairs {
		if a, b := p.average.DType(), p.from.DType(); a != b {
			return &tensor.DTypeError{Op: call, DTypes: []tensor.DType{a, b}, Detail: excerpt.Of(p.name) + " would be rounded"}
		}
	}
	return nil
}
