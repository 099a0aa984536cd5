package autograd_test

import (
	"errors"
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// misuse is what a program does wrong in a function that the package calls. It returns the error that it got, and may panic with
// errMisuse.
type misuse func(m *mistake) error

// mistake is where it happens.
type mistake struct {
	r      *rig
	g      *autograd.Graph
	x      *autograd.Variable // a leaf of g
	other  *autograd.Graph
	kept   []*tensor.Tensor
	keptV  []*autograd.Variable
	weight *autograd.Parameter
}

var errMisuse = errors.New("misuse")

// errAny stands for an error of any type.
var errAny = errors.New("any")

// hookOf is a backward pass whose gradient passes f.
func hookOf(f autograd.Hook) misuse {
	return func(m *mistake) error {
		y := m.x.Exp()
		y.RegisterHook(f)
		return y.Mul(m.g.Param(m.weight)).Sum(nil, false).Backward()
	}
}

// in is a function of its own in a graph, and backward through it.
func in(forward func(m *mistake, c *autograd.Context, in []*tensor.Tensor) (*tensor.Tensor, error),
	backward func(m *mistake, c *autograd.Context, grad *tensor.Tensor) ([]*tensor.Tensor, error),
) misuse {
	return func(m *mistake) error {
		f := &autograd.Function[*mistake]{
			Name: "wrong",
			Forward: func(c *autograd.Context, m *mistake, in []*tensor.Tensor) (*tensor.Tensor, error) {
				if forward == nil {
					y := must(in[0].Exp())
					c.Save(y)
					return y, nil
				}
				return forward(m, c, in)
			},
			Backward: func(c *autograd.Context, m *mistake, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
				if backward == nil {
					return []*tensor.Tensor{grad}, nil
				}
				return backward(m, c, grad)
			},
		}
		return f.Apply(m, m.x.MulScalar(2)).Sum(nil, false).Backward()
	}
}

func forwards(f func(m *mistake, c *autograd.Context, in []*tensor.Tensor) (*tensor.Tensor, error)) misuse {
	return in(f, nil)
}

func backwards(f func(m *mistake, c *autograd.Context, grad *tensor.Tensor) ([]*tensor.Tensor, error)) misuse {
	return in(nil, f)
}

func checkpoints(f func(m *mistake, in []*autograd.Variable) *autograd.Variable) misuse {
	return func(m *mistake) error {
		return autograd.Checkpoint(func(in []*autograd.Variable) *autograd.Variable { return f(m, in) }, m.x.MulScalar(2)).Sum(nil, false).Backward()
	}
}

// packer is hooks of saved tensors made of functions.
type packer struct {
	pack    func(t *tensor.Tensor) error
	unpack  func(e tensor.Exec, t *tensor.Tensor) (*tensor.Tensor, error)
	release func()
}

type packedTensor struct {
	p *packer
	t *tensor.Tensor
}

func (p *packer) Pack(t *tensor.Tensor, _ bool) (autograd.Packed, error) {
	if p.pack != nil {
		if err := p.pack(t); err != nil {
			return nil, err
		}
	}
	return &packedTensor{p, t.Retain()}, nil
}

func (p *packedTensor) Unpack(e tensor.Exec) (*tensor.Tensor, error) {
	if p.p.unpack != nil {
		return p.p.unpack(e, p.t)
	}
	return p.t.Retain(), nil
}

func (p *packedTensor) Release() {
	p.t.Release()
	if p.p.release != nil {
		p.p.release()
	}
}

func saves(make func(m *mistake) *packer) misuse {
	return func(m *mistake) error {
		y := m.g.SavedTensors(make(m), func() *autograd.Variable { return m.x.Exp().Tanh().Exp() })
		return y.Sum(nil, false).Backward()
	}
}

// misuses are wrong programs, with what comes of them: an error that matches, errMisuse for the panic, or nil where no harm is done.
var misuses = map[string]struct {
	do   misuse
	want error
}{
	"hook panics": {hookOf(func(*tensor.Tensor) (*tensor.Tensor, error) { panic(errMisuse) }), errMisuse},
	"hook releases its argument": {hookOf(func(grad *tensor.Tensor) (*tensor.Tensor, error) {
		grad.Release()
		grad.Release()
		return nil, nil
	}), nil},
	"hook returns a released tensor": {hookOf(func(grad *tensor.Tensor) (*tensor.Tensor, error) {
		t := must(grad.Neg())
		t.Release()
		return t, nil
	}), tensor.ErrReleased},
	"hook returns another shape": {hookOf(func(grad *tensor.Tensor) (*tensor.Tensor, error) { return grad.Sum(nil, false) }), errAny},
	"hook returns another type":  {hookOf(func(grad *tensor.Tensor) (*tensor.Tensor, error) { return grad.To(tensor.Float32) }), errAny},
	"hook fails with a tensor": {hookOf(func(grad *tensor.Tensor) (*tensor.Tensor, error) {
		return must(grad.Neg()), errMisuse
	}), errMisuse},
	"hook releases the graph": {func(m *mistake) error {
		y := m.x.Exp()
		y.RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) { m.g.Release(); return nil, nil })
		return y.Sum(nil, false).Backward()
	}, autograd.ErrReleased},
	"hook of a leaf releases the graph": {func(m *mistake) error {
		m.x.RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) { m.g.Release(); return nil, nil })
		return m.x.Exp().Sum(nil, false).Backward()
	}, autograd.ErrReleased},
	"hook goes backward": {func(m *mistake) error {
		y := m.x.Exp()
		loss := y.Sum(nil, false)
		y.RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) { return nil, loss.Backward() })
		return loss.Backward()
	}, autograd.ErrReentrant},
	"hook goes backward in another graph": {func(m *mistake) error {
		y := m.x.Exp()
		y.RegisterHook(func(grad *tensor.Tensor) (*tensor.Tensor, error) {
			return nil, m.other.Input(grad, autograd.RequiresGrad()).Exp().Sum(nil, false).Backward()
		})
		return y.Sum(nil, false).Backward()
	}, nil},
	"hook keeps its argument": {func(m *mistake) error {
		y := m.x.Exp()
		y.RegisterHook(func(grad *tensor.Tensor) (*tensor.Tensor, error) { m.kept = append(m.kept, grad); return nil, nil })
		return y.Sum(nil, false).Backward()
	}, nil},
	"hook works on another goroutine": {func(m *mistake) error {
		y := m.x.Exp()
		y.RegisterHook(func(grad *tensor.Tensor) (u *tensor.Tensor, err error) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				u, err = grad.MulScalar(2)
			}()
			<-done
			return u, err
		})
		return y.Sum(nil, false).Backward()
	}, nil},
	"hook ends its goroutine": {func(m *mistake) error {
		y := m.x.Exp()
		y.RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) { runtime.Goexit(); return nil, nil })
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = y.Sum(nil, false).Backward()
		}()
		<-done
		return m.g.Err()
	}, autograd.ErrPanicked},
	"hook removes itself and others": {func(m *mistake) error {
		y := m.x.Exp()
		var handles []*autograd.HookHandle
		for range 3 {
			handles = append(handles, y.RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) {
				for _, h := range handles {
					h.Remove()
				}
				return nil, nil
			}))
		}
		return y.Sum(nil, false).Backward()
	}, nil},
	"hook of a parameter releases the parameter": {func(m *mistake) error {
		m.weight.RegisterPostAccumulateGradHook(func(p *autograd.Parameter) error { p.Release(); return nil })
		return m.x.Mul(m.g.Param(m.weight)).Exp().Sum(nil, false).Backward()
	}, nil},
	"hook of a parameter panics": {func(m *mistake) error {
		m.weight.RegisterPostAccumulateGradHook(func(*autograd.Parameter) error { panic(errMisuse) })
		return m.x.Mul(m.g.Param(m.weight)).Exp().Sum(nil, false).Backward()
	}, errMisuse},
	"hook of one of two gradients that come at once panics": {func(m *mistake) error {
		bias := autograd.NewParameter("bias", must(m.weight.Tensor().Clone()))
		defer bias.Release()
		y := m.x.LayerNorm(m.x.Shape(), m.g.Param(m.weight), m.g.Param(bias), 1e-5)
		m.weight.RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) { panic(errMisuse) })
		return y.Sum(nil, false).Backward()
	}, errMisuse},
	"hook of a parameter takes the graph's gradient": {func(m *mistake) error {
		m.weight.RegisterHook(func(grad *tensor.Tensor) (*tensor.Tensor, error) { return nil, m.weight.SetGrad(grad) })
		return m.x.Mul(m.g.Param(m.weight)).Exp().Sum(nil, false).Backward()
	}, nil},

	"forward panics": {forwards(func(_ *mistake, c *autograd.Context, in []*tensor.Tensor) (*tensor.Tensor, error) {
		c.Save(must(in[0].Exp()))
		panic(errMisuse)
	}), errMisuse},
	"forward returns nil": {forwards(func(*mistake, *autograd.Context, []*tensor.Tensor) (*tensor.Tensor, error) { return nil, nil }), tensor.ErrReleased},
	"forward releases its input": {forwards(func(_ *mistake, _ *autograd.Context, in []*tensor.Tensor) (*tensor.Tensor, error) {
		y, err := in[0].Exp()
		in[0].Release()
		return y, err
	}), nil},
	"forward returns its input after releasing it": {forwards(func(_ *mistake, _ *autograd.Context, in []*tensor.Tensor) (*tensor.Tensor, error) {
		in[0].Release()
		return in[0], nil
	}), tensor.ErrReleased},
	"forward saves one tensor twice": {in(func(_ *mistake, c *autograd.Context, in []*tensor.Tensor) (*tensor.Tensor, error) {
		t := must(in[0].Neg())
		c.Save(t, in[0], t, nil, in[0])
		return in[0].Exp()
	}, func(_ *mistake, c *autograd.Context, _ *tensor.Tensor) ([]*tensor.Tensor, error) {
		dx, err := c.Saved(0).Add(c.Saved(2))
		return []*tensor.Tensor{dx}, err
	}), nil},
	"forward releases what it saved": {forwards(func(_ *mistake, c *autograd.Context, in []*tensor.Tensor) (*tensor.Tensor, error) {
		t := must(in[0].Neg())
		c.Save(t)
		t.Release()
		return in[0].Exp()
	}), tensor.ErrReleased},
	"forward releases the graph": {forwards(func(m *mistake, _ *autograd.Context, in []*tensor.Tensor) (*tensor.Tensor, error) {
		m.g.Release()
		return in[0].Exp()
	}), autograd.ErrReleased},
	"forward keeps its context": {in(func(_ *mistake, c *autograd.Context, in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].Exp() },
		func(_ *mistake, c *autograd.Context, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
			c.Save(must(grad.Neg())) // too late
			dx, err := grad.Mul(c.Saved(3))
			return []*tensor.Tensor{dx}, err
		}), tensor.ErrReleased},
	"backward panics":       {backwards(func(*mistake, *autograd.Context, *tensor.Tensor) ([]*tensor.Tensor, error) { panic(errMisuse) }), errMisuse},
	"backward returns none": {backwards(func(*mistake, *autograd.Context, *tensor.Tensor) ([]*tensor.Tensor, error) { return nil, nil }), errAny},
	"backward returns too many": {backwards(func(_ *mistake, _ *autograd.Context, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
		return []*tensor.Tensor{grad, grad, must(grad.Neg())}, nil
	}), errAny},
	"backward returns another shape": {backwards(func(_ *mistake, _ *autograd.Context, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
		return []*tensor.Tensor{must(grad.Sum(nil, false))}, nil
	}), errAny},
	"backward returns what was saved": {backwards(func(_ *mistake, c *autograd.Context, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
		return []*tensor.Tensor{c.Saved(0)}, nil
	}), nil},
	"backward releases all that it sees": {backwards(func(_ *mistake, c *autograd.Context, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
		dx := must(grad.Mul(c.Saved(0)))
		c.Saved(0).Release()
		grad.Release()
		return []*tensor.Tensor{dx}, nil
	}), nil},
	"backward releases the graph": {backwards(func(m *mistake, _ *autograd.Context, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
		m.g.Release()
		return []*tensor.Tensor{grad}, nil
	}), autograd.ErrReleased},
	"backward goes backward": {backwards(func(m *mistake, _ *autograd.Context, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
		return []*tensor.Tensor{grad}, m.x.Exp().Sum(nil, false).Backward()
	}), autograd.ErrReentrant},

	"checkpoint panics":      {checkpoints(func(*mistake, []*autograd.Variable) *autograd.Variable { panic(errMisuse) }), errMisuse},
	"checkpoint returns nil": {checkpoints(func(*mistake, []*autograd.Variable) *autograd.Variable { return nil }), autograd.ErrNilVariable},
	"checkpoint panics the second time": {checkpoints(func(m *mistake, in []*autograd.Variable) *autograd.Variable {
		if m.keptV = append(m.keptV, in[0]); len(m.keptV) > 1 {
			panic(errMisuse)
		}
		return in[0].Exp()
	}), errMisuse},
	"checkpoint returns another shape the second time": {checkpoints(func(m *mistake, in []*autograd.Variable) *autograd.Variable {
		if m.keptV = append(m.keptV, in[0]); len(m.keptV) > 1 {
			return in[0].Sum(nil, false)
		}
		return in[0].Exp()
	}), errAny},
	"checkpoint uses a variable of the graph around": {checkpoints(func(m *mistake, in []*autograd.Variable) *autograd.Variable {
		return in[0].Mul(m.x)
	}), autograd.ErrOtherGraph},
	"checkpoint returns a variable of the graph around": {checkpoints(func(m *mistake, _ []*autograd.Variable) *autograd.Variable {
		return m.x.Exp()
	}), autograd.ErrOtherGraph},
	"checkpoint releases its graph": {checkpoints(func(_ *mistake, in []*autograd.Variable) *autograd.Variable {
		y := in[0].Exp()
		in[0].Graph().Release()
		return y
	}), autograd.ErrReleased},
	"checkpoint releases the graph around": {checkpoints(func(m *mistake, in []*autograd.Variable) *autograd.Variable {
		m.g.Release()
		return in[0].Exp()
	}), autograd.ErrReleased},
	"checkpoint keeps its variables": {checkpoints(func(m *mistake, in []*autograd.Variable) *autograd.Variable {
		m.keptV = append(m.keptV, in[0])
		return in[0].Exp()
	}), nil},
	"checkpoint goes backward": {checkpoints(func(_ *mistake, in []*autograd.Variable) *autograd.Variable {
		y := in[0].Exp()
		_ = y.Sum(nil, false).Backward(autograd.RetainGraph()) // an error the first time, where nothing is recorded
		return y
	}), nil},

	"pack panics": {saves(func(*mistake) *packer {
		return &packer{pack: func(*tensor.Tensor) error { panic(errMisuse) }}
	}), errMisuse},
	"pack fails the second time": {saves(func(m *mistake) *packer {
		return &packer{pack: func(t *tensor.Tensor) error {
			if m.kept = append(m.kept, t); len(m.kept) > 1 {
				return errMisuse
			}
			return nil
		}}
	}), errMisuse},
	"pack releases the tensor": {saves(func(*mistake) *packer {
		return &packer{pack: func(t *tensor.Tensor) error { t.Release(); return nil }}
	}), tensor.ErrReleased},
	"unpack panics": {saves(func(*mistake) *packer {
		return &packer{unpack: func(tensor.Exec, *tensor.Tensor) (*tensor.Tensor, error) { panic(errMisuse) }}
	}), errMisuse},
	"unpack returns nil": {saves(func(*mistake) *packer {
		return &packer{unpack: func(tensor.Exec, *tensor.Tensor) (*tensor.Tensor, error) { return nil, nil }}
	}), tensor.ErrReleased},
	"unpack returns another shape": {saves(func(*mistake) *packer {
		return &packer{unpack: func(e tensor.Exec, _ *tensor.Tensor) (*tensor.Tensor, error) {
			return tensor.Zeros(e, tensor.Float64, 3, 3)
		}}
	}), errAny},
	"unpack returns what is packed": {saves(func(*mistake) *packer {
		return &packer{unpack: func(_ tensor.Exec, t *tensor.Tensor) (*tensor.Tensor, error) { return t, nil }}
	}), nil},
	"releasing a packed tensor panics": {saves(func(*mistake) *packer { return &packer{release: func() { panic(errMisuse) }} }), errMisuse},

	"scope panics": {func(m *mistake) error {
		m.g.Scope(func() *autograd.Variable { m.x.Exp(); panic(errMisuse) })
		return nil
	}, errMisuse},
	"memo panics": {func(m *mistake) error {
		m.g.Memo("k", func() *autograd.Variable { m.x.Exp(); panic(errMisuse) })
		return nil
	}, errMisuse},
	"nograd panics": {func(m *mistake) error {
		m.g.NoGrad(func() *autograd.Variable { m.x.Exp(); panic(errMisuse) })
		return nil
	}, errMisuse},
	"scope returns a variable of another graph": {func(m *mistake) error {
		y := m.g.Scope(func() *autograd.Variable { return m.other.Input(m.kept0(), autograd.RequiresGrad()).Exp() })
		return m.x.Mul(y).Sum(nil, false).Backward()
	}, autograd.ErrOtherGraph},
	"new panics": {func(m *mistake) error {
		m.g.New(func(e tensor.Exec) (*tensor.Tensor, error) {
			must(tensor.Zeros(e, tensor.Float64, 4))
			panic(errMisuse)
		})
		return nil
	}, errMisuse},
	"new returns a tensor of the graph": {func(m *mistake) error {
		y := m.g.New(func(tensor.Exec) (*tensor.Tensor, error) { return m.x.Tensor() })
		return m.x.Mul(y).Sum(nil, false).Backward()
	}, nil},
	"caster panics": {func(m *mistake) error {
		m.g.SetCaster(casterFunc(func(string, vars) (vars, error) { panic(errMisuse) }))
		m.x.Exp()
		return nil
	}, errMisuse},
	"caster returns variables of another graph": {func(m *mistake) error {
		m.g.SetCaster(casterFunc(func(_ string, in vars) (vars, error) { return vars{m.other.Input(m.kept0())}, nil }))
		return m.x.Exp().Sum(nil, false).Backward()
	}, autograd.ErrOtherGraph},
	"caster returns nothing": {func(m *mistake) error {
		m.g.SetCaster(casterFunc(func(string, vars) (vars, error) { return nil, nil }))
		return m.x.Exp().Sum(nil, false).Backward()
	}, errAny},
}

