package safetensors

import (
	"errors"
	"fmt"

	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/tensor"
)

// Exchange sets tensors to values, and can take that back. The old values wait in host memory, where the new ones were.
type Exchange struct {
	list []exchanged
	done int // those that have, or may have, new values
}

type exchanged struct {
	name string
	to   *tensor.Tensor
	from *tensor.Tensor // on the host; released as soon as its values are in place
	old  *Values
}

// Add makes Apply set to to the values of from, which is on the host, has the same shape, and may be released then.
func (x *Exchange) Add(name string, to, from *tensor.Tensor) {
	x.list = append(x.list, exchanged{name: name, to: to, from: from})
}

// Apply sets the values. If it fails, Undo takes back what it did.
func (x *Exchange) Apply() error {
	for i := range x.list {
		item := &x.list[i]
		values, err := item.converted()
		if err != nil {
			return fmt.Errorf("%s: %w", excerpt.Of(item.name), err)
		}
		item.from.Release()
		if item.old, err = Of(item.name, item.to); err != nil {
			return fmt.Errorf("%s: %w", excerpt.Of(item.name), err)
		}
		x.done++
		if err := values.set(item.to); err != nil {
			return fmt.Errorf("%s: %w", excerpt.Of(item.name), err)
		}
	}
	return nil
}

// converted is the new values in the type of the tensor.
func (item *exchanged) converted() (*Values, error) {
	as, err := item.from.To(item.to.DType())
	if err != nil {
		return nil, err
	}
	defer as.Release()
	return Of(item.name, as)
}

// Undo gives the tensors the values that they had before Apply.
func (x *Exchange) Undo() error {
	var errs []error
	for ; x.done > 0; x.done-- {
		item := &x.list[x.done-1]
		if err := item.old.set(item.to); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", excerpt.Of(item.name), err))
		}
	}
	return errors.Join(errs...)
}
