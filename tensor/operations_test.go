package tensor_test

import (
	"github.com/cistern-ml/cistern/tensor"
	"github.com/cistern-ml/cistern/tensor/dtype"
)

type (
	tensors   = []*tensor.Tensor
	operation = func(in tensors, a args) (*tensor.Tensor, error)
)

func one(f func(*tensor.Tensor) (*tensor.Tensor, error)) operation {
	return func(in tensors, _ args) (*tensor.Tensor, error) { return f(in[0]) }
}

func two(f func(t, u *tensor.Tensor) (*tensor.Tensor, error)) operation {
	return func(in tensors, _ args) (*tensor.Tensor, error) { return f(in[0], in[1]) }
}

func shaped(f func(*tensor.Tensor, ...int) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return f(in[0], a.ints(0)...) }
}

func dim(f func(*tensor.Tensor, int) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return f(in[0], a.int(0)) }
}

func dims(f func(t *tensor.Tensor, i, j int) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return f(in[0], a.int(0), a.int(1)) }
}

func scalar(f func(*tensor.Tensor, float64) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return f(in[0], a.float(0)) }
}

func scalars(f func(*tensor.Tensor, float64, float64) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return f(in[0], a.float(0), a.float(1)) }
}

func reduction(f func(*tensor.Tensor, []int, bool) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return f(in[0], a.ints(1), a.bool(0)) }
}

func spread(f func(*tensor.Tensor, []int, int, bool) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return f(in[0], a.ints(2), a.int(0), a.bool(1)) }
}

func arg(f func(*tensor.Tensor, int, bool) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return f(in[0], a.int(0), a.bool(1)) }
}

func joined(f func([]*tensor.Tensor, int) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return f(in, a.int(0)) }
}

// inPlace applies a change to a clone of the first input.
func inPlace(f func(t *tensor.Tensor, in tensors, a args) error) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) {
		t, err := in[0].Clone()
		if err != nil {
			return nil, err
		}
		if err := f(t, in, a); err != nil {
			t.Release()
			return nil, err
		}
		return t, nil
	}
}

// isView names the operations that move no elements.
var isView = map[string]bool{
	"View": true, "Transpose": true, "Permute": true, "Slice": true, "Narrow": true, "Select": true, "Squeeze": true,
	"Unsqueeze": true, "Expand": true, "Reshape": true, "Flatten": true, "T": true,
}

