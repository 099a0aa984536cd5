package tensor_test

import (
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// What no program calls.
var (
	gradients = tensor.Gradients(training.Key{})
	steps     = tensor.Steps(training.Key{})
)

type (
	guard     = training.Guard[*tensor.Tensor]
	tensors   = []*tensor.Tensor
	operation = func(in tensors, a args) (*tensor.Tensor, error)
)

func one(f func(*tensor.Tensor) (*tensor.Tensor, error)) operation {
	return func(in tensors, _ args) (*tensor.Tensor, error) { return f(in[0]) }
}

func two(f func(t, u *tensor.Tensor) (*tensor.Tensor, error)) operation {
	return func(in tensors, _ args) (*tensor.Tensor, error) { return f(in[0], in[1]) }
}

func three(f func(t, u, v *tensor.Tensor) (*tensor.Tensor, error)) operation {
	return func(in tensors, _ args) (*tensor.Tensor, error) { return f(in[0], in[1], in[2]) }
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

func twoAndScalar(f func(t, u *tensor.Tensor, v float64) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return f(in[0], in[1], a.float(0)) }
}

func twoAndScalars(f func(t, u *tensor.Tensor, v, w float64) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return f(in[0], in[1], a.float(0), a.float(1)) }
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

	"Add": two((*tensor.Tensor).Add), "Sub": two((*tensor.Tensor).Sub),
	"AddScaled": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].AddScaled(in[1], a.float(0)) },
	"SubScalar": scalar((*tensor.Tensor).SubScalar),
	"PowScalar": scalar((*tensor.Tensor).PowScalar), "EqScalar": scalar((*tensor.Tensor).EqScalar),
	"NeScalar": scalar((*tensor.Tensor).NeScalar), "LtScalar": scalar((*tensor.Tensor).LtScalar),
	"LeScalar": scalar((*tensor.Tensor).LeScalar), "GtScalar": scalar((*tensor.Tensor).GtScalar),
	"GeScalar": scalar((*tensor.Tensor).GeScalar), "Clamp": scalars((*tensor.Tensor).Clamp),
	"Where": func(in tensors, _ args) (*tensor.Tensor, error) { return tensor.Where(in[0], in[1], in[2]) },

	"Dropout": func(in []*tensor.Tensor, a args) (*tensor.Tensor, error) {
		return in[0].Dropout(tensor.NewGenerator(1), a[0].(float64))
	},

	// The golden files have the input of the function as what was saved; these want its output.
	"SoftmaxGrad":    gradAlong((*tensor.Tensor).Softmax, gradients.Softmax),
	"LogSoftmaxGrad": gradAlong((*tensor.Tensor).LogSoftmax, gradients.LogSoftmax),

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
	"LinearAct": func(in tensors, a args) (*tensor.Tensor, error) {
		if len(in) == 2 {
			return tensor.LinearAct(in[0], in[1], nil, tensor.Activation(a.int(0)))
		}
		return tensor.LinearAct(in[0], in[1], in[2], tensor.Activation(a.int(0)))
	},
	"LinearActPre": func(in tensors, a args) (*tensor.Tensor, error) {
		out, pre, err := gradients.LinearActPre(in[0], in[1], in[2], tensor.Activation(a.int(0)))
		if err != nil {
			return nil, err
		}
		defer out.Release()
		defer pre.Release()
		return tensor.Cat([]*tensor.Tensor{out, pre}, 0)
	},
	"AddMM": func(in tensors, a args) (*tensor.Tensor, error) {
		return tensor.AddMM(in[0], in[1], in[2], a.float(0), a.float(1))
	},
	"Softmax": dim((*tensor.Tensor).Softmax), "LogSoftmax": dim((*tensor.Tensor).LogSoftmax),
	"NLL": func(in tensors, a args) (*tensor.Tensor, error) { return tensor.NLL(in[0], in[1], int64(a.int(0))) },
	"NLLGrad": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.NLL(in[0], in[1], a.int(0), int64(a.int(1)))
	},
	"Conv1d": convolution(tensor.Conv1d), "Conv2d": convolution(tensor.Conv2d),
	"ConvTranspose1d": transposed(tensor.ConvTranspose1d), "ConvTranspose2d": transposed(tensor.ConvTranspose2d),
	"ConvGradInput": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.ConvInput(in[0], in[1], a.ints(4), conv(a))
	},
	"ConvGradWeight": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.ConvWeight(in[0], in[1], a.ints(4), conv(a))
	},
	"ConvTransposeGradInput": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.ConvTransposeInput(in[0], in[1], a.ints(4), transpose(a))
	},
	"ConvTransposeGradWeight": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.ConvTransposeWeight(in[0], in[1], a.ints(4), transpose(a))
	},
	"MaxPool1d": pooled((*tensor.Tensor).MaxPool1d), "MaxPool2d": pooled((*tensor.Tensor).MaxPool2d),
	"AvgPool1d": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].AvgPool1d(pool(a)) },
	"AvgPool2d": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].AvgPool2d(pool(a)) },
	"AdaptiveMaxPool1d": func(in tensors, a args) (*tensor.Tensor, error) {
		return firstOf(in[0].AdaptiveMaxPool1d(a.int(0)))
	},
	"AdaptiveMaxPool2d": func(in tensors, a args) (*tensor.Tensor, error) {
		return firstOf(in[0].AdaptiveMaxPool2d(a.ints(0)...))
	},
	"AdaptiveAvgPool1d": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].AdaptiveAvgPool1d(a.int(0)) },
	"AdaptiveAvgPool2d": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].AdaptiveAvgPool2d(a.ints(0)...) },
	"MaxPoolGrad": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.MaxPool(in[0], in[1], a.ints(4), a.int(3), pool(a))
	},
	"AvgPoolGrad": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.AvgPool(in[0], a.ints(4), a.int(3), pool(a))
	},
	"UpsampleNearest2d":  func(in tensors, a args) (*tensor.Tensor, error) { return in[0].UpsampleNearest2d(resized(a)) },
	"UpsampleBilinear2d": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].UpsampleBilinear2d(resized(a)) },
	"UpsampleNearest2dGrad": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.UpsampleNearest2d(in[0], a.ints(2), resized(a))
	},
	"UpsampleBilinear2dGrad": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.UpsampleBilinear2d(in[0], a.ints(2), resized(a))
	},
	"ScaledDotProductAttention": func(in tensors, a args) (*tensor.Tensor, error) {
		return tensor.ScaledDotProductAttention(in[0], in[1], in[2], attention(in[3:], a))
	},
	"AttentionGrad": attentionGrad, "AttentionGradInto": attentionGradInto,
	"CrossEntropy": func(in tensors, a args) (*tensor.Tensor, error) {
		loss, lse, weight, err := tensor.CrossEntropy(in[0], in[1], classLoss(in[2:], a))
		lse.Release()
		weight.Release()
		return loss, err
	},
	"MSELoss": two(tensor.MSELoss), "L1Loss": two(tensor.L1Loss), "BCELoss": two(tensor.BCELoss),
	"BCEWithLogitsLoss": two(tensor.BCEWithLogitsLoss),
	"SmoothL1Loss":      func(in tensors, a args) (*tensor.Tensor, error) { return tensor.SmoothL1Loss(in[0], in[1], a.float(0)) },
	"HuberLoss":         func(in tensors, a args) (*tensor.Tensor, error) { return tensor.HuberLoss(in[0], in[1], a.float(0)) },
	"KLDivLoss":         func(in tensors, a args) (*tensor.Tensor, error) { return tensor.KLDivLoss(in[0], in[1], a.bool(0)) },
	"MSELossGrad":       three(gradients.MSELoss), "L1LossGrad": three(gradients.L1Loss), "BCELossGrad": three(gradients.BCELoss),
	"BCEWithLogitsLossGrad": three(gradients.BCEWithLogitsLoss),
	"SmoothL1LossGrad": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.SmoothL1Loss(in[0], in[1], in[2], a.float(0))
	},
	"HuberLossGrad": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.HuberLoss(in[0], in[1], in[2], a.float(0))
	},
	"KLDivLossGrad": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.KLDivLoss(in[0], in[1], in[2], a.bool(0))
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

