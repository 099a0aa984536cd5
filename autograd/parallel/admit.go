package parallel

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/tensor"
)

// Which models and options can be trained: asked before there is any collective.

// admit refuses models and options that cannot be trained so, before there is any collective.
func (d *DataParallel) admit() error {
	const op = "Data"
	if err := d.admitOptions(op); err != nil {
		return err
	}
	if why := isnil.Why("model", d.model); why != "" {
		return d.mistake(op, "%s", why)
	}
	if err := nn.Check(d.model); err != nil {
		return err
	}
	for _, n := range append(nn.NamedParameters(d.model), nn.NamedBuffers(d.model)...) {
		if err := d.admits(op, n); err != nil {
			return err
		}
		if n.Parameter.RequiresGrad() {
			d.named = append(d.named, n)
		} else {
			d.frozen = append(d.frozen, n)
		}
	}
	return d.someTrained(op)
}

// admitOptions refuses options that do not go together.
func (d *DataParallel) admitOptions(op string) error {
	switch s := d.set; {
	case s.stage < 0 || s.stage > 3:
		return d.mistake(op, "ZeRO(%d): there are stages 0 to 3", s.stage)
	case s.first < 1 || s.rest < 1:
		return d.mistake(op, "BucketBytes(%d, %d): both must be positive", s.first, s.rest)
	case s.master && s.stage == 0:
		return d.mistake(op, "MasterWeights are for ZeRO 1 to 3")
	}
	return nil
}

// someTrained refuses a model of which nothing is trained.
func (d *DataParallel) someTrained(op string) error {
	if len(d.named) == 0 {
		return d.mistake(op, "the model has no parameter that requires a gradient")
	}
	return nil
}

// masters refuses MasterWeights for a parameter that is wider than they are.
func (d *DataParallel) masters(op string, n nn.Named, dt tensor.DType) error {
	if !d.set.master || dt != tensor.Float64 || !n.Parameter.RequiresGrad() {
		return nil
	}
	return &Error{Op: op, Rank: d.rank(), Parameter: n.Name, Detail: "MasterWeights are float32, and it is of float64: they are for parameters in half precision"}
}

// admits refuses a parameter or buffer.
func (d *DataParallel) admits(op string, n nn.Named) error {
	refuse := func(detail string, err error) error {
		return &Error{Op: op, Rank: d.comm.Rank(), Parameter: n.Name, Detail: detail, Err: err}
	}
	t := n.Parameter.Tensor()
	if t != nil {
		if err := d.masters(op, n, t.DType()); err != nil {
			return err
		}
	}
	switch {
	case autograd.Diverted(key, n.Parameter):
		return refuse("another DataParallel trains it: Unshard or Close that first", nil)
	case d.set.stage > 0 && autograd.HasPostHooks(key, n.Parameter):
		return d.hooked(op, n.Name)
	case t == nil:
		return refuse("", autograd.Missing(key, n.Parameter, n.Name, "call To on the model first"))
	case t.Device().ID() != d.comm.Device().ID():
		return refuse("it is on "+t.Device().ID().String()+", and the Comm on "+d.comm.Device().ID().String(), nil)
	case d.exec.Stream() == nil:
		d.exec = t.Exec()
	case t.Exec() != d.exec:
		return refuse("it is on another stream, or from another allocator, than the parameters before it", nil)
	}
	if !t.IsContiguous() {
		return refuse("it is not contiguous: make it of what Contiguous gives (a module with its channels last: nn.ToMemoryFormat)", nil)
	}
	return nil
}
