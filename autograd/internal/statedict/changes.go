package statedict

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/safetensors"
	"github.com/cistern-ml/cistern/internal/training"
)

// Changes are what options of loading make of a file and a model before they are paired. nil functions change nothing.
type Changes struct {
	Rename     func(name string) string // the model's name of a tensor of the file, empty for one that is left out
	Transposed func(name string) bool   // whether the file has a matrix otherwise, by its name there
	Only       func(name string) bool   // whether a name of the model is loaded
}

// Apply makes the changes. at is where the tensors that are left are in file. Two tensors of one name are an error: which of them counts
// would be chance.
func (c Changes) Apply(model []Named, file []Entry) (ours []Named, changed []Entry, at []int, err error) {
	before := make(map[string]string, len(file))
	for i, e := range file {
		if c.Transposed != nil && c.Transposed(e.Name) {
			if len(e.Shape) != 2 {
				return nil, nil, nil, fmt.Errorf("nn.Transposed is about matrices, and %s of the file has shape %v", excerpt.Quote(e.Name), e.Shape)
			}
			e.Shape, e.Transposed = []int{e.Shape[1], e.Shape[0]}, true
		}
		if c.Rename != nil {
			name := c.Rename(e.Name)
			if name == "" {
				continue
			}
			if other, twice := before[name]; twice {
				return nil, nil, nil, fmt.Errorf("nn.Rename makes %s of both %s and %s of the file", excerpt.Quote(name), excerpt.Quote(other), excerpt.Quote(e.Name))
			}
			before[name] = e.Name
			e.Name = name
		}
		if c.Only == nil || c.Only(e.Name) {
			changed, at = append(changed, e), append(at, i)
		}
	}
	if c.Only == nil {
		return model, changed, at, nil
	}
	for _, n := range model {
		if c.Only(n.Name) {
			ours = append(ours, n)
		}
	}
	if len(ours) == 0 {
		return nil, nil, nil, fmt.Errorf("nn.Only leaves nothing of the model to load")
	}
	return ours, changed, at, nil
}

// PlaceOf is where values of a parameter go. ok is false if nobody has said.
func PlaceOf(p *autograd.Parameter) (place safetensors.Place, ok bool) {
	if t := p.Tensor(); t != nil {
		return safetensors.Place{Tensor: t}, true
	}
	e, dt, ok := p.Awaited()
	path := autograd.UnsetPath(training.Key{}, p)
	take := func() {
		p.Release()
		_ = p.Await(e, dt) // it was accepted before
		autograd.MarkUnset(training.Key{}, p, path)
	}
	return safetensors.Place{Exec: e, DType: dt, Give: p.SetTensor, Take: take}, ok
}