// conv and transpose are the arguments stride, padding, dilation and groups; of the transposed convolution, the third is the output
// padding.
func conv(a args) tensor.Conv {
	return tensor.Conv{Stride: []int{a.int(0)}, Padding: []int{a.int(1)}, Dilation: []int{a.int(2)}, Groups: a.int(3)}
}

func transpose(a args) tensor.ConvTranspose {
	return tensor.ConvTranspose{Stride: []int{a.int(0)}, Padding: []int{a.int(1)}, OutputPadding: []int{a.int(2)}, Groups: a.int(3)}
}

func convolution(f func(x, w, bias *tensor.Tensor, c tensor.Conv) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) {
		if len(in) == 2 {
			return f(in[0], in[1], nil, conv(a))
		}
		return f(in[0], in[1], in[2], conv(a))
	}
}

func transposed(f func(x, w, bias *tensor.Tensor, c tensor.ConvTranspose) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) {
		if len(in) == 2 {
			return f(in[0], in[1], nil, transpose(a))
		}
		return f(in[0], in[1], in[2], transpose(a))
	}
}

// pool are the arguments window, stride and padding.
func pool(a args) tensor.Pool {
	return tensor.Pool{Kernel: []int{a.int(0)}, Stride: []int{a.int(1)}, Padding: []int{a.int(2)}}
}

