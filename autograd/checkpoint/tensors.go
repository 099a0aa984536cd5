package checkpoint

import (
	"cmp"
	"maps"
	"slices"

	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/safetensors"
	"github.com/cistern-ml/cistern/tensor"
)

// Tensor is the section of one tensor of the program's, which is in the file as "SECTION.value": running statistics, an average, the state of something that is no module.
// Its values are set in place, where the tensor is, and it stays the program's. The file must have its shape and its type: here nothing is converted, because
// nobody would see what is lost. A tensor whose elements share addresses, as of Expand, cannot be read into. What is wrong is found before anything changes.
//
// The section is of t as it was given to Add. A program that puts another tensor into its variable, as mean = next, has still t written, which is an error once it is
// released: write the new values into t (CopyFrom), or use Tensors, which looks into its map each time.
//
//	c.Add("advantages", checkpoint.Tensor(mean))
func Tensor(t *tensor.Tensor) Section {
	return tensors{map[string]*tensor.Tensor{"value": t}, true}
}

// Tensors is the section of several tensors by names of their own, as Tensor is that of one: in the file they are "SECTION.NAME". The map is looked at whenever
// a file is written or read, so that a program may put other tensors into it; the file must have as many, with the same names. Tensors that are as long as the file says,
// as of a replay buffer that grows, are read by nn.ReadTensors of "SECTION.NAME".
//
//	replay := map[string]*tensor.Tensor{"states": states, "rewards": rewards}
//	c.Add("replay", checkpoint.Tensors(replay))
func Tensors(ts map[string]*tensor.Tensor) Section { return tensors{ts, false} }

type tensors struct {
	byName map[string]*tensor.Tensor
	one    bool
}

// names are sorted, so that errors and what is done do not depend on chance.
func (s tensors) names() []string { return slices.Sorted(maps.Keys(s.byName)) }

// ready refuses tensors that are not there.
func (s tensors) ready(call string) error {
	for _, name := range s.names() {
		switch t := s.byName[name]; {
		case t == nil && s.one:
			return absent("tensor")
		case t == nil:
			return absent("tensor " + excerpt.Quote(name))
		case t.Released():
			return &tensor.ReleasedError{Op: call + " of " + excerpt.Of(name)}
		}
	}
	return nil
}

func (s tensors) Save() (Content, error) {
	if err := s.ready("Save"); err != nil {
		return Content{}, err
	}
	return Content{Kind: tensorsKind, Tensors: maps.Clone(s.byName)}, nil
}

func (s tensors) Prepare(c Content) (Change, error) {
	if err := s.ready("Prepare"); err != nil {
		return Change{}, err
	}
	if err := sameKind(c, tensorsKind); err != nil {
		return Change{}, err
	}
	if len(c.JSON) > 0 && string(c.JSON) != "null" {
		return Change{}, &MismatchError{Detail: "what the file has are no tensors: tensors have no JSON"}
	}
	if all := s.differences(c); len(all) > 0 {
		return Change{}, &MismatchError{Differences: all}
	}
	x := new(safetensors.Exchange)
	for _, name := range s.names() {
		t := s.byName[name]
		if repeats(t) {
			return Change{}, &tensor.ShapeError{Op: "Prepare of " + excerpt.Of(name), Shapes: []tensor.Shape{t.Shape().Clone()},
				Detail: "several elements share an address; read into a Clone"}
		}
		x.Add(name, safetensors.Place{Tensor: t}, c.Tensors[name])
	}
	return Change{Apply: x.Apply, Undo: x.Undo}, nil
}

// differences are what the file has otherwise than the program.
func (s tensors) differences(c Content) (all []Difference) {
	const nothing = "nothing"
	for _, name := range s.names() {
		t, found := s.byName[name], c.Tensors[name]
		switch {
		case found == nil:
			all = append(all, Difference{name, "shape " + t.Shape().String(), nothing})
		case !found.Shape().Equal(t.Shape()):
			all = append(all, Difference{name, "shape " + t.Shape().String(), "shape " + found.Shape().String()})
		case found.DType() != t.DType():
			all = append(all, Difference{name, "type " + t.DType().String(), "type " + found.DType().String()})
		}
	}
	for name, found := range c.Tensors {
		if s.byName[name] == nil {
			all = append(all, Difference{name, nothing, "shape " + found.Shape().String()})
		}
	}
	slices.SortFunc(all, func(a, b Difference) int { return cmp.Compare(a.Tensor, b.Tensor) })
	return all
}

// repeats reports whether several elements of t share an address, as after Expand: it cannot be written to.
func repeats(t *tensor.Tensor) bool {
	for d, stride := range t.Strides() {
		if stride == 0 && t.Dim(d) > 1 {
			return t.Len() > 0
		}
	}
	return false
}
