package main

import (
	"fmt"

	"github.com/cistern-ml/cistern/tensor"
)

// shapes is the shapes of a case's tensors; nary is a call on them.
type (
	shapes = [][]int
	nary   = func(x []*tensor.Tensor) error
)

// shaped is a case on tensors of numbers from -1 to 1.
func shaped(name string, elements int, of shapes, f nary) workload {
	return workload{name, elements, func(s *scene) (func() error, error) {
		x, err := s.all(of)
		return func() error { return f(x) }, err
	}}
}

func (s *scene) all(of shapes) (x []*tensor.Tensor, err error) {
	for _, shape := range of {
		t, err := s.uniform(-1, 1, shape...)
		if err != nil {
			return nil, err
		}
		x = append(x, t)
	}
	return x, nil
}

// keep lets go of a tensor when the case ends.
func (s *scene) keep(x *tensor.Tensor, err error) (*tensor.Tensor, error) {
	s.kept = append(s.kept, x)
	return x, err
}

func discardAll(err error, all ...*tensor.Tensor) error {
	for _, x := range all {
		x.Release()
	}
	return err
}

// viewed is a case that calls f on a view of the first tensor.
func viewed(name string, elements int, of shapes, view unary, f func(v *tensor.Tensor, x []*tensor.Tensor) error) workload {
	return workload{name, elements, func(s *scene) (func() error, error) {
		x, err := s.all(of)
		if err != nil {
			return nil, err
		}
		v, err := s.keep(view(x[0]))
		return func() error { return f(v, x[1:]) }, err
	}}
}

const side = 1024

var square = []int{side, side}

// copyCases are copies of views, and operations on broadcast operands.
func copyCases() []workload {
	packed := func(v *tensor.Tensor, _ []*tensor.Tensor) error { return discard(v.Contiguous()) }
	cloned := func(v *tensor.Tensor, _ []*tensor.Tensor) error { return discard(v.Clone()) }
	permuted := func(dims ...int) unary {
		return func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.Permute(dims...) }
	}
	add := func(x []*tensor.Tensor) error { return discard(x[0].Add(x[1])) }
	image := shapes{{16, 64, 32, 32}}
	return []workload{
		viewed("transposed copy", side*side, shapes{square}, permuted(1, 0), packed),
		viewed("permuted copy 0231", side*side, image, permuted(0, 2, 3, 1), packed),
		viewed("permuted copy 0312", side*side, shapes{{16, 32, 32, 64}}, permuted(0, 3, 1, 2), packed),
		viewed("permuted copy 0213", side*side, image, permuted(0, 2, 1, 3), packed),
		viewed("narrow copy", side*side/2, shapes{square},
			func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.Narrow(1, 100, side/2) }, packed),
		viewed("copy", side*side, shapes{square}, permuted(0, 1), cloned),
		viewed("transposed sum", side*side, shapes{square, square}, permuted(1, 0),
			func(v *tensor.Tensor, x []*tensor.Tensor) error { return discard(x[0].Add(v)) }),
		shaped("cat rows", side*side, shapes{{512, side}, {512, side}},
			func(x []*tensor.Tensor) error { return discard(tensor.Cat(x, 0)) }),
		shaped("cat columns", side*side, shapes{{side, 512}, {side, 512}},
			func(x []*tensor.Tensor) error { return discard(tensor.Cat(x, 1)) }),
		shaped("sum", side*side, shapes{square, square}, add),
		shaped("row broadcast", side*side, shapes{square, {1, side}}, add),
		shaped("column broadcast", side*side, shapes{square, {side, 1}}, add),
		shaped("channel broadcast", side*side, shapes{{16, 64, 32, 32}, {64, 1, 1}}, add),
	}
}

// conversionCases are conversions between float32 and half precision.
func conversionCases() []workload {
	var list []workload
	for _, d := range []struct {
		name string
		t    tensor.DType
	}{{"bfloat16", tensor.BFloat16}, {"float16", tensor.Float16}} {
		narrow := func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.To(d.t) }
		list = append(list,
			shaped("to "+d.name, side*side, shapes{square}, func(x []*tensor.Tensor) error { return discard(narrow(x[0])) }),
			viewed("from "+d.name, side*side, shapes{square}, narrow,
				func(v *tensor.Tensor, _ []*tensor.Tensor) error { return discard(v.To(tensor.Float32)) }))
	}
	return list
}

// reductionCases are reductions along each dimension, running sums, sorting and choosing.
func reductionCases() []workload {
	var list []workload
	for _, r := range []struct {
		name string
		dims []int
	}{{"all", nil}, {"rows", []int{1}}, {"columns", []int{0}}} {
		for name, f := range map[string]func(x *tensor.Tensor, dims []int, keep bool) (*tensor.Tensor, error){
			"sum of ": (*tensor.Tensor).Sum, "max of ": (*tensor.Tensor).Max, "mean of ": (*tensor.Tensor).Mean,
		} {
			list = append(list, shaped(name+r.name, side*side, shapes{square},
				func(x []*tensor.Tensor) error { return discard(f(x[0], r.dims, false)) }))
		}
	}
	two := func(a, b *tensor.Tensor, err error) error { return discardAll(err, a, b) }
	for d, along := range []string{"columns", "rows"} {
		list = append(list,
			shaped("argmax of "+along, side*side, shapes{square}, func(x []*tensor.Tensor) error { return discard(x[0].ArgMax(d, false)) }),
			shaped("cumsum of "+along, side*side, shapes{square}, func(x []*tensor.Tensor) error { return discard(x[0].CumSum(d)) }))
	}
	for _, n := range []int{64, 1024, 4096} {
		list = append(list, shaped(fmt.Sprintf("sort %d", n), 1<<16, shapes{{1 << 16 / n, n}},
			func(x []*tensor.Tensor) error { return two(x[0].Sort(1, false)) }))
	}
	return append(list, shaped("topk 50 of 4096", 1<<16, shapes{{16, 4096}},
		func(x []*tensor.Tensor) error { return two(x[0].TopK(50, 1, true)) }))
}