// kept0 is a tensor of the user's.
func (m *mistake) kept0() *tensor.Tensor { return m.weight.Tensor() }

// attempt runs a misuse and returns its error or the error that it panicked with.
func (m *mistake) attempt(do misuse) (err error) {
	defer func() {
		if p := recover(); p != nil {
			failed, ok := p.(error)
			require.True(m.r.t, ok, "a panic of another's: %v", p)
			require.ErrorIs(m.r.t, failed, errMisuse)
			err = failed
		}
	}()
	return do(m)
}

//go:noinline
func (r *rig) misuse(do misuse, want error) {
	m := &mistake{r: r, g: r.graph(), other: r.graph()}
	m.weight = autograd.NewParameter("w", must(tensor.Ones(r.exec, tensor.Float64, 2, 2)))
	x := must(tensor.Ones(r.exec, tensor.Float64, 2, 2))
	m.x = m.g.Input(x, autograd.RequiresGrad())
	x.Release()
	err := m.attempt(do)
	switch want {
	case errAny:
		require.Error(r.t, err)
	case nil:
		require.NoError(r.t, err)
	default:
		require.ErrorIs(r.t, err, want)
	}
	func() {
		defer func() { _ = recover() }() // of what a Packed does when the graph releases it
		m.g.Release()
	}()
	m.g.Release()
	m.other.Release()
	m.weight.Release()
	for _, t := range m.kept {
		require.True(r.t, t.Released(), "a borrowed handle that was kept")
		_, err := t.Neg()
		require.ErrorIs(r.t, err, tensor.ErrReleased)
	}
	for _, v := range m.keptV {
		_, err := v.Tensor()
		require.ErrorIs(r.t, err, autograd.ErrReleased)
	}
}

func TestMisuse_IsAnErrorOrThePanicAndLosesNothing(t *testing.T) {
	for name, c := range misuses {
		t.Run(name, func(t *testing.T) {
			r := onHost(t)
			r.misuse(c.do, c.want)
			r.settled(0)
			g := r.graph() // everything else goes on
			defer g.Release()
			x := g.Input(r.tensor([]float64{0, math.Ln2}), autograd.RequiresGrad())
			require.NoError(t, x.Exp().Sum(nil, false).Backward())
			require.InDeltaSlice(t, []float64{1, 2}, values(t, x.Grad()), 1e-15)
		})
	}
}
