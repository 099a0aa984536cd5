package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/tensor"
)

// smallRows of columns numbers fill half of a second-level cache: what costs is the loop, and some microseconds for the call.
const smallRows = 32

// typed is a case on tensors of 32x1024 numbers. of says what they are, in words that torch_host.py has too: a type, and the range of numbers.
func typed(name, of string, f nary) workload {
	return workload{name, smallRows * columns, func(s *scene) (func() error, error) {
		var x []*tensor.Tensor
		for _, words := range strings.Split(of, ", ") {
			t, err := s.operand(words)
			if err != nil {
				return nil, err
			}
			x = append(x, t)
		}
		return func() error { return f(x) }, nil
	}}
}

// operand is a tensor of a type and a range: "float32 -3 3". Integers are below the end of theirs, and bools have none.
func (s *scene) operand(words string) (*tensor.Tensor, error) {
	var name string
	var low, high float64
	if n, err := fmt.Sscan(words, &name, &low, &high); n == 0 || n == 1 && name != "bool" {
		return nil, fmt.Errorf("%q is no operand: %w", words, err)
	}
	gen := tensor.NewGenerator(1)
	all := dtype.All()
	switch t := all[slices.IndexFunc(all, func(d tensor.DType) bool { return d.String() == name })]; {
	case t == tensor.Bool:
		return s.keep(tensor.Bernoulli(s.Exec, gen, 0.5, t, smallRows, columns))
	case t.IsFloat():
		return s.keep(tensor.Uniform(s.Exec, gen, low, high, t, smallRows, columns))
	default:
		return s.keep(tensor.RandInt(s.Exec, gen, int64(low), int64(high), t, smallRows, columns))
	}
}

// typedCases are operations of elements, reductions and conversions of all types.
func typedCases() []workload {
	return slices.Concat(unaryCases(), binaryCases(), choiceCases(), slopeCases(), castCases(), foldCases(), scanCases())
}

func on1(f unary) nary { return func(x []*tensor.Tensor) error { return discard(f(x[0])) } }

func on2(f binary) nary { return func(x []*tensor.Tensor) error { return discard(f(x[0], x[1])) } }

// withNumber is f with its number.
func withNumber[N any](f func(x *tensor.Tensor, v N) (*tensor.Tensor, error), v N) unary {
	return func(x *tensor.Tensor) (*tensor.Tensor, error) { return f(x, v) }
}

func unaryCases() []workload {
	var list []workload
	for _, g := range []struct {
		of        string
		functions map[string]unary
	}{
		{"float32 -3 3", map[string]unary{
			"abs": (*tensor.Tensor).Abs, "neg": (*tensor.Tensor).Neg, "sign": (*tensor.Tensor).Sign, "floor": (*tensor.Tensor).Floor, "round": (*tensor.Tensor).Round,
			"trunc": (*tensor.Tensor).Trunc, "frac": (*tensor.Tensor).Frac, "square": (*tensor.Tensor).Square, "relu": (*tensor.Tensor).ReLU,
			"tan": (*tensor.Tensor).Tan, "atan": (*tensor.Tensor).Atan, "sinh": (*tensor.Tensor).Sinh, "cosh": (*tensor.Tensor).Cosh, "asinh": (*tensor.Tensor).Asinh,
			"lgamma": (*tensor.Tensor).Lgamma, "isnan": (*tensor.Tensor).IsNaN, "isfinite": (*tensor.Tensor).IsFinite, "softsign": (*tensor.Tensor).Softsign,
			"hardswish": (*tensor.Tensor).Hardswish, "leaky relu": withNumber((*tensor.Tensor).LeakyReLU, 0.01),
			"gt a number": withNumber((*tensor.Tensor).GtScalar, 0), "add a number": withNumber((*tensor.Tensor).AddScalar, 2),
			"mul a number": withNumber((*tensor.Tensor).MulScalar, 2), "fmod a number": withNumber((*tensor.Tensor).FmodScalar, 0.7),
			"clamp": func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.Clamp(-1, 1) },
			"clone": (*tensor.Tensor).Clone,
		}},
		{"float32 0.01 0.99", map[string]unary{
			"asin": (*tensor.Tensor).Asin, "acos": (*tensor.Tensor).Acos, "atanh": (*tensor.Tensor).Atanh, "logit": withNumber((*tensor.Tensor).Logit, -1),
			"erfinv": (*tensor.Tensor).Erfinv, "digamma": (*tensor.Tensor).Digamma,
		}},
		{"float64 0.1 3", map[string]unary{
			"float64 exp": (*tensor.Tensor).Exp, "float64 log": (*tensor.Tensor).Log, "float64 sqrt": (*tensor.Tensor).Sqrt, "float64 tanh": (*tensor.Tensor).Tanh,
			"float64 abs": (*tensor.Tensor).Abs, "float64 mul a number": withNumber((*tensor.Tensor).MulScalar, 2),
		}},
		{"int64 -9 9", map[string]unary{
			"int64 abs": (*tensor.Tensor).Abs, "int64 neg": (*tensor.Tensor).Neg, "int64 add a number": withNumber((*tensor.Tensor).AddScalar, 2),
			"int64 eq a number": withNumber((*tensor.Tensor).EqScalar, 2),
		}},
		{"bool", map[string]unary{"bool not": (*tensor.Tensor).Not}},
	} {
		for _, name := range sorted(g.functions) {
			list = append(list, typed(name, g.of, on1(g.functions[name])))
		}
	}
	fill := func(x []*tensor.Tensor) error { return x[0].FillInPlace(2) }
	return append(list, typed("fill", "float32 0 1", fill), typed("int64 fill", "int64 0 2", fill))
}

