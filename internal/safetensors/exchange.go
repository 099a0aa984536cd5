package safetensors

import (
	"errors"
	"fmt"

	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/tensor"
)

// Place is what values are for.
type Place struct {
	Tensor *tensor.Tensor               // that is set to them; nil where there is none yet
	Exec   tensor.Exec                  // then where one is made,
	DType  tensor.DType                 // of which type,
	Give   func(t *tensor.Tensor) error // what takes it over,
	Take   func()                       // and what gives that back

	Transposed bool // the file has the matrix otherwise
}

func (p *Place) dtype() tensor.DType {
	if p.Tensor != nil {
		return p.Tensor.DType()
	}
	return p.DType
}

// fit is the values of a tensor on the host in the type and the order of the place.
func (p *Place) fit(name string, from *tensor.Tensor) (*Values, error) {
	as, err := from.To(p.dtype())
	if err != nil {
		return nil, err
	}
	defer as.Release()
	if !p.Transposed {
		return Of(name, as)
	}
	turned, err := as.Transpose(0, 1)
	if err != nil {
		return nil, err
	}
	defer turned.Release()
	return Of(name, turned)
}

// Put puts the values of a tensor on the host to the place.
func (p *Place) Put(name string, from *tensor.Tensor) error {
	v, err := p.fit(name, from)
	if err != nil {
		return err
	}
	return v.place(*p)
}

// Put puts values where they are for. If their type is another one, or their order, they are changed first, under home, which is on the host.
func (v *Values) Put(p Place, home tensor.Exec) error {
	if v.DType != p.dtype() || p.Transposed {
		from, err := v.Tensor(home)
		if err != nil {
			return err
		}
		defer from.Release()
		if v, err = p.fit(v.Name, from); err != nil {
			return err
		}
	}
	return v.place(p)
}

// place is Put of what has the type and the order.
func (v *Values) place(p Place) error {
	if p.Tensor != nil {
		return v.set(p.Tensor)
	}
	t, err := v.Tensor(p.Exec)
	if err != nil {
		return err
	}
	if err := p.Give(t); err != nil {
		t.Release()
		return err
	}
	return nil
}

// Exchange puts values where they are for, and can take that back. The old values wait in host memory, where the new ones were.
type Exchange struct {
	list []exchanged
	done int // those that have, or may have, new values
}

type exchanged struct {
	name string
	to   Place
	from *tensor.Tensor // on the host; released as soon as its values are in place
	old  *Values        // nil where there were none
}

// Add makes Apply put the values of from, which is on the host and may be released then, to a place of the same shape.
func (x *Exchange) Add(name string, to Place, from *tensor.Tensor) {
	x.list = append(x.list, exchanged{name: name, to: to, from: from})
}

// Apply sets the values. If it fails, Undo takes back what it did.
func (x *Exchange) Apply() error {
	for i := range x.list {
		if err := x.apply(&x.list[i]); err != nil {
			return fmt.Errorf("%s: %w", excerpt.Of(x.list[i].name), err)
		}
	}
	return nil
}

func (x *Exchange) apply(item *exchanged) error {
	values, err := item.to.fit(item.name, item.from)
	if err != nil {
		return err
	}
	item.from.Release()
	if item.to.Tensor != nil {
		if item.old, err = Of(item.name, item.to.Tensor); err != nil {
			return err
		}
	}
	x.done++
	return values.place(item.to)
}

// Undo gives the places the values that they had before Apply, or none where they had none.
func (x *Exchange) Undo() error {
	var errs []error
	for ; x.done > 0; x.done-- {
		item := &x.list[x.done-1]
		if item.old == nil {
			item.to.Take()
			continue
		}
		if err := item.old.set(item.to.Tensor); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", excerpt.Of(item.name), err))
		}
	}
	return errors.Join(errs...)
}
