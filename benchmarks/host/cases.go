package main

import (
	"context"
	"strings"

	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// workload is one call that is measured. Other kinds of work are more lists in cases; each has its case of the same name in torch_host.py.
type workload struct {
	name     string
	elements int // 0 if the figure is per call
	start    func(s *scene) (func() error, error)
}

// whole reports whether a call is a whole step, or a token of decoding: its memory is measured too.
func (w workload) whole() bool {
	return strings.HasPrefix(w.name, "step ") || strings.HasPrefix(w.name, "decode ")
}

const (
	elements = 1 << 18 // of an element-wise case
	columns  = 1024    // of a row
)

// cases are all workloads.
func cases() []workload {
	var all []workload
	all = append(all, functionCases()...)
	all = append(all, chainCase("chain of six", false), chainCase("chain of six on a stream", true))
	all = append(all, rowCases()...)
	all = append(all, randomCases()...)
	all = append(all, copyCases()...)
	all = append(all, conversionCases()...)
	all = append(all, reductionCases()...)
	all = append(all, typedCases()...)
	all = append(all, layerCases()...)
	all = append(all, productCases()...)
	all = append(all, convCases()...)
	all = append(all, attentionCases()...)
	return append(all, stepCases()...)
}

// gradients is what a program calls autograd for.
var gradients = tensor.Gradients(training.Key{})

type unary = func(x *tensor.Tensor) (*tensor.Tensor, error)

// functionCases are functions of elements, of numbers from -3 to 3, or from 0 to 3 where they are of positive ones.
func functionCases() []workload {
	both := map[string]unary{
		"exp": (*tensor.Tensor).Exp, "exp2": (*tensor.Tensor).Exp2, "expm1": (*tensor.Tensor).Expm1, "tanh": (*tensor.Tensor).Tanh,
		"sigmoid": (*tensor.Tensor).Sigmoid, "erf": (*tensor.Tensor).Erf, "erfc": (*tensor.Tensor).Erfc, "gelu": (*tensor.Tensor).GELU,
		"gelu tanh": (*tensor.Tensor).GELUTanh, "silu": (*tensor.Tensor).SiLU, "mish": (*tensor.Tensor).Mish, "sin": (*tensor.Tensor).Sin,
		"cos": (*tensor.Tensor).Cos, "log sigmoid": (*tensor.Tensor).LogSigmoid, "selu": (*tensor.Tensor).SELU,
		"elu":      func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.ELU(1) },
		"softplus": func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.Softplus(1, 20) },
	}
	positive := map[string]unary{
		"log": (*tensor.Tensor).Log, "log2": (*tensor.Tensor).Log2, "log10": (*tensor.Tensor).Log10, "log1p": (*tensor.Tensor).Log1p,
		"sqrt": (*tensor.Tensor).Sqrt, "rsqrt": (*tensor.Tensor).Rsqrt, "reciprocal": (*tensor.Tensor).Reciprocal,
		"pow 2.5":      func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.PowScalar(2.5) },
		"pow 3":        func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.PowScalar(3) },
		"pow a tensor": func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.Pow(x) },
	}
	var list []workload
	for _, g := range []struct {
		functions map[string]unary
		from      float64
	}{{both, -3}, {positive, 0.01}} {
		for _, name := range sorted(g.functions) {
			f := g.functions[name]
			list = append(list, workload{name, elements, func(s *scene) (func() error, error) {
				x, err := s.uniform(g.from, 3, elements)
				return func() error { return discard(f(x)) }, err
			}})
		}
	}
	return append(list, gradientCases()...)
}

// chainElements are more than the caches of most processors hold.
const chainElements = 1 << 22

// chainCase is six operations of elements behind each other, on the default stream or on one of its own, where they run as one pass over memory.
func chainCase(name string, streamed bool) workload {
	return workload{name, 6 * chainElements, func(s *scene) (func() error, error) {
		if streamed {
			stream, err := s.Stream().Device().NewStream()
			if err != nil {
				return nil, err
			}
			s.ends = append(s.ends, func() { _ = stream.Close() })
			if s.Exec, err = tensor.On(stream.Device(), tensor.WithStream(stream)); err != nil {
				return nil, err
			}
		}
		x, err := s.uniform(-1, 1, chainElements)
		return func() error { return chain(x) }, err
	}}
}

func chain(x *tensor.Tensor) error {
	y, err := x.MulScalar(1.5)
	for _, f := range []unary{
		func(y *tensor.Tensor) (*tensor.Tensor, error) { return y.Add(x) },
		func(y *tensor.Tensor) (*tensor.Tensor, error) { return y.Mul(x) },
		func(y *tensor.Tensor) (*tensor.Tensor, error) { return y.AddScalar(2) },
		(*tensor.Tensor).Sqrt,
		func(y *tensor.Tensor) (*tensor.Tensor, error) { return y.Sub(x) },
	} {
		if err != nil {
			break
		}
		before := y
		y, err = f(y)
		before.Release()
	}
	if err != nil {
		return err
	}
	defer y.Release()
	return y.Exec().Stream().Synchronize(context.Background())
}

type binary = func(g, x *tensor.Tensor) (*tensor.Tensor, error)

// gradientCases are gradients of functions of elements.
func gradientCases() []workload {
	all := map[string]binary{
		"gelu gradient": gradients.GELU, "gelu tanh gradient": gradients.GELUTanh, "silu gradient": gradients.SiLU,
		"mish gradient": gradients.Mish, "tanh gradient": gradients.Tanh, "sigmoid gradient": gradients.Sigmoid,
	}
	var list []workload
	for _, name := range sorted(all) {
		f := all[name]
		list = append(list, workload{name, elements, func(s *scene) (func() error, error) {
			x, err := s.uniform(-3, 3, elements)
			if err != nil {
				return nil, err
			}
			g, err := s.uniform(-1, 1, elements)
			return func() error { return discard(f(g, x)) }, err
		}})
	}
	return list
}

// rowCases are softmax and its kin.
func rowCases() []workload {
	var list []workload
	for name, f := range map[string]unary{
		"softmax":     func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.Softmax(1) },
		"log softmax": func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.LogSoftmax(1) },
	} {
		list = append(list, workload{name, elements, func(s *scene) (func() error, error) {
			x, err := s.uniform(-3, 3, elements/columns, columns)
			return func() error { return discard(f(x)) }, err
		}})
	}
	return list
}

// randomCases are random numbers.
func randomCases() []workload {
	g := tensor.NewGenerator(1)
	return []workload{
		{"normal", elements, func(s *scene) (func() error, error) {
			return func() error { return discard(tensor.RandN(s.Exec, g, tensor.Float32, elements)) }, nil
		}},
		{"uniform", elements, func(s *scene) (func() error, error) {
			return func() error { return discard(tensor.Rand(s.Exec, g, tensor.Float32, elements)) }, nil
		}},
	}
}
