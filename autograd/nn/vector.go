package nn

import (
	"cmp"
	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/tensor"
)

// ParametersToVector makes one vector of the values of parameters, one after the other (torch.nn.utils.parameters_to_vector): for evolution strategies, or
// to compare models. They have memory on one device and the same type, and there is at least one. The caller owns the vector.
func ParametersToVector(ps []*autograd.Parameter) (*tensor.Tensor, error) {
	if err := vectorOf("ParametersToVector", ps); err != nil {
		return nil, err
	}
	flat := make([]*tensor.Tensor, 0, len(ps))
	defer func() {
		for _, t := range flat {
			t.Release()
		}
	}()
	for _, p := range ps {
		t, err := p.Tensor().Reshape(-1)
		if err != nil {
			return nil, errors.WithMessagef(err, "nn: ParametersToVector: %s", excerpt.Of(p.Name()))
		}
		flat = append(flat, t)
	}
	return tensor.Cat(flat, 0)
}

// VectorToParameters gives parameters the values of a vector, of ParametersToVector's order (torch.nn.utils.vector_to_parameters). One of another length is a
// *tensor.ShapeError, and nothing is changed.
func VectorToParameters(v *tensor.Tensor, ps []*autograd.Parameter) error {
	const call = "VectorToParameters"
	if v.Released() {
		return &tensor.ReleasedError{Op: call, Nil: v == nil}
	}
	if err := vectorOf(call, ps); err != nil {
		return err
	}
	n := 0
	for _, p := range ps {
		n += p.Len()
	}
	if v.NDim() != 1 || v.Len() != n {
		return &tensor.ShapeError{Op: call, Shapes: []tensor.Shape{v.Shape().Clone(), {n}}, Detail: "the parameters have another number of elements than the vector"}
	}
	at := 0
	for _, p := range ps {
		if err := fillFrom(p, v, at); err != nil {
			return errors.WithMessagef(err, "nn: %s: %s", call, excerpt.Of(p.Name()))
		}
		at += p.Len()
	}
	return nil
}

// fillFrom copies the part of v that begins at an element.
func fillFrom(p *autograd.Parameter, v *tensor.Tensor, at int) error {
	part, err := v.Narrow(0, at, p.Len())
	if err != nil {
		return err
	}
	defer part.Release()
	shaped, err := part.Reshape(p.Shape()...)
	if err != nil {
		return err
	}
	defer shaped.Release()
	return p.Tensor().CopyFrom(shaped)
}

// vectorOf refuses parameters that make no vector.
func vectorOf(call string, ps []*autograd.Parameter) error {
	if len(ps) == 0 {
		return argumentErr(call, "there are no parameters")
	}
	for i, p := range ps {
		switch {
		case p == nil || p.Tensor() == nil:
			return argumentErr(call, "parameter %d, %s, has no memory: %s", i, excerpt.Quote(p.Name()), unmade(p))
		case p.Tensor().DType() != ps[0].Tensor().DType():
			return &tensor.DTypeError{Op: call, DTypes: []tensor.DType{ps[0].Tensor().DType(), p.Tensor().DType()}, Detail: "the parameters have different types"}
		}
	}
	return nil
}

// unmade says what to do about a parameter that has no memory.
func unmade(p *autograd.Parameter) string {
	if from := p.ComputedFrom(); len(from) > 0 {
		return "it is parametrized: take " + excerpt.List(from) + ", of which it is computed"
	}
	return cmp.Or(unset(p), "call To first")
}
