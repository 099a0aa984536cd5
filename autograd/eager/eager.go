// Package eager computes functions of variables for plain tensors, without gradients: every method of autograd.Variable, the functions of packages
// autograd and autograd/matrix, and the Forward of a layer.
//
//	y, err := eager.Of(x, (*autograd.Variable).Trace)
//	y, err := eager.Of(x, func(v *autograd.Variable) *autograd.Variable { return v.PixelShuffle(2) })
//	y, err := eager.Of2(a, b, (*autograd.Variable).Kron)
//	y, err := eager.Of(images, model.Forward)
//
// What package tensor has as a method of its own (tensor.Tensor.Add) needs no detour, and costs less as that.
//
// # Memory
//
// A call makes a graph with autograd.NoGrad, under the Exec of the first tensor, and releases it: temporaries are back in the pool when it returns, and
// the results are the caller's to release. A result that is a view of an input, or the input itself, is another handle on its memory. After an error, or
// a panic of the function, nothing is left.
package eager

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Of is f of a tensor. Options are those of the graph: autograd.WithGenerator for what draws random numbers, amp.Autocast.
func Of(t *tensor.Tensor, f func(v *autograd.Variable) *autograd.Variable, opts ...autograd.Option) (*tensor.Tensor, error) {
	if f == nil {
		return nil, without("Of")
	}
	return one("Of", []*tensor.Tensor{t}, func(in []*autograd.Variable) *autograd.Variable { return f(in[0]) }, opts)
}

// Of2 is f of two tensors.
func Of2(t, u *tensor.Tensor, f func(v, w *autograd.Variable) *autograd.Variable, opts ...autograd.Option) (*tensor.Tensor, error) {
	if f == nil {
		return nil, without("Of2")
	}
	return one("Of2", []*tensor.Tensor{t, u}, func(in []*autograd.Variable) *autograd.Variable { return f(in[0], in[1]) }, opts)
}

// Of3 is f of three tensors.
func Of3(t, u, w *tensor.Tensor, f func(a, b, c *autograd.Variable) *autograd.Variable, opts ...autograd.Option) (*tensor.Tensor, error) {
	if f == nil {
		return nil, without("Of3")
	}
	return one("Of3", []*tensor.Tensor{t, u, w}, func(in []*autograd.Variable) *autograd.Variable { return f(in[0], in[1], in[2]) }, opts)
}

func one(op string, ts []*tensor.Tensor, f func(in []*autograd.Variable) *autograd.Variable, opts []autograd.Option) (*tensor.Tensor, error) {
	out, err := call(op, ts, func(in []*autograd.Variable) []*autograd.Variable { return []*autograd.Variable{f(in)} }, opts)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// All is f of any number of tensors, at least one, with any number of results:
//
//	out, err := eager.All([]*tensor.Tensor{x}, func(v []*autograd.Variable) []*autograd.Variable {
//		u, s, vh := matrix.SVD(v[0])
//		return []*autograd.Variable{u, s, vh}
//	})
func All(ts []*tensor.Tensor, f func(in []*autograd.Variable) []*autograd.Variable, opts ...autograd.Option) ([]*tensor.Tensor, error) {
	if f == nil {
		return nil, without("All")
	}
	return call("All", ts, f, opts)
}

func without(op string) error {
	return &tensor.ValueError{Op: "eager." + op, Detail: "the function is nil"}
}

func call(op string, ts []*tensor.Tensor, f func(in []*autograd.Variable) []*autograd.Variable, opts []autograd.Option) ([]*tensor.Tensor, error) {
	if len(ts) == 0 {
		return nil, &tensor.ValueError{Op: "eager." + op, Detail: "there are no tensors, of which one says the device"}
	}
	for _, t := range ts {
		if t.Released() {
			return nil, &tensor.ReleasedError{Op: "eager." + op, Nil: t == nil}
		}
	}
	e := ts[0].Exec()
	usual := []autograd.Option{autograd.WithStream(e.Stream()), autograd.WithAllocator(e.Allocator())}
	g := autograd.NewGraph(e.Device(), append(append(usual, opts...), autograd.NoGrad())...)
	defer g.Release()
	in := make([]*autograd.Variable, len(ts))
	for i, t := range ts {
		in[i] = g.Input(t)
	}
	return kept(op, g, f(in))
}

// kept are the values of variables, which stay when the graph is released.
func kept(op string, g *autograd.Graph, vs []*autograd.Variable) ([]*tensor.Tensor, error) {
	err := g.Err()
	out := make([]*tensor.Tensor, len(vs))
	for i, v := range vs {
		if err != nil {
			break
		}
		if v == nil {
			err = &tensor.ValueError{Op: "eager." + op, Detail: fmt.Sprintf("result %d of the function is nil", i)}
			break
		}
		if v.Graph() != g {
			err = fmt.Errorf("%w: %w", autograd.ErrOtherGraph, &tensor.ValueError{Op: "eager." + op,
				Detail: fmt.Sprintf("result %d of the function is of another graph than its arguments", i)})
			break
		}
		var t *tensor.Tensor
		if t, err = v.Tensor(); err == nil {
			out[i] = t.Retain()
		}
	}
	if err == nil {
		return out, nil
	}
	for _, t := range out {
		t.Release()
	}
	return nil, err
}
