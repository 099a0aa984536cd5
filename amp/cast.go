package amp

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// Cast implements autograd.Caster: it gives the inputs of an operation the types that the operation's class asks for. The
// conversions are operations of the graph, through which gradients flow back in the inputs' own types.
func (a *autocast) Cast(op string, in []*autograd.Variable) ([]*autograd.Variable, error) {
	if !a.enabled {
		return in, nil
	}
	if err := a.check(); err != nil {
		return nil, err
	}
	lower := a.lower(in[0].Graph())
	switch classes[op] {
	case LowerPrecision:
		return a.all(in, lower, lower), nil
	case Float32Inside:
		if len(in) <= 2 { // weights of classes would have to have the type of the logits
			return in, nil
		}
		return a.all(in, tensor.Float32, lower), nil
	case Float32, Float32Result:
		return a.all(in, tensor.Float32, lower), nil
	case WidestInput:
		dt, err := widest(op, in, lower)
		if err != nil {
			return nil, err
		}
		return a.all(in, dt, lower), nil
	case Banned:
		return nil, &BannedError{Op: op}
	}
	return in, nil
}

// Widens implements autograd.Widener.
func (a *autocast) Widens(op string) bool { return a.enabled && classes[op] == Float32Inside }

// Lowers implements autograd.Lowerer.
func (a *autocast) Lowers(g *autograd.Graph, op string) tensor.DType {
	if !a.enabled || classes[op] != LowerPrecision || a.check() != nil {
		return 0
	}
	return a.lower(g)
}

// eligible reports whether autocast may convert v: floating-point, but not float64, which whoever uses it has asked for.
// Numbers of classes, masks and doubles pass as they are.
func eligible(v *autograd.Variable) bool { return v.DType().IsFloat() && v.DType() != tensor.Float64 }

// widest is the type of an operation of class WidestInput: float32 if an eligible input is, else the lower precision. As in
// PyTorch the other type of 16 bits is an error.
func widest(op string, in []*autograd.Variable, lower tensor.DType) (tensor.DType, error) {
	dt := lower
	for _, v := range in {
		switch {
		case !eligible(v), v.DType() == lower:
		case v.DType() == tensor.Float32:
			dt = tensor.Float32
		case dt != tensor.Float32:
			return 0, &PromoteError{Op: op, DType: v.DType(), Lower: lower}
		}
	}
	return dt, nil
}

// all converts the eligible inputs to dt, in place of in.
func (a *autocast) all(in []*autograd.Variable, dt, lower tensor.DType) []*autograd.Variable {
	for i, v := range in {
		if v.DType() == dt || !eligible(v) {
			continue
		}
		if a.cache && dt == lower && isWeight(v) {
			in[i] = a.cached(v, dt)
		} else {
			in[i] = v.To(dt)
		}
	}
	return in
}

// isWeight reports whether casts of v are worth keeping: it is a float32 leaf that is trained, so other operations of the graph
// will likely ask for it again. Leaves of a graph for inference require no gradient, but their parameters do.
func isWeight(v *autograd.Variable) bool {
	if v.DType() != tensor.Float32 || !v.IsLeaf() {
		return false
	}
	p := v.Parameter()
	return v.RequiresGrad() || p != nil && p.RequiresGrad()
}

// castKey is what a cast is kept under. The version makes a weight that was changed in place a new one, in whatever view it was
// changed: a stale cast is never used.
type castKey struct {
	v       *autograd.Variable
	dtype   tensor.DType
	version uint32
}

// cached is v converted to dt, once per graph. Memo makes it as outside of NoGrad, so that a cast which was first needed inside
// serves a training step outside too, and keeps it until the graph is released.
func (a *autocast) cached(v *autograd.Variable, dt tensor.DType) *autograd.Variable {
	if !v.Alive() {
		return v // the operation will say so
	}
	return v.Graph().Memo(castKey{v, dt, v.Version()}, func() *autograd.Variable {
		if t := a.weights.take(v, dt); t != nil {
			return autograd.Converted(training.Key{}, v, t)
		}
		return v.To(dt)
	})
}