// operations are all functions of tensors, by name, with their arguments as a list. The golden files, the fault injection
// and the metamorphic test walk it; TestOperations_AreAllTested compares it with the package.
var operations = map[string]operation{
	"View": shaped((*tensor.Tensor).View), "Reshape": shaped((*tensor.Tensor).Reshape),
	"Expand": shaped((*tensor.Tensor).Expand), "BroadcastTo": shaped((*tensor.Tensor).BroadcastTo),
	"Permute": shaped((*tensor.Tensor).Permute), "Squeeze": shaped((*tensor.Tensor).Squeeze),
	"SumTo": shaped((*tensor.Tensor).SumTo), "Unsqueeze": dim((*tensor.Tensor).Unsqueeze),
	"Flatten": dims((*tensor.Tensor).Flatten), "Transpose": dims((*tensor.Tensor).Transpose),
	"Select": dims((*tensor.Tensor).Select), "T": one((*tensor.Tensor).T),
	"Slice": func(in tensors, a args) (*tensor.Tensor, error) {
		return in[0].Slice(a.int(0), a.int(1), a.int(2), a.int(3))
	},
	"Narrow": func(in tensors, a args) (*tensor.Tensor, error) {
		return in[0].Narrow(a.int(0), a.int(1), a.int(2))
	},
	"Contiguous": one((*tensor.Tensor).Contiguous), "Clone": one((*tensor.Tensor).Clone),
	"To": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].To(dtype.All()[a.int(0)]) },
	"ToDevice": func(in tensors, _ args) (*tensor.Tensor, error) {
		if in[0] == nil {
			return in[0].ToDevice(tensor.Exec{})
		}
		return in[0].ToDevice(in[0].Exec())
	},

	"Add": two((*tensor.Tensor).Add), "Sub": two((*tensor.Tensor).Sub), "Mul": two((*tensor.Tensor).Mul),
	"Div": two((*tensor.Tensor).Div), "Pow": two((*tensor.Tensor).Pow), "Maximum": two((*tensor.Tensor).Maximum),
	"Minimum": two((*tensor.Tensor).Minimum), "Eq": two((*tensor.Tensor).Eq), "Ne": two((*tensor.Tensor).Ne),
	"Lt": two((*tensor.Tensor).Lt), "Le": two((*tensor.Tensor).Le), "Gt": two((*tensor.Tensor).Gt),
	"Ge": two((*tensor.Tensor).Ge), "And": two((*tensor.Tensor).And), "Or": two((*tensor.Tensor).Or),
	"AddScaled": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].AddScaled(in[1], a.float(0)) },
	"AddScalar": scalar((*tensor.Tensor).AddScalar), "SubScalar": scalar((*tensor.Tensor).SubScalar),
	"MulScalar": scalar((*tensor.Tensor).MulScalar), "DivScalar": scalar((*tensor.Tensor).DivScalar),
	"PowScalar": scalar((*tensor.Tensor).PowScalar), "EqScalar": scalar((*tensor.Tensor).EqScalar),
	"NeScalar": scalar((*tensor.Tensor).NeScalar), "LtScalar": scalar((*tensor.Tensor).LtScalar),
	"LeScalar": scalar((*tensor.Tensor).LeScalar), "GtScalar": scalar((*tensor.Tensor).GtScalar),
	"GeScalar": scalar((*tensor.Tensor).GeScalar), "Clamp": scalars((*tensor.Tensor).Clamp),
	"Where": func(in tensors, _ args) (*tensor.Tensor, error) { return tensor.Where(in[0], in[1], in[2]) },
	"Not":   one((*tensor.Tensor).Not),

	"Neg": one((*tensor.Tensor).Neg), "Abs": one((*tensor.Tensor).Abs), "Sign": one((*tensor.Tensor).Sign),
	"Exp": one((*tensor.Tensor).Exp), "Log": one((*tensor.Tensor).Log), "Sqrt": one((*tensor.Tensor).Sqrt),
	"Rsqrt": one((*tensor.Tensor).Rsqrt), "Reciprocal": one((*tensor.Tensor).Reciprocal), "Sin": one((*tensor.Tensor).Sin),
	"Cos": one((*tensor.Tensor).Cos), "Tanh": one((*tensor.Tensor).Tanh), "Sigmoid": one((*tensor.Tensor).Sigmoid),
	"ReLU": one((*tensor.Tensor).ReLU), "GELU": one((*tensor.Tensor).GELU), "GELUTanh": one((*tensor.Tensor).GELUTanh),
	"SiLU": one((*tensor.Tensor).SiLU), "LeakyReLU": scalar((*tensor.Tensor).LeakyReLU),
	"Softplus": scalars((*tensor.Tensor).Softplus),

	// The golden files have the input of the function as what was saved; these want its output.
	"ReLUGrad":    gradOfOutput((*tensor.Tensor).ReLU, (*tensor.Tensor).ReLUGrad),
	"TanhGrad":    gradOfOutput((*tensor.Tensor).Tanh, (*tensor.Tensor).TanhGrad),
	"SigmoidGrad": gradOfOutput((*tensor.Tensor).Sigmoid, (*tensor.Tensor).SigmoidGrad),
	"GELUGrad":    two((*tensor.Tensor).GELUGrad), "GELUTanhGrad": two((*tensor.Tensor).GELUTanhGrad),
	"SiLUGrad": two((*tensor.Tensor).SiLUGrad),
	"LeakyReLUGrad": func(in tensors, a args) (*tensor.Tensor, error) {
		return in[0].LeakyReLUGrad(in[1], a.float(0))
	},
	"SoftplusGrad": func(in tensors, a args) (*tensor.Tensor, error) {
		return in[0].SoftplusGrad(in[1], a.float(0), a.float(1))
	},
	"SoftmaxGrad":    gradAlong((*tensor.Tensor).Softmax, tensor.SoftmaxGrad),
	"LogSoftmaxGrad": gradAlong((*tensor.Tensor).LogSoftmax, tensor.LogSoftmaxGrad),

	"Sum": reduction((*tensor.Tensor).Sum), "Mean": reduction((*tensor.Tensor).Mean),
	"Max": reduction((*tensor.Tensor).Max), "Min": reduction((*tensor.Tensor).Min),
	"Any": reduction((*tensor.Tensor).Any), "All": reduction((*tensor.Tensor).All),
	"Prod": func(in tensors, a args) (*tensor.Tensor, error) {
		if len(a) == 0 {
			return in[0].Prod(nil, false)
		}
		return in[0].Prod(a.ints(1), a.bool(0))
	},
	"Var": spread((*tensor.Tensor).Var), "Std": spread((*tensor.Tensor).Std),
	"ArgMax": arg((*tensor.Tensor).ArgMax), "ArgMin": arg((*tensor.Tensor).ArgMin),

	"MatMul": two((*tensor.Tensor).MatMul),
	"Linear": func(in tensors, _ args) (*tensor.Tensor, error) {
		if len(in) == 2 {
			return tensor.Linear(in[0], in[1], nil)
		}
		return tensor.Linear(in[0], in[1], in[2])
	},
	"AddMM": func(in tensors, a args) (*tensor.Tensor, error) {
		return tensor.AddMM(in[0], in[1], in[2], a.float(0), a.float(1))
	},
	"Softmax": dim((*tensor.Tensor).Softmax), "LogSoftmax": dim((*tensor.Tensor).LogSoftmax),
	"NLL": func(in tensors, a args) (*tensor.Tensor, error) { return tensor.NLL(in[0], in[1], int64(a.int(0))) },
	"NLLGrad": func(in tensors, a args) (*tensor.Tensor, error) {
		return tensor.NLLGrad(in[0], in[1], a.int(0), int64(a.int(1)))
	},
	"Cat": joined(tensor.Cat), "Stack": joined(tensor.Stack),
	"IndexSelect": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].IndexSelect(a.int(0), in[1]) },
	"IndexAdd": inPlace(func(t *tensor.Tensor, in tensors, a args) error {
		return t.IndexAdd(a.int(0), in[1], in[2])
	}),
	"FillInPlace":      inPlace(func(t *tensor.Tensor, _ tensors, a args) error { return t.FillInPlace(a.float(0)) }),
	"ZeroInPlace":      inPlace(func(t *tensor.Tensor, _ tensors, _ args) error { return t.ZeroInPlace() }),
	"CopyFrom":         inPlace(func(t *tensor.Tensor, in tensors, _ args) error { return t.CopyFrom(in[1]) }),
	"AddInPlace":       inPlace(func(t *tensor.Tensor, in tensors, a args) error { return t.AddInPlace(in[1], a.float(0)) }),
	"MulScalarInPlace": inPlace(func(t *tensor.Tensor, _ tensors, a args) error { return t.MulScalarInPlace(a.float(0)) }),
}

func gradOfOutput(
	f func(*tensor.Tensor) (*tensor.Tensor, error), g func(t, u *tensor.Tensor) (*tensor.Tensor, error),
) operation {
	return func(in tensors, _ args) (*tensor.Tensor, error) {
		out, err := f(in[1])
		if err != nil {
			return nil, err
		}
		defer out.Release()
		return g(in[0], out)
	}
}

func gradAlong(
	f func(*tensor.Tensor, int) (*tensor.Tensor, error), g func(t, u *tensor.Tensor, dim int) (*tensor.Tensor, error),
) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) {
		out, err := f(in[1], a.int(0))
		if err != nil {
			return nil, err
		}
		defer out.Release()
		return g(in[0], out, a.int(0))
	}
}