func binaryCases() []workload {
	var list []workload
	for _, g := range []struct {
		prefix, of string
		functions  map[string]binary
	}{
		{"", "float32 -3 3, float32 0.5 2", map[string]binary{
			"add": (*tensor.Tensor).Add, "mul": (*tensor.Tensor).Mul, "div": (*tensor.Tensor).Div, "maximum": (*tensor.Tensor).Maximum,
			"fmod": (*tensor.Tensor).Fmod, "remainder": (*tensor.Tensor).Remainder, "floor divide": (*tensor.Tensor).FloorDivide,
			"atan2": (*tensor.Tensor).Atan2, "logaddexp": (*tensor.Tensor).LogAddExp, "xlogy": (*tensor.Tensor).Xlogy,
			"eq": (*tensor.Tensor).Eq, "lt": (*tensor.Tensor).Lt,
		}},
		{"float64 ", "float64 -3 3, float64 0.5 2", map[string]binary{
			"add": (*tensor.Tensor).Add, "mul": (*tensor.Tensor).Mul, "div": (*tensor.Tensor).Div, "maximum": (*tensor.Tensor).Maximum, "lt": (*tensor.Tensor).Lt,
		}},
		{"int64 ", "int64 -99 99, int64 1 9", map[string]binary{
			"add": (*tensor.Tensor).Add, "mul": (*tensor.Tensor).Mul, "maximum": (*tensor.Tensor).Maximum, "fmod": (*tensor.Tensor).Fmod,
			"remainder": (*tensor.Tensor).Remainder, "floor divide": (*tensor.Tensor).FloorDivide, "eq": (*tensor.Tensor).Eq, "lt": (*tensor.Tensor).Lt,
			"bitwise and": (*tensor.Tensor).BitwiseAnd,
		}},
		{"int32 ", "int32 -99 99, int32 1 9", map[string]binary{"add": (*tensor.Tensor).Add, "mul": (*tensor.Tensor).Mul, "eq": (*tensor.Tensor).Eq}},
		{"bool ", "bool, bool", map[string]binary{"and": (*tensor.Tensor).And, "xor": (*tensor.Tensor).Xor, "eq": (*tensor.Tensor).Eq}},
	} {
		for _, name := range sorted(g.functions) {
			list = append(list, typed(g.prefix+name, g.of, on2(g.functions[name])))
		}
	}
	return list
}

// choiceCases choose between elements.
func choiceCases() []workload {
	choose := func(x []*tensor.Tensor) error { return discard(tensor.Where(x[0], x[1], x[2])) }
	return []workload{
		typed("where", "bool, float32 -1 1, float32 -1 1", choose),
		typed("int64 where", "bool, int64 0 9, int64 0 9", choose),
		typed("where a number", "bool, float32 -1 1", func(x []*tensor.Tensor) error { return discard(tensor.WhereScalar(x[0], x[1], 0)) }),
		typed("masked fill", "float32 -1 1, bool", func(x []*tensor.Tensor) error { return discard(x[0].MaskedFill(x[1], -1)) }),
		typed("lerp", "float32 -1 1, float32 -1 1, float32 0 1", func(x []*tensor.Tensor) error { return discard(x[0].Lerp(x[1], x[2])) }),
		typed("addcmul", "float32 -1 1, float32 -1 1, float32 0 1", func(x []*tensor.Tensor) error { return discard(x[0].AddCMul(x[1], x[2], 0.5)) }),
	}
}

// slopeCases are gradients: of operations of two tensors both.
func slopeCases() []workload {
	both := func(name string, f, second func(g, a, b *tensor.Tensor) (*tensor.Tensor, error)) workload {
		return typed(name, "float32 -1 1, float32 0.1 3, float32 0.5 2", func(x []*tensor.Tensor) error {
			a, err := f(x[0], x[1], x[2])
			if err != nil {
				return err
			}
			b, err := second(x[0], x[1], x[2])
			return discardAll(err, a, b)
		})
	}
	return []workload{
		both("logaddexp gradient", gradients.LogAddExp, gradients.LogAddExpU),
		both("atan2 gradient", gradients.Atan2, gradients.Atan2X),
		both("xlogy gradient", gradients.Xlogy, gradients.XlogyU),
		typed("logit gradient", "float32 -1 1, float32 0.01 0.99", func(x []*tensor.Tensor) error { return discard(gradients.Logit(x[0], x[1], -1)) }),
		typed("relu gradient", "float32 -1 1, float32 -1 1", on2(gradients.ReLU)),
	}
}

