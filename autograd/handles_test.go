package autograd_test

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// dropping is a program that gets handles in some way, and drops what it makes of them: drop takes a handle that stays the graph's.
type dropping func(r *rig, g *autograd.Graph, x *autograd.Variable, drop func(t *tensor.Tensor))

// derived are the ways to make a handle of one's own of another: on its memory, and on new memory.
var derived = map[string]func(t *tensor.Tensor) (*tensor.Tensor, error){
	"Retain":     func(t *tensor.Tensor) (*tensor.Tensor, error) { return t.Retain(), nil },
	"Clone":      (*tensor.Tensor).Clone,
	"Contiguous": (*tensor.Tensor).Contiguous,
	"View":       func(t *tensor.Tensor) (*tensor.Tensor, error) { return t.View(t.Len()) },
	"T":          (*tensor.Tensor).T,
	"MT":         (*tensor.Tensor).MT,
	"To":         func(t *tensor.Tensor) (*tensor.Tensor, error) { return t.To(t.DType()) },
	"Donate":     func(t *tensor.Tensor) (*tensor.Tensor, error) { return t.Donate(), nil },
	"Exp":        (*tensor.Tensor).Exp,
	"view of a result": func(t *tensor.Tensor) (*tensor.Tensor, error) {
		y, err := t.Neg()
		if err != nil {
			return nil, err
		}
		return y.T() // and y is dropped too
	},
	"Zeros under its Exec":    func(t *tensor.Tensor) (*tensor.Tensor, error) { return tensor.Zeros(t.Exec(), t.DType(), 8) },
	"ToDevice under its Exec": func(t *tensor.Tensor) (*tensor.Tensor, error) { return t.ToDevice(t.Exec()) },
}

// lenders are the ways to get a handle.
var lenders = map[string]dropping{
	"Variable.Tensor": func(_ *rig, _ *autograd.Graph, x *autograd.Variable, drop func(t *tensor.Tensor)) {
		drop(must(x.Exp().Tensor()))
	},
	"Variable.Take": func(_ *rig, _ *autograd.Graph, x *autograd.Variable, drop func(t *tensor.Tensor)) {
		drop(must(x.Exp().Take()))
	},
	"Variable.Grad": func(_ *rig, _ *autograd.Graph, x *autograd.Variable, drop func(t *tensor.Tensor)) {
		_ = x.Exp().Sum(nil, false).Backward()
		drop(x.Grad())
	},
	"Grad": func(_ *rig, _ *autograd.Graph, x *autograd.Variable, drop func(t *tensor.Tensor)) {
		drop(must(must2(autograd.Grad(vars{x.Exp().Sum(nil, false)}, vars{x}))[0].Tensor()))
	},
	"Parameter": func(r *rig, g *autograd.Graph, x *autograd.Variable, drop func(t *tensor.Tensor)) {
		p := autograd.NewParameter("p", must(tensor.Ones(r.exec, tensor.Float64, 8, 8)))
		_ = x.Mul(g.Param(p)).Sum(nil, false).Backward()
		drop(p.Tensor())
		drop(p.Grad())
	},
	"Graph.Exec": func(_ *rig, g *autograd.Graph, _ *autograd.Variable, drop func(t *tensor.Tensor)) {
		drop(must(tensor.Zeros(g.Exec(), tensor.Float64, 8, 8)))
	},
	"Graph.New": func(_ *rig, g *autograd.Graph, _ *autograd.Variable, drop func(t *tensor.Tensor)) {
		g.New(func(e tensor.Exec) (*tensor.Tensor, error) {
			t := must(tensor.Zeros(e, tensor.Float64, 8, 8))
			drop(t)
			return t, nil
		})
	},
	"Hook": func(_ *rig, _ *autograd.Graph, x *autograd.Variable, drop func(t *tensor.Tensor)) {
		y := x.Exp()
		y.RegisterHook(func(grad *tensor.Tensor) (*tensor.Tensor, error) {
			drop(grad)
			return nil, nil
		})
		_ = y.Sum(nil, false).Backward()
	},
	"hooks of parameters": func(r *rig, g *autograd.Graph, x *autograd.Variable, drop func(t *tensor.Tensor)) {
		p := autograd.NewParameter("p", must(tensor.Ones(r.exec, tensor.Float64, 8, 8)))
		p.RegisterHook(func(grad *tensor.Tensor) (*tensor.Tensor, error) {
			drop(grad)
			return grad.MulScalar(2)
		})
		p.RegisterPostAccumulateGradHook(func(p *autograd.Parameter) error {
			drop(p.Grad())
			return nil
		})
		_ = x.Mul(g.Param(p)).Sum(nil, false).Backward()
	},
	"SavedTensorHooks": func(_ *rig, g *autograd.Graph, x *autograd.Variable, drop func(t *tensor.Tensor)) {
		y := g.SavedTensors(&dropper{drop: drop}, func() *autograd.Variable { return x.Exp().Tanh() })
		_ = y.Sum(nil, false).Backward()
	},
	"Function": func(_ *rig, _ *autograd.Graph, x *autograd.Variable, drop func(t *tensor.Tensor)) {
		f := autograd.Function[struct{}]{Name: "drops",
			Forward: func(c *autograd.Context, _ struct{}, in []*tensor.Tensor) (*tensor.Tensor, error) {
				drop(in[0])
				drop(must(tensor.Zeros(c.Exec(), tensor.Float64, 8, 8)))
				y := must(in[0].Exp())
				drop(y)
				c.Save(in[0], y)
				return y, nil
			},
			Backward: func(c *autograd.Context, _ struct{}, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
				drop(grad)
				drop(c.Saved(0))
				drop(c.Saved(1))
				return []*tensor.Tensor{must(grad.Mul(c.Saved(1)))}, nil
			}}
		_ = f.Apply(struct{}{}, x).Sum(nil, false).Backward()
	},
	"Checkpoint": func(_ *rig, _ *autograd.Graph, x *autograd.Variable, drop func(t *tensor.Tensor)) {
		y := autograd.Checkpoint(func(in []*autograd.Variable) *autograd.Variable {
			z := in[0].Exp()
			drop(must(z.Tensor()))
			drop(must(in[0].Tensor()))
			drop(must(tensor.Zeros(z.Graph().Exec(), tensor.Float64, 8, 8)))
			return z
		}, x)
		_ = y.Sum(nil, false).Backward()
	},
	"Caster": func(_ *rig, g *autograd.Graph, x *autograd.Variable, drop func(t *tensor.Tensor)) {
		y := x.Exp()
		g.SetCaster(casterFunc(func(_ string, in vars) (vars, error) {
			drop(must(in[0].Tensor()))
			return in, nil
		}))
		y.Neg()
	},
}

