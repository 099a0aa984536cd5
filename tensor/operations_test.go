package tensor_test

import (
	"maps"

	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// What no program calls.
var (
	gradients = tensor.Gradients(training.Key{})
	steps     = tensor.Steps(training.Key{})
)

type (
	guard     = training.Guard[*tensor.Tensor]
	tensors   = []*tensor.Tensor
	operation = func(in tensors, a args) (*tensor.Tensor, error)
)

func one(f func(*tensor.Tensor) (*tensor.Tensor, error)) operation {
	return func(in tensors, _ args) (*tensor.Tensor, error) { return f(in[0]) }
}

func two(f func(t, u *tensor.Tensor) (*tensor.Tensor, error)) operation {
	return func(in tensors, _ args) (*tensor.Tensor, error) { return f(in[0], in[1]) }
}

func three(f func(t, u, v *tensor.Tensor) (*tensor.Tensor, error)) operation {
	return func(in tensors, _ args) (*tensor.Tensor, error) { return f(in[0], in[1], in[2]) }
}

func shaped(f func(*tensor.Tensor, ...int) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return f(in[0], a.ints(0)...) }
}

func dim(f func(*tensor.Tensor, int) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return f(in[0], a.int(0)) }
}

func dims(f func(t *tensor.Tensor, i, j int) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return f(in[0], a.int(0), a.int(1)) }
}

func scalar(f func(*tensor.Tensor, float64) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return f(in[0], a.float(0)) }
}

func scalars(f func(*tensor.Tensor, float64, float64) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return f(in[0], a.float(0), a.float(1)) }
}

func twoAndScalar(f func(t, u *tensor.Tensor, v float64) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return f(in[0], in[1], a.float(0)) }
}

func twoAndScalars(f func(t, u *tensor.Tensor, v, w float64) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return f(in[0], in[1], a.float(0), a.float(1)) }
}

func reduction(f func(*tensor.Tensor, []int, bool) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return f(in[0], a.ints(1), a.bool(0)) }
}

func spread(f func(*tensor.Tensor, []int, int, bool) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return f(in[0], a.ints(2), a.int(0), a.bool(1)) }
}

func arg(f func(*tensor.Tensor, int, bool) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return f(in[0], a.int(0), a.bool(1)) }
}

func joined(f func([]*tensor.Tensor, int) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return f(in, a.int(0)) }
}

// inPlace applies a change to a clone of the first input.
func inPlace(f func(t *tensor.Tensor, in tensors, a args) error) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) {
		t, err := in[0].Clone()
		if err != nil {
			return nil, err
		}
		if err := f(t, in, a); err != nil {
			t.Release()
			return nil, err
		}
		return t, nil
	}
}

// first releases all results but the first.
func first(ts []*tensor.Tensor, err error) (*tensor.Tensor, error) {
	if err != nil {
		return nil, err
	}
	if len(ts) == 0 {
		return nil, errInjected
	}
	for _, t := range ts[1:] {
		t.Release()
	}
	return ts[0], nil
}

func firstOf(t, u *tensor.Tensor, err error) (*tensor.Tensor, error) {
	return first([]*tensor.Tensor{t, u}, err)
}

// secondOf releases the first result.
func secondOf(t, u *tensor.Tensor, err error) (*tensor.Tensor, error) { return firstOf(u, t, err) }

func flag(f func(t *tensor.Tensor, dim int, flag bool) (a, b *tensor.Tensor, err error), pick func(a, b *tensor.Tensor, err error) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return pick(f(in[0], a.int(0), a.bool(1))) }
}

func changed1(f func(t *tensor.Tensor) error) operation {
	return inPlace(func(t *tensor.Tensor, _ tensors, _ args) error { return f(t) })
}

func changed2(f func(t, u *tensor.Tensor) error) operation {
	return inPlace(func(t *tensor.Tensor, in tensors, _ args) error { return f(t, in[1]) })
}

// text is argument i, or a legal equation if the test passes numbers for all arguments.
func (a args) text(i int) string {
	if s, ok := a[i].(string); ok {
		return s
	}
	return "ij,ij->"
}

// optional is input i, nil if there are not as many.
func optional(in tensors, i int) *tensor.Tensor {
	if i < len(in) {
		return in[i]
	}
	return nil
}

// from are the inputs from i on.
func from(in tensors, i int) tensors { return in[min(i, len(in)):] }

// isView names the operations that move no elements.
var isView = map[string]bool{
	"View": true, "Transpose": true, "Permute": true, "Slice": true, "Narrow": true, "Select": true, "Squeeze": true,
	"Unsqueeze": true, "Expand": true, "Reshape": true, "Flatten": true, "T": true, "MT": true,
	"Split": true, "SplitSizes": true, "Chunk": true, "Unbind": true, "MoveDim": true, "SwapAxes": true, "Diagonal": true,
}

// operations are all functions of tensors, by name, with their arguments as a list. The golden files, the fault injection
// and the metamorphic test walk it; TestOperations_AreAllTested compares it with the package. Each family has a file.
//
// Functions that take results of other functions are there twice: under their name, as the golden files use them, they compute what they
// take first; with "given" behind it they have it as inputs, so that each can be of a wrong type or shape or on another device.
var operations = map[string]operation{}

// register adds a family of operations, their samples, and what they refuse.
func register(family map[string]operation, legal []sample, refused []refused) {
	maps.Copy(operations, family)
	samples = append(samples, legal...)
	refusals = append(refusals, refused...)
}
