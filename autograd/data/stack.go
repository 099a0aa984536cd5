package data

import (
	"fmt"

	"github.com/cistern-ml/cistern/tensor"
)

// Collate puts the examples of a batch together, in an order and with as many arrays as it likes: the loader uploads what it returns, as it
// is. Sequences of several lengths are padded by one, say. It is called by workers at the same time.
type Collate func(examples []Example) (Example, error)

// Stack is the Collate of a loader that was given none: arrays at the same place of all examples, of one type and shape, become
// one with a new first dimension (torch.utils.data.default_collate).
func Stack(examples []Example) (Example, error) {
	if err := alike(examples); err != nil {
		return nil, err
	}
	if len(examples) == 0 {
		return nil, nil
	}
	batch := make(Example, len(examples[0]))
	for p := range batch {
		batch[p] = stacked(examples, p)
	}
	return batch, nil
}

// stacked is the arrays at place p in one.
func stacked(examples []Example, p int) Array {
	switch examples[0][p].elements.(type) {
	case []float32:
		return join[float32](examples, p)
	case []float64:
		return join[float64](examples, p)
	case []int64:
		return join[int64](examples, p)
	case []int32:
		return join[int32](examples, p)
	case []uint8:
		return join[uint8](examples, p)
	case []bool:
		return join[bool](examples, p)
	case []tensor.Float16Bits:
		return join[tensor.Float16Bits](examples, p)
	}
	return join[tensor.BFloat16Bits](examples, p)
}

func join[T tensor.Element](examples []Example, p int) Array {
	all := make([]T, 0, len(examples)*examples[0][p].Len())
	for _, ex := range examples {
		all = append(all, ex[p].elements.([]T)...)
	}
	dt, bytes := memoryOf(all)
	return Array{dtype: dt, shape: stackedShape(examples, p), elements: all, bytes: bytes}
}

func stackedShape(examples []Example, p int) tensor.Shape {
	return append(tensor.Shape{len(examples)}, examples[0][p].shape...)
}

// misfit says which of the examples given does not fit the first, or is not there.
type misfit struct {
	at  int
	err error
}

func (m *misfit) Error() string {
	return fmt.Sprintf("data: Stack: example %d of the batch: %v", m.at, m.err)
}
func (m *misfit) Unwrap() error { return m.err }

// alike returns a *misfit unless all examples have arrays of the same types and shapes.
func alike(examples []Example) error {
	for k, ex := range examples {
		if err := fits(examples[0], ex); err != nil {
			return &misfit{k, err}
		}
	}
	return nil
}

func fits(first, ex Example) error {
	if len(ex) == 0 {
		return argumentErr("it has no arrays")
	}
	if len(ex) != len(first) {
		return argumentErr("it has %d arrays, where the first of the batch has %d", len(ex), len(first))
	}
	for p, a := range ex {
		if err := a.given(); err != nil {
			return err
		}
		switch f := first[p]; {
		case a.dtype != f.dtype:
			return &tensor.DTypeError{Op: "Stack", DTypes: []tensor.DType{f.dtype, a.dtype},
				Detail: fmt.Sprintf("array %d is not of the type that the first of the batch has", p)}
		case !a.shape.Equal(f.shape):
			return &tensor.ShapeError{Op: "Stack", Shapes: []tensor.Shape{f.shape, a.shape},
				Detail: fmt.Sprintf("array %d has not the shape that the first of the batch has", p)}
		}
	}
	return nil
}
