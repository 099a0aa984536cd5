package nn

import (
	"sync"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// Option changes what To does.
type Option func(*placement)

type placement struct {
	exec  []tensor.ExecOption
	gen   *tensor.Generator
	dtype tensor.DType
}

// WithGenerator makes initializers draw from gen.
func WithGenerator(gen *tensor.Generator) Option { return func(p *placement) { p.gen = gen } }

// Seed makes initializers draw from a new generator with this seed, so that the model starts the same every time.
func Seed(seed uint64) Option { return WithGenerator(tensor.NewGenerator(seed)) }

// DType is the type of the parameters: of new ones instead of float32, and existing ones are converted to it.
func DType(dt tensor.DType) Option { return func(p *placement) { p.dtype = dt } }

// WithStream puts the parameters on s, not on the device's default stream.
func WithStream(s device.Stream) Option {
	return func(p *placement) { p.exec = append(p.exec, tensor.WithStream(s)) }
}

// WithAllocator takes the parameters' memory from a, not from memory.For(dev).
func WithAllocator(a memory.Allocator) Option {
	return func(p *placement) { p.exec = append(p.exec, tensor.WithAllocator(a)) }
}

// processGenerator is what initializers draw from when To is given none. Its seed is new in each process.
var processGenerator = sync.OnceValue(autograd.FreshGenerator)

// settle materializes parameters that have no value and moves those that have, or fails and changes none: what was materialized by
// this call then has no value again, and the moved values take their places only when all of them are made.
func settle(named []Named, dev device.Device, opts []Option) (err error) {
	var p placement
	for _, o := range opts {
		if o != nil {
			o(&p)
		}
	}
	e, err := tensor.On(dev, p.exec...)
	if err != nil {
		return err
	}
	var made []*autograd.Parameter
	var moves []*autograd.Move
	defer func() {
		for _, m := range moves {
			m.Release() // nothing is left in those that were committed
		}
		if err != nil {
			for _, q := range made {
				q.Release()
			}
		}
	}()
	for _, n := range named {
		if q := n.Parameter; q.Tensor() == nil {
			made = append(made, q)
			err = p.materialize(q, e)
		} else {
			moves, err = p.move(moves, q, e)
		}
		if err != nil {
			return errors.WithMessagef(err, "nn: parameter %s %s", excerpt.Of(n.Name), n.Parameter.Shape())
		}
	}
	for _, m := range moves {
		m.Commit()
	}
	return nil
}

// move prepares the move of a parameter that has a value. Only floating-point types are converted.
func (p *placement) move(moves []*autograd.Move, q *autograd.Parameter, e tensor.Exec) ([]*autograd.Move, error) {
	dt := p.dtype
	if !q.Tensor().DType().IsFloat() {
		dt = 0
	}
	m, err := q.Move(e, dt)
	return append(moves, m), err
}

func (p *placement) materialize(q *autograd.Parameter, e tensor.Exec) error {
	gen, dt := p.gen, p.dtype
	if gen == nil {
		gen = processGenerator()
	}
	if dt == 0 {
		dt = tensor.Float32
	}
	return q.Materialize(e, gen, dt)
}
