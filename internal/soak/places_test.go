package soak

import (
	"bytes"
	"context"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/data"
	"github.com/cistern-ml/cistern/autograd/gradcheck"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// place is where the library calls a function of the user's. run sees to it that d is called there, and returns what the library says.
// The graph is released after it.
type place struct {
	name string
	run  func(u *user, d *deed) error
}

// What the places are like that are not like the others.
var (
	// deaf are those that take no error.
	deaf = []string{"Dataset.Len", "Change.Undo", "Change.Close", "Packed.Release", "OnOOM"}
	// plain are those that take no result, or whose user sees to it.
	plain = append(deaf, "post-accumulate hook", "SavedTensorHooks.Pack", "LeafOption", "loop over batches", "LambdaLR",
		"OnLowMemory", "Section.Save", "Section.Prepare", "Change.Apply", "Optimizer of a GradScaler")
	// failing are those that are called because of an error.
	failing = []string{"Change.Undo", "OnOOM"}
)

// train goes forward and backward with f in the middle.
func (u *user) train(f func(y *autograd.Variable) *autograd.Variable, opts ...autograd.Option) error {
	if u.g == nil {
		u.g = u.graph(opts...)
	}
	y := u.g.Input(u.input, autograd.RequiresGrad()).MatMul(u.g.Param(u.w)).Tanh()
	u.x, u.vars, u.same = y, []*autograd.Variable{y}, tensor.Shape{2, 2}
	loss := f(y).Mul(y).Sum(nil, false)
	u.loss = func() error { return loss.Backward() }
	return loss.Backward(autograd.RetainGraph())
}

// hook is d as a hook of a gradient.
func (u *user) hook(d *deed) autograd.Hook {
	return func(grad *tensor.Tensor) (*tensor.Tensor, error) {
		u.lent, u.same = []*tensor.Tensor{grad}, grad.Shape()
		return d.tensor(u)
	}
}

// around is a place whose function returns a variable.
func around(name string, f func(u *user, y *autograd.Variable, do func() *autograd.Variable) *autograd.Variable) place {
	return place{name, func(u *user, d *deed) error {
		return u.train(func(y *autograd.Variable) *autograd.Variable {
			return f(u, y, func() *autograd.Variable { return d.variable(u) })
		})
	}}
}

// module is a place in a model.
func module(name string, m func(f func(x *autograd.Variable) *autograd.Variable) nn.Layer) place {
	return place{name, func(u *user, d *deed) error {
		outer := u.g
		return u.train(func(y *autograd.Variable) *autograd.Variable {
			outer = u.g
			defer func() { u.g = outer }()
			return m(func(x *autograd.Variable) *autograd.Variable { return u.inside(d, x) }).Forward(y)
		})
	}}
}

// inside does d with x, which may be of a graph inside the user's.
func (u *user) inside(d *deed, x *autograd.Variable) *autograd.Variable {
	outer, was := u.g, u.x
	defer func() { u.g, u.x = outer, was }()
	u.g, u.x, u.vars = x.Graph(), x, []*autograd.Variable{x}
	return d.variable(u)
}

var places = []place{
	{"hook of a variable", func(u *user, d *deed) error {
		return u.train(func(y *autograd.Variable) *autograd.Variable { y.RegisterHook(u.hook(d)); return y.Exp() })
	}},
	{"hook of the root", func(u *user, d *deed) error {
		return u.train(func(y *autograd.Variable) *autograd.Variable {
			z := y.Exp().Sum(nil, false)
			z.RegisterHook(u.hook(d))
			return z
		})
	}},
	{"hook of a leaf", func(u *user, d *deed) error {
		return u.train(func(y *autograd.Variable) *autograd.Variable {
			x := u.g.Input(u.input, autograd.RequiresGrad())
			x.RegisterHook(u.hook(d))
			return x.Sum(nil, false).Exp()
		})
	}},
	{"hook in Grad", func(u *user, d *deed) error {
		u.g = u.graph()
		x := u.g.Input(u.input, autograd.RequiresGrad())
		y := x.Exp()
		u.x, u.vars = y, []*autograd.Variable{x, y}
		y.RegisterHook(u.hook(d))
		loss := y.Tanh().Sum(nil, false)
		u.loss = func() error { return loss.Backward() }
		_, err := autograd.Grad([]*autograd.Variable{loss}, []*autograd.Variable{y, x})
		return err
	}},
	{"hook of a parameter", func(u *user, d *deed) error {
		defer u.w.RegisterHook(u.hook(d)).Remove()
		return u.train((*autograd.Variable).Exp)
	}},
	{"post-accumulate hook", func(u *user, d *deed) error {
		defer u.w.RegisterPostAccumulateGradHook(func(p *autograd.Parameter) error {
			u.lent, u.same = []*tensor.Tensor{p.Grad(), p.Tensor()}, p.Shape()
			return d.only(u)
		}).Remove()
		return u.train((*autograd.Variable).Exp)
	}},

	{"Function.Forward", func(u *user, d *deed) error { return u.function(d, false, false) }},
	{"Function.Backward", func(u *user, d *deed) error { return u.function(d, true, false) }},
	{"Function.ForwardAll", func(u *user, d *deed) error { return u.function(d, false, true) }},
	{"Function.BackwardAll", func(u *user, d *deed) error { return u.function(d, true, true) }},
	{"SavedTensorHooks.Pack", func(u *user, d *deed) error { return u.pack(d, "Pack") }},
	{"Packed.Unpack", func(u *user, d *deed) error { return u.pack(d, "Unpack") }},
	{"Packed.Release", func(u *user, d *deed) error { return u.pack(d, "Release") }},
	{"Caster.Cast", func(u *user, d *deed) error {
		return u.train((*autograd.Variable).Exp, autograd.WithCaster(caster(func(in []*autograd.Variable) ([]*autograd.Variable, error) {
			u.x, u.vars, u.same = in[0], in, in[0].Shape().Clone()
			return []*autograd.Variable{d.variable(u)}, u.g.Err()
		})))
	}},
	{"LeafOption", func(u *user, d *deed) error {
		return u.train(func(y *autograd.Variable) *autograd.Variable {
			return u.g.Input(u.input, func(v *autograd.Variable) { u.g.Fail(d.only(u)) }).Mean(nil, false).Add(y)
		})
	}},

	around("Scope", func(u *user, _ *autograd.Variable, do func() *autograd.Variable) *autograd.Variable {
		return u.g.Scope(do)
	}),
	around("Scopes", func(u *user, _ *autograd.Variable, do func() *autograd.Variable) *autograd.Variable {
		return u.g.Scopes(func() []*autograd.Variable { return []*autograd.Variable{do()} })[0]
	}),
	around("ModuleScope", func(u *user, _ *autograd.Variable, do func() *autograd.Variable) *autograd.Variable {
		return u.g.ModuleScope(nil, do)
	}),
	around("NoGrad", func(u *user, _ *autograd.Variable, do func() *autograd.Variable) *autograd.Variable {
		return u.g.NoGrad(do)
	}),
	around("Outside", func(u *user, _ *autograd.Variable, do func() *autograd.Variable) *autograd.Variable {
		return u.g.Outside(do)
	}),
	around("Memo", func(u *user, _ *autograd.Variable, do func() *autograd.Variable) *autograd.Variable {
		u.g.Memo("key", do)
		return u.g.Memo("key", do)
	}),
	around("SavedTensors", func(u *user, _ *autograd.Variable, do func() *autograd.Variable) *autograd.Variable {
		return u.g.SavedTensors(autograd.SaveOnCPU(false), do)
	}),
	around("amp.Region", func(u *user, y *autograd.Variable, do func() *autograd.Variable) (z *autograd.Variable) {
		amp.Region(u.g, amp.DType(tensor.BFloat16), func() { z = do() })
		return z
	}),
	around("amp.CastInputs", func(u *user, y *autograd.Variable, do func() *autograd.Variable) *autograd.Variable {
		return amp.CastInputs(tensor.Float32, func([]*autograd.Variable) *autograd.Variable { return do() }, y)
	}),
	around("New", func(u *user, y *autograd.Variable, do func() *autograd.Variable) *autograd.Variable {
		return u.g.New(func(tensor.Exec) (*tensor.Tensor, error) { return do().Take() })
	}),
	{"New", func(u *user, d *deed) error {
		return u.train(func(y *autograd.Variable) *autograd.Variable {
			return u.g.New(func(tensor.Exec) (*tensor.Tensor, error) { return d.tensor(u) })
		})
	}},
	around("observed operation", func(u *user, y *autograd.Variable, do func() *autograd.Variable) *autograd.Variable {
		return y.Exp().Mul(do())
	}),
	{"Checkpoint", func(u *user, d *deed) error { return u.checkpoint(d, 1) }},
	{"Checkpoint that captures", func(u *user, d *deed) error {
		return u.train(func(y *autograd.Variable) *autograd.Variable {
			return autograd.Checkpoint(func(in []*autograd.Variable) *autograd.Variable {
				if !u.called {
					d.variable(u)
				}
				return in[0].Exp()
			}, y)
		})
	}},
	{"Checkpoint, second run", func(u *user, d *deed) error { return u.checkpoint(d, 2) }},
	module("Func", func(f func(x *autograd.Variable) *autograd.Variable) nn.Layer { return nn.Func("f", f) }),
	module("Sequential", func(f func(x *autograd.Variable) *autograd.Variable) nn.Layer {
		return nn.Sequential(nn.Tanh(), nn.Func("f", f), nn.ReLU())
	}),
	module("Checkpointed", func(f func(x *autograd.Variable) *autograd.Variable) nn.Layer {
		return nn.Checkpointed(nn.Func("f", f))
	}),
	module("Base.Scope", func(f func(x *autograd.Variable) *autograd.Variable) nn.Layer { return &own{f: f} }),

	{"Dataset.Batch", func(u *user, d *deed) error { return u.load(d, "inputs") }},
	{"Dataset.Batch, targets", func(u *user, d *deed) error { return u.load(d, "targets") }},
	{"Dataset.Len", func(u *user, d *deed) error { return u.load(d, "len") }},
	{"loop over batches", func(u *user, d *deed) error { return u.load(d, "loop") }},

	{"Initializer", func(u *user, d *deed) error {
		u.same = tensor.Shape{4, 3}
		m := nn.Linear(3, 4, nn.WeightInit(func(e tensor.Exec, _ *tensor.Generator, dt tensor.DType, shape ...int) (*tensor.Tensor, error) {
			return d.tensor(u)
		}))
		defer m.Release()
		if err := m.To(u.dev, nn.WithAllocator(u.alloc)); err != nil {
			return err
		}
		u.g = u.graph()
		return m.Forward(u.g.Input(u.input)).Sum(nil, false).Backward()
	}},
	{"Optimizer of a GradScaler", func(u *user, d *deed) error {
		scaler := amp.NewGradScaler(amp.InitScale(4))
		defer scaler.Release()
		u.g = u.graph()
		loss := u.g.Input(u.input).MatMul(u.g.Param(u.w)).Sum(nil, false)
		u.x, u.vars, u.same = loss, []*autograd.Variable{loss}, tensor.Shape{1}
		if err := scaler.Backward(loss); err != nil {
			return err
		}
		u.lent = []*tensor.Tensor{u.w.Grad()}
		err := scaler.Step(&stepper{u, func() error { return d.only(u) }})
		if updated := scaler.Update(); err == nil {
			err = updated
		}
		return err
	}},
	{"LambdaLR", func(u *user, d *deed) error {
		opt := optim.SGD([]*autograd.Parameter{u.w}, optim.LR(0.1))
		var err error
		armed := false
		s := optim.LambdaLR(opt, func(int) float64 {
			if armed {
				err = d.only(u)
			}
			return 1
		})
		u.g, u.same, armed = u.graph(), tensor.Shape{1}, true
		if failed := s.Step(); failed != nil {
			return failed
		}
		armed = false
		if s.Epoch() != 1 {
			panic("the step was not counted")
		}
		return err
	}},
	{"StepInBackward and a hook", func(u *user, d *deed) error {
		opt := optim.Adam([]*autograd.Parameter{u.w}, optim.LR(0.1))
		defer opt.Release()
		defer opt.StepInBackward()()
		return u.train(func(y *autograd.Variable) *autograd.Variable { y.RegisterHook(u.hook(d)); return y.Exp() })
	}},
	{"gradcheck", func(u *user, d *deed) error {
		x, err := tensor.FromSlice(u.exec, []float64{1, 2}, 2)
		if err != nil {
			return err
		}
		defer x.Release()
		f := func(in []*autograd.Variable) *autograd.Variable { return u.inside(d, in[0]) }
		return gradcheck.Check(u.dev, f, []*tensor.Tensor{x}, gradcheck.Graph(func() []autograd.Option {
			return []autograd.Option{autograd.WithAllocator(u.alloc)}
		}))
	}},

	{"OnLowMemory", func(u *user, d *deed) error { return u.lowMemory(d, false) }},
	{"OnOOM", func(u *user, d *deed) error { return u.lowMemory(d, true) }},
	{"Section.Save", func(u *user, d *deed) error { return u.section(d, "Save") }},
	{"Section.Prepare", func(u *user, d *deed) error { return u.section(d, "Prepare") }},
	{"Change.Apply", func(u *user, d *deed) error { return u.section(d, "Apply") }},
	{"Change.Undo", func(u *user, d *deed) error { return u.section(d, "Undo") }},
	{"Change.Close", func(u *user, d *deed) error { return u.section(d, "Close") }},
}

// function does d in a function of one input and, if all, of two results.
func (u *user) function(d *deed, back, all bool) error {
	run := func(here bool, c *autograd.Context, lent *tensor.Tensor) (*tensor.Tensor, error) {
		if here {
			u.lent, u.same = []*tensor.Tensor{lent}, lent.Shape()
			return d.tensor(u)
		}
		return lent.MulScalar(2)
	}
	pair := func(t *tensor.Tensor, err error) ([]*tensor.Tensor, error) { return []*tensor.Tensor{t, t}, err }
	f := autograd.Function[int]{Name: "the_users"}
	forward := func(c *autograd.Context, _ int, in []*tensor.Tensor) (*tensor.Tensor, error) {
		c.Save(in[0], u.make(u.exec, tensor.Float32, 3)) // the graph takes the second over, whatever comes
		return run(!back, c, in[0])
	}
	backward := func(c *autograd.Context, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
		t, err := run(back, c, g)
		if t == g && d.name == "what was lent" {
			t = c.Saved(0)
		}
		return t, err
	}
	if all {
		f.Results = 2
		f.ForwardAll = func(c *autograd.Context, a int, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			return pair(forward(c, a, in))
		}
		f.BackwardAll = func(c *autograd.Context, a int, gs []*tensor.Tensor) ([]*tensor.Tensor, error) {
			return pair(backward(c, a, gs[0]))
		}
	} else {
		f.Forward = forward
		f.Backward = func(c *autograd.Context, a int, g *tensor.Tensor) ([]*tensor.Tensor, error) {
			t, err := backward(c, a, g)
			return []*tensor.Tensor{t}, err
		}
	}
	return u.train(func(y *autograd.Variable) *autograd.Variable {
		if all {
			return f.ApplyAll(0, y, y)[0]
		}
		return f.Apply(0, y)
	})
}

type hooks struct {
	u  *user
	d  *deed
	at string
}

func (h hooks) Pack(t *tensor.Tensor, leaf bool) (autograd.Packed, error) {
	var err error
	if h.at == "Pack" {
		h.u.lent, h.u.same = []*tensor.Tensor{t}, t.Shape()
		err = h.d.only(h.u)
	}
	if err != nil {
		return nil, err
	}
	return &packing{hooks: h, t: t.Retain()}, nil
}

type packing struct {
	hooks
	t *tensor.Tensor
}

func (p *packing) Unpack(tensor.Exec) (*tensor.Tensor, error) {
	if p.at == "Unpack" {
		p.u.lent, p.u.same = []*tensor.Tensor{p.t}, p.t.Shape()
		return p.d.tensor(p.u)
	}
	return p.t.Retain(), nil
}

func (p *packing) Release() {
	p.t.Release()
	if p.at == "Release" {
		p.u.lent, p.u.same = []*tensor.Tensor{p.t}, tensor.Shape{1}
		_ = p.d.only(p.u)
	}
}

func (u *user) pack(d *deed, at string) error {
	return u.train((*autograd.Variable).Exp, autograd.WithSavedTensorHooks(hooks{u, d, at}))
}

type caster func(in []*autograd.Variable) ([]*autograd.Variable, error)

func (c caster) Cast(op string, in []*autograd.Variable) ([]*autograd.Variable, error) {
	if op == "exp" {
		return c(in)
	}
	return in, nil
}

func (u *user) checkpoint(d *deed, at int) error {
	run := 0
	return u.train(func(y *autograd.Variable) *autograd.Variable {
		return autograd.Checkpoint(func(in []*autograd.Variable) *autograd.Variable {
			if run++; run == at {
				return u.inside(d, in[0])
			}
			return in[0].Exp()
		}, y)
	})
}

// own is a module of the user's.
type own struct {
	nn.Base
	f func(x *autograd.Variable) *autograd.Variable
}

func (m *own) Forward(x *autograd.Variable) *autograd.Variable {
	return m.Scope(x, func(*autograd.Graph) *autograd.Variable { return m.f(x) })
}

func (m *own) String() string { return "own" }

// set is a data set of the user's.
type set struct {
	u     *user
	d     *deed
	where string
}

func (s set) Len() int {
	if s.where == "len" {
		_ = s.d.only(s.u)
		return 0
	}
	return 6
}

func (s set) Batch(e tensor.Exec, index []int64) (x, y *tensor.Tensor, err error) {
	s.u.same = tensor.Shape{len(index), 3}
	switch s.where {
	case "inputs":
		x, err = s.d.tensor(s.u)
		return x, s.u.fresh(), err
	case "targets":
		y, err = s.d.tensor(s.u)
		return s.u.fresh(), y, err
	}
	return s.u.fresh(), s.u.fresh(), nil
}

func (u *user) load(d *deed, where string) error {
	u.g, u.same = u.graph(), tensor.Shape{2, 2}
	l := data.NewLoader(u.dev, set{u, d, where}, 2, data.WithAllocator(u.alloc), data.Shuffle(tensor.NewGenerator(1)))
	for x, y := range l.Batches() {
		if where == "loop" {
			u.lent = []*tensor.Tensor{x, y}
			u.x = u.g.Input(x)
			if err := d.only(u); err != nil {
				return err
			}
		}
		if err := u.g.Input(x, autograd.RequiresGrad()).Sum(nil, false).Backward(); err != nil {
			return err
		}
	}
	_ = l.Len()
	return l.Err()
}

// stepper is an optimizer of the user's.
type stepper struct {
	u    *user
	step func() error
}

func (s *stepper) Parameters() []*autograd.Parameter { return []*autograd.Parameter{s.u.w} }
func (s *stepper) Step() error                       { return s.step() }

// lowMemory makes a request for which the allocator asks its device, and which fails if oom.
func (u *user) lowMemory(d *deed, oom bool) error {
	u.g, u.same = u.graph(), tensor.Shape{2}
	a := u.alloc.(*memory.Caching)
	var err error
	once := false
	call := func() {
		if !once {
			once = true
			err = d.only(u)
		}
	}
	bytes := uint64(30 << 20)
	if oom {
		a.OnOOM(func(*memory.OOMError) { call() })
		bytes = 1 << 60
	} else {
		a.OnLowMemory(func() bool { call(); return true })
	}
	b, failed := a.Alloc(bytes, u.dev.DefaultStream())
	if failed != nil {
		return failed
	}
	if failed := a.Free(b); failed != nil {
		return failed
	}
	return err
}

// part is a section of the user's.
type part struct {
	u  *user
	d  *deed
	at string
}

func (p part) does(at string) error {
	if p.at != at {
		return nil
	}
	return p.d.only(p.u)
}

func (p part) Save() (checkpoint.Content, error) {
	c := checkpoint.Content{JSON: []byte("1"), Tensors: map[string]*tensor.Tensor{"t": p.u.input}}
	if p.at == "Save" {
		t, err := p.d.tensor(p.u)
		p.u.mine = append(p.u.mine, t)
		c.Tensors["u"] = t
		return c, err
	}
	return c, nil
}

func (p part) Prepare(c checkpoint.Content) (checkpoint.Change, error) {
	for _, t := range c.Tensors {
		p.u.lent = append(p.u.lent, t)
	}
	if err := p.does("Prepare"); err != nil {
		return checkpoint.Change{}, err
	}
	return checkpoint.Change{
		Apply: func() error {
			if p.at == "Undo" {
				return errUser
			}
			return p.does("Apply")
		},
		Undo:  func() error { return p.does("Undo") },
		Close: func() { _ = p.does("Close") },
	}, nil
}

// section writes and reads a checkpoint with a model before and after the section of the user's.
func (u *user) section(d *deed, at string) error {
	u.g, u.same = u.graph(), tensor.Shape{2}
	var step int
	model := nn.Linear(3, 2)
	defer model.Release()
	if err := model.To(u.dev, nn.WithAllocator(u.alloc), nn.Seed(1)); err != nil {
		return err
	}
	opt := optim.Adam(model.Parameters(), optim.LR(0.1))
	defer opt.Release()
	g := u.graph()
	defer g.Release()
	if err := model.Forward(g.Input(u.input)).Sum(nil, false).Backward(); err != nil {
		return err
	}
	if err := opt.Step(); err != nil {
		return err
	}
	c := checkpoint.New().Add("model", checkpoint.Module(model)).Add("opt", checkpoint.Optimizer(opt)).Add("part", part{u, d, at}).
		Add("step", checkpoint.Value(&step))
	defer func() {
		for _, t := range u.mine {
			t.Release()
		}
	}()
	var file bytes.Buffer
	if err := c.Write(context.Background(), &file); err != nil {
		return err
	}
	return c.Read(context.Background(), &file)
}
