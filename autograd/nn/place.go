package nn

import (
	"sync"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// Option changes what To does.
type Option func(*placement)

type placement struct {
	exec   []tensor.ExecOption
	gen    *tensor.Generator
	dtype  tensor.DType
	unset  bool
	order  *tensor.MemoryFormat // nil: as it is
	makers *makers
}

// WithGenerator makes initializers draw from gen.
func WithGenerator(gen *tensor.Generator) Option { return func(p *placement) { p.gen = gen } }

// Seed makes initializers draw from a new generator with this seed, so that the model starts the same every time.
func Seed(seed uint64) Option { return WithGenerator(tensor.NewGenerator(seed)) }

// DType is the type of the parameters: of new ones instead of float32, and existing ones are converted to it.
func DType(dt tensor.DType) Option { return func(p *placement) { p.dtype = dt } }

// MemoryFormat brings parameters and buffers of 4 dimensions, the kernels of two-dimensional convolutions, to a memory format, as module.to(memory_format) of
// PyTorch does: with tensor.ChannelsLast they lie as images with their channels last want them, and convolutions of other images have such results. ChannelsLast3d is
// for those of 5 dimensions, ContiguousFormat for all. Values that are loaded into it later take their places; those that Unset has left to be loaded lie as the file has them.
// The state of an optimizer follows at its next step.
//
//	model.To(dev, nn.MemoryFormat(tensor.ChannelsLast))
func MemoryFormat(f tensor.MemoryFormat) Option { return func(p *placement) { p.order = &f } }

// Unset leaves parameters that have no value without one, and spends neither time nor memory on initial values that Load or LoadFile
// replaces: these give each the value of the file, on the device and with the type that To was told, and a model into which they loaded
// nothing is as it was. Buffers have their first values at once. A graph that uses a parameter into which nothing was loaded has a
// *autograd.ParameterError with its name, and so has Save. To without Unset gives initial values to those that still have none, such as
// adapters that no file has.
//
//	model.To(dev, nn.Unset(), nn.DType(tensor.BFloat16))
//	nn.LoadFile(f, model)
func Unset() Option { return func(p *placement) { p.unset = true } }

// unset says of a parameter without a value that To has left it so, or that it is elsewhere, "" of others.
func unset(p *autograd.Parameter) string {
	if away := autograd.Away(training.Key{}, p); away != "" {
		return away
	}
	if _, _, awaited := p.Awaited(); awaited {
		return "To was called with Unset, and nothing was loaded into it since"
	}
	return ""
}

// behind says of a parameter that ranks share out why its value is not that of the last update, "" of others.
func behind(p *autograd.Parameter) string { return autograd.Behind(training.Key{}, p) }

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

// settle materializes parameters and buffers of m that have no value and moves those that have, or fails and changes none: what was materialized by
// this call then has no value again, and the moved values take their places only when all of them are made.
func settle(m Module, dev device.Device, opts []Option) (err error) {
	named, buffers := everything(m), make(map[*autograd.Parameter]bool)
	for _, b := range NamedBuffers(m) {
		buffers[b.Parameter] = true
	}
	p := placement{makers: makersOf(m)}
	defer p.makers.release()
	for _, o := range opts {
		if o != nil {
			o(&p)
		}
	}
	e, err := tensor.On(dev, p.exec...)
	if err != nil {
		return err
	}
	var made []missing
	var moves []*autograd.Move
	defer func() {
		for _, m := range moves {
			m.Release() // nothing is left in those that were committed
		}
		if err != nil {
			for _, q := range made {
				q.restore()
			}
		}
	}()
	for _, n := range named {
		q := n.Parameter
		switch has := q.Tensor() != nil; {
		case !has && p.unset && !buffers[q]:
			made = append(made, missingOf(q))
			err = q.Await(e, p.newType())
			autograd.MarkUnset(training.Key{}, q, n.Name)
		case !has:
			made = append(made, missingOf(q))
			if err = p.materialize(q, e); err == nil && p.order != nil {
				err = p.reorder(q, e)
			}
		default:
			moves, err = p.move(moves, q, e)
		}
		switch {
		case err != nil && q.Err() != nil: // it has no shape
			return errors.WithMessagef(err, "nn: parameter %s", excerpt.Of(n.Name))
		case err != nil:
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
	if err == nil && p.order != nil {
		err = m.InFormat(*p.order)
	}
	return append(moves, m), err
}

// reorder brings a value that is new to the memory format.
func (p *placement) reorder(q *autograd.Parameter, e tensor.Exec) error {
	m, err := q.Move(e, 0)
	if err != nil {
		return err
	}
	defer m.Release()
	if err := m.InFormat(*p.order); err != nil {
		return err
	}
	m.Commit()
	return nil
}

func (p *placement) materialize(q *autograd.Parameter, e tensor.Exec) error {
	gen := p.gen
	if gen == nil {
		gen = processGenerator()
	}
	f := p.makers.of[q]
	if f == nil {
		return q.Materialize(e, gen, p.newType())
	}
	t, err := f(e, gen, p.newType())
	if err == nil {
		q.Release() // what Await has noted of it
		err = q.SetTensor(t)
	}
	if err != nil {
		t.Release()
	}
	return err
}

// newType is the type of parameters that have no value yet.
func (p *placement) newType() tensor.DType {
	if p.dtype == 0 {
		return tensor.Float32
	}
	return p.dtype
}

// missing is a parameter that had no value, and where it was to be.
type missing struct {
	*autograd.Parameter
	exec  tensor.Exec
	dtype tensor.DType // 0 if nobody had said
	path  string       // by which an earlier To has left it unset
}

func missingOf(q *autograd.Parameter) missing {
	m := missing{Parameter: q, path: autograd.UnsetPath(training.Key{}, q)}
	m.exec, m.dtype, _ = q.Awaited()
	return m
}

// restore makes the parameter what it was.
func (m missing) restore() {
	m.Release()
	if m.dtype != 0 {
		_ = m.Await(m.exec, m.dtype) // it was accepted before
		autograd.MarkUnset(training.Key{}, m.Parameter, m.path)
	}
}