// dropper is a hook of saved tensors that drops what it is given.
type dropper struct{ drop func(t *tensor.Tensor) }

func (d *dropper) Pack(t *tensor.Tensor, _ bool) (autograd.Packed, error) {
	d.drop(t)
	c, err := t.CopyToHost(false)
	return &dropped{d, c}, err
}

type dropped struct {
	d *dropper
	c *tensor.HostCopy
}

func (d *dropped) Unpack(e tensor.Exec) (*tensor.Tensor, error) {
	t, err := d.c.Tensor(e)
	d.d.drop(t)
	d.d.drop(must(tensor.Zeros(e, tensor.Float64, 8, 8)))
	return t, err
}

func (d *dropped) Release() { d.c.Release() }

// lose runs a program in a graph, which it releases, and returns how many handles were dropped.
//
//go:noinline
func lose(r *rig, x *tensor.Tensor, program dropping, derive func(t *tensor.Tensor) (*tensor.Tensor, error)) (lost int) {
	g := r.graph()
	defer g.Release()
	own := must(x.Clone())
	leaf := g.Input(own, autograd.RequiresGrad())
	own.Release() // so that the graph alone has it
	program(r, g, leaf, func(t *tensor.Tensor) {
		must(derive(t))
		lost++
	})
	require.NoError(r.t, g.Err())
	return lost
}

// settled waits until the garbage collector has given back all but base bytes.
func (r *rig) settled(base int64) {
	r.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); r.allocated() > base && time.Now().Before(deadline); runtime.Gosched() {
		runtime.GC()
		must(tensor.Scalar(r.exec, 0, tensor.Float64)).Release() // an allocation takes in the blocks that were queued
	}
	require.Equal(r.t, base, r.allocated(), "bytes that nobody can reach")
}

func TestSafetyNet_HoldsForEveryHandleThatAUserGets(t *testing.T) {
	for from, program := range lenders {
		for how, derive := range derived {
			t.Run(from+"/"+how, func(t *testing.T) {
				r := onHost(t)
				x := r.random(1, 8, 8)
				base := r.allocated()
				lost := lose(r, x, program, derive)
				require.NotZero(t, lost)
				require.Greater(t, r.allocated(), base, "something was dropped")
				r.settled(base)
				require.NotZero(t, r.alloc.Stats().NumDeferredFrees, "it is counted")
			})
		}
	}
}

func TestBorrowedHandles_EndWithTheirOwnerAndAreNotReleasedByOthers(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	y := g.Input(r.tensor([]float64{1, 1}), autograd.RequiresGrad()).MulScalar(1)
	lent := must(y.Tensor())
	require.Equal(t, g.Exec(), lent.Exec())
	own := lent.Retain()
	lent.Release()
	require.True(t, lent.Released())
	require.Equal(t, []float64{1, 1}, valuesOf(t, y), "it was not the caller's to release")
	again := must(y.Tensor())
	require.Equal(t, []float64{1, 1}, values(t, again))
	own.Release()
	require.True(t, again.Exclusive(), "a borrowed handle does not count")
	require.NoError(t, y.MulScalarInPlace(2).Sum(nil, false).Backward())
	g.Release()
	require.True(t, again.Released())
	_, err := again.Neg()
	require.True(t, errors.Is(err, tensor.ErrReleased))
	require.True(t, again.Retain().Released())
}