// castCases are conversions between types.
func castCases() []workload {
	var list []workload
	ranges := map[string]string{"float32": "float32 0 9", "float64": "float64 0 9", "int64": "int64 0 9", "int32": "int32 0 9", "uint8": "uint8 0 9", "bool": "bool"}
	for _, c := range []struct {
		from string
		to   tensor.DType
	}{
		{"int64", tensor.Float32}, {"float32", tensor.Int64}, {"bool", tensor.Float32}, {"float32", tensor.Bool}, {"float32", tensor.Float64}, {"float64", tensor.Float32},
		{"int32", tensor.Float32}, {"float32", tensor.Int32}, {"uint8", tensor.Float32}, {"float32", tensor.Uint8}, {"bool", tensor.Int64}, {"int64", tensor.Bool}, {"int32", tensor.Int64}, {"int64", tensor.Int32},
		{"bool", tensor.Float16},
	} {
		list = append(list, typed(fmt.Sprintf("cast %s to %s", c.from, c.to), ranges[c.from], on1(withNumber((*tensor.Tensor).To, c.to))))
	}
	return list
}

// foldCases are reductions of 32x1024 numbers, along each dimension.
func foldCases() []workload {
	type fold = func(x *tensor.Tensor, dims []int, keep bool) (*tensor.Tensor, error)
	moment := func(f func(x *tensor.Tensor, dims []int, correction int, keep bool) (*tensor.Tensor, error)) fold {
		return func(x *tensor.Tensor, dims []int, keep bool) (*tensor.Tensor, error) { return f(x, dims, 1, keep) }
	}
	norm := func(x *tensor.Tensor, dims []int, keep bool) (*tensor.Tensor, error) { return x.Norm(2, dims, keep) }
	one := func(f func(x *tensor.Tensor, dim int, keep bool) (*tensor.Tensor, error)) fold {
		return func(x *tensor.Tensor, dims []int, keep bool) (*tensor.Tensor, error) { return f(x, dims[0], keep) }
	}
	var list []workload
	for dim, along := range []string{"columns", "rows"} {
		for _, g := range []struct {
			prefix, of string
			folds      map[string]fold
		}{
			{"", "float32 0.9 1.1", map[string]fold{
				"sum": (*tensor.Tensor).Sum, "max": (*tensor.Tensor).Max, "prod": (*tensor.Tensor).Prod, "var": moment((*tensor.Tensor).Var), "std": moment((*tensor.Tensor).Std),
				"norm": norm, "logsumexp": (*tensor.Tensor).LogSumExp, "argmax": one((*tensor.Tensor).ArgMax),
			}},
			{"float64 ", "float64 -1 1", map[string]fold{"sum": (*tensor.Tensor).Sum, "max": (*tensor.Tensor).Max}},
			{"int64 ", "int64 -9 9", map[string]fold{"sum": (*tensor.Tensor).Sum, "max": (*tensor.Tensor).Max, "argmax": one((*tensor.Tensor).ArgMax)}},
			{"bool ", "bool", map[string]fold{"any": (*tensor.Tensor).Any, "all": (*tensor.Tensor).All, "sum": (*tensor.Tensor).Sum}},
		} {
			for _, name := range sorted(g.folds) {
				f := g.folds[name]
				list = append(list, typed(g.prefix+name+" of 32 "+along, g.of, func(x []*tensor.Tensor) error { return discard(f(x[0], []int{dim}, false)) }))
			}
		}
	}
	return list
}

// scanCases are running sums and products of 32x1024 numbers, along each dimension.
func scanCases() []workload {
	var list []workload
	for dim, along := range []string{"columns", "rows"} {
		list = append(list,
			typed("cumsum of 32 "+along, "float32 -1 1", on1(withNumber((*tensor.Tensor).CumSum, dim))),
			typed("cumprod of 32 "+along, "float32 0.9 1.1", on1(withNumber((*tensor.Tensor).CumProd, dim))),
			typed("int64 cumsum of 32 "+along, "int64 -9 9", on1(withNumber((*tensor.Tensor).CumSum, dim))),
			typed("float64 cumsum of 32 "+along, "float64 -1 1", on1(withNumber((*tensor.Tensor).CumSum, dim))),
			typed("bool cumsum of 32 "+along, "bool", on1(withNumber((*tensor.Tensor).CumSum, dim))))
	}
	return list
}
