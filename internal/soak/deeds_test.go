package soak

import (
	"errors"
	"runtime"
	"slices"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// user is what a function of the user's can reach when the library calls it.
type user struct {
	*world
	g      *autograd.Graph      // under way, nil where there is none
	x      *autograd.Variable   // of g
	loss   func() error         // goes backward in g
	lent   []*tensor.Tensor     // what it was given
	vars   []*autograd.Variable // likewise
	same   tensor.Shape         // what a good result is like
	called bool
	mine   []*tensor.Tensor // what it has to release itself
}

// deed is what a function does. Its result is a tensor where tensors are wanted, a variable where variables are.
type deed struct {
	name string
	do   func(u *user) (*tensor.Tensor, error)
	v    func(u *user) *autograd.Variable // instead of do, where a variable is wanted; nil is do's tensor in a variable
}

var errUser = errors.New("the user's")

// panicked is what the functions of the user's panic with.
const panicked = "the user's panic"

// fresh is a good result.
func (u *user) fresh() *tensor.Tensor { return u.make(u.exec, tensor.Float32, u.same...) }

func (u *user) make(e tensor.Exec, dt tensor.DType, shape ...int) *tensor.Tensor {
	if e == u.exec && u.g != nil {
		e = u.g.Exec() // without the safety net
	}
	t, err := tensor.Ones(e, dt, shape...)
	if err != nil {
		panic(err)
	}
	return t
}

// releaseLent releases what belongs to others, twice.
func (u *user) releaseLent() {
	for range 2 {
		for _, t := range u.lent {
			t.Release()
		}
		for _, v := range u.vars {
			if t, err := v.Tensor(); err == nil {
				t.Release()
			}
			v.Release()
		}
	}
}

// returning is a deed whose result says it all.
func returning(name string, t func(u *user) *tensor.Tensor) deed {
	return deed{name: name, do: func(u *user) (*tensor.Tensor, error) { return t(u), nil }}
}

// doing is a deed that returns a good result after f.
func doing(name string, f func(u *user)) deed {
	return returning(name, func(u *user) *tensor.Tensor { f(u); return u.fresh() })
}

var deeds = []deed{
	doing("nothing wrong", func(*user) {}),
	doing("panics", func(u *user) { panic(panicked) }),
	doing("ends its goroutine", func(u *user) { runtime.Goexit() }),
	doing("releases what was lent", (*user).releaseLent),
	returning("nil", func(*user) *tensor.Tensor { return nil }),
	returning("a zero tensor", func(*user) *tensor.Tensor { return new(tensor.Tensor) }),
	returning("another shape", func(u *user) *tensor.Tensor { return u.make(u.exec, tensor.Float32, 5, 7, 11) }),
	returning("another type", func(u *user) *tensor.Tensor { return u.make(u.exec, tensor.Int64, u.same...) }),
	returning("another device", func(u *user) *tensor.Tensor { return u.make(u.far, tensor.Float32, u.same...) }),
	returning("a released tensor", func(u *user) *tensor.Tensor { t := u.fresh(); t.Release(); return t }),
	returning("what was lent", func(u *user) *tensor.Tensor {
		if len(u.lent) == 0 {
			return u.fresh()
		}
		return u.lent[0]
	}),
	{name: "an error and a tensor", do: func(u *user) (*tensor.Tensor, error) { return u.fresh(), errUser },
		v: func(u *user) *autograd.Variable { u.g.Fail(errUser); return u.x }},
	{name: "an error", do: func(u *user) (*tensor.Tensor, error) { return nil, errUser },
		v: func(u *user) *autograd.Variable { u.g.Fail(errUser); return nil }},
	{name: "a variable of another graph", do: func(u *user) (*tensor.Tensor, error) { return u.fresh(), nil },
		v: func(u *user) *autograd.Variable {
			u.other.Release()
			u.other = u.graph()
			return u.other.Input(u.input)
		}},
	doing("keeps variables", func(u *user) { u.kept = append(append(u.kept, u.vars...), u.x) }),
	doing("goes backward", func(u *user) {
		if u.loss != nil {
			_ = u.loss()
		}
	}),
	doing("goes backward through what it makes", func(u *user) {
		if u.x != nil {
			_ = u.x.Mul(u.x).Sum(nil, false).Backward()
		}
	}),
	doing("releases the graph", func(u *user) { u.g.Release() }),
	doing("releases the graph and panics", func(u *user) { u.g.Release(); panic(panicked) }),
	doing("makes a scope and releases the graph in it", func(u *user) {
		u.g.Scope(func() *autograd.Variable { u.g.Release(); return u.x })
	}),
	doing("releases the parameter", func(u *user) { u.w.Release() }),
	doing("works on another goroutine", func(u *user) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			if u.g != nil {
				u.g.Input(u.input).Exp().Release()
			}
			u.fresh().Release()
		}()
		<-done
	}),
	doing("takes its time", func(*user) { runtime.GC(); runtime.GC() }),
	doing("runs the memory out", func(u *user) {
		if _, err := tensor.Ones(u.exec, tensor.Float32, 1<<24, 1<<20); err == nil {
			panic("there was memory")
		}
	}),
}

// tensor does d where a tensor is wanted.
func (d *deed) tensor(u *user) (*tensor.Tensor, error) {
	u.called = true
	return d.do(u)
}

// only does d where there is no result but an error.
func (d *deed) only(u *user) error {
	t, err := d.tensor(u)
	t.Release()
	return err
}

// variable does d where a variable is wanted.
func (d *deed) variable(u *user) *autograd.Variable {
	if d.v != nil {
		u.called = true
		return d.v(u)
	}
	t, err := d.tensor(u)
	switch {
	case err != nil:
		u.g.Fail(err)
		return u.x
	case t == nil:
		return nil
	case slices.Contains(u.lent, t):
		return u.x
	}
	taken := false
	defer func() {
		if !taken { // by a graph that was released, or that has failed
			t.Release()
		}
	}()
	return u.g.New(func(tensor.Exec) (*tensor.Tensor, error) { taken = true; return t, nil }).Add(u.x.Mean(nil, false))
}