func pooled(f func(t *tensor.Tensor, p tensor.Pool) (out, from *tensor.Tensor, err error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return firstOf(f(in[0], pool(a))) }
}

// resized are the arguments factor and aligned corners.
func resized(a args) tensor.Upsample {
	return tensor.Upsample{Scale: []float64{a.float(0)}, AlignCorners: a.bool(1)}
}

// attention has the probability of dropout and the flags IsCausal and EnableGQA as arguments, and perhaps a mask.
func attention(mask tensors, a args) tensor.Attention {
	o := tensor.Attention{Random: tensor.GeneratorState{Seed: 7, Offset: 3}}
	if len(a) > 2 {
		o.DropoutP, o.IsCausal, o.EnableGQA = a.float(0), a.bool(1), a.bool(2)
	}
	if len(mask) > 0 {
		o.Mask = mask[0]
	}
	return o
}

// attentionGrad takes the gradient before the operands, and gives that of the mask, if it is added, else that of the keys.
func attentionGrad(in tensors, a args) (*tensor.Tensor, error) {
	if len(in) < 4 {
		in = append(in, in[0])
	}
	o := attention(in[4:], a)
	out, lse, err := gradients.AttentionForward(in[1], in[2], in[3], o)
	if err != nil {
		return nil, err
	}
	defer out.Release()
	defer lse.Release()
	g, err := gradients.Attention(in[0], in[1], in[2], in[3], out, lse, o, len(in) > 4 && in[4].DType().IsFloat())
	if err != nil {
		return nil, err
	}
	defer g.Release()
	if g.Mask != nil {
		return g.Mask.Retain(), nil
	}
	return g.K.Retain(), nil
}

// attentionGradInto gives the gradients of the operands side by side, for queries and keys of one shape.
func attentionGradInto(in tensors, a args) (*tensor.Tensor, error) {
	if len(in) < 4 {
		in = append(in, in[0])
	}
	o := attention(in[4:], a)
	out, lse, err := gradients.AttentionForward(in[1], in[2], in[3], o)
	if err != nil {
		return nil, err
	}
	defer out.Release()
	defer lse.Release()
	all, err := tensor.Empty(in[1].Exec(), in[1].DType(), append([]int{3}, in[1].Shape()...)...)
	if err != nil {
		return nil, err
	}
	var g training.Attention[*tensor.Tensor]
	defer g.Release()
	for i, to := range []**tensor.Tensor{&g.Q, &g.K, &g.V} {
		if *to, err = all.Select(0, i); err != nil {
			break
		}
	}
	if err == nil {
		err = gradients.AttentionInto(g, in[0], in[1], in[2], in[3], out, lse, o)
	}
	if err != nil {
		all.Release()
		return nil, err
	}
	return all, nil
}

// classLoss has the label smoothing as argument, and perhaps weights.
func classLoss(weights tensors, a args) tensor.ClassLoss {
	c := tensor.ClassLoss{IgnoreIndex: -100}
	if len(a) > 0 {
		c.LabelSmoothing = a.float(0)
	}
	if len(weights) > 0 {
		c.Weight = weights[0]
	}
	return c
}
