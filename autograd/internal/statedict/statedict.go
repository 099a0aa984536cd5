// Package statedict pairs the tensors of a file with the parameters of a model, for all that reads models.
package statedict

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Named is a parameter under one of its names.
type Named struct {
	Name      string
	Parameter *autograd.Parameter
}

// Entry is a tensor of a file.
type Entry struct {
	Name       string
	Shape      tensor.Shape
	Transposed bool // the file has it otherwise, and this is the shape in the model
}

// Match is what a file and a model have of each other.
type Match struct {
	To         []*autograd.Parameter // of each entry; nil if the model has none, or the file has it again further on
	Twice      string                // a name that two parameters have; then there is nothing else
	Missing    []Named               // parameters of which the file has no name, under their first
	Unexpected []Entry               // which the model has not
	Shapes     []Other
}

// Other is a parameter whose shape the file has otherwise.
type Other struct {
	Named
	Found tensor.Shape
}

// New pairs by name. model has each parameter under all of its names, of which the file has one or several.
func New(model []Named, file []Entry) *Match {
	m := &Match{To: make([]*autograd.Parameter, len(file))}
	byName, found := make(map[string]*autograd.Parameter, len(model)), map[*autograd.Parameter]bool{}
	for _, n := range model {
		if byName[n.Name] != nil {
			return &Match{Twice: n.Name}
		}
		byName[n.Name] = n.Parameter
	}
	last := map[*autograd.Parameter]int{}
	for i, e := range file {
		p := byName[e.Name]
		if before, again := last[p]; again {
			m.To[before] = nil
		}
		m.To[i], found[p], last[p] = p, true, i
		switch {
		case p == nil:
			m.Unexpected = append(m.Unexpected, e)
		case !p.Shape().Equal(e.Shape):
			m.Shapes = append(m.Shapes, Other{Named{e.Name, p}, e.Shape})
		}
	}
	for _, n := range model {
		if !found[n.Parameter] {
			m.Missing = append(m.Missing, n)
			found[n.Parameter] = true
		}
	}
	return m
}

// FitsInPart is Fits for a file of so many tensors and a model of which each may have what the other has not. They must have something of
// each other, unless the file has nothing at all.
func (m *Match) FitsInPart(tensors int) bool {
	some := tensors == 0 || len(m.Unexpected) < len(m.To)
	return m.Twice == "" && some && len(m.Shapes) == 0
}

// Names lists what the model and the file do not have of each other.
func (m *Match) Names() (missing, unexpected []string) {
	for _, n := range m.Missing {
		missing = append(missing, n.Name)
	}
	for _, e := range m.Unexpected {
		unexpected = append(unexpected, e.Name)
	}
	return missing, unexpected
}

// Fits reports whether there is no difference.
func (m *Match) Fits() bool {
	return m.Twice == "" && len(m.Missing)+len(m.Unexpected)+len(m.Shapes) == 0
}
