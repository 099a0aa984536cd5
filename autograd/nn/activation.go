package nn

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/excerpt"
)

// FuncModule is a module without parameters: a function.
type FuncModule struct {
	Base
	text string
	f    func(x *autograd.Variable) *autograd.Variable

	// linear, if set, is a Linear and this function in one pass; see SequentialModule.
	linear func(x, weight, bias *autograd.Variable) *autograd.Variable
}

// afterLinear sets linear.
func (m *FuncModule) afterLinear(f func(x, weight, bias *autograd.Variable) *autograd.Variable) *FuncModule {
	m.linear = f
	return m
}

// Func makes a module of a function. text is what String returns. Without a function Forward is an *ArgumentError.
func Func(text string, f func(x *autograd.Variable) *autograd.Variable) *FuncModule {
	return &FuncModule{Base: Base{listed: true}, text: text, f: f}
}

// Forward implements Layer.
func (m *FuncModule) Forward(x *autograd.Variable) *autograd.Variable {
	return within(m, x, func(g *autograd.Graph) *autograd.Variable {
		if m.f == nil {
			return g.Refuse("forward", argumentErr("Func", "%q has no function", excerpt.Of(m.text)), x)
		}
		return m.f(x)
	})
}

// String is PyTorch's description.
func (m *FuncModule) String() string {
	if m == nil {
		return "nil"
	}
	return m.text
}

// Identity returns its input.
func Identity() *FuncModule {
	return Func("Identity()", func(x *autograd.Variable) *autograd.Variable { return x })
}

// Flatten joins all dimensions but the first, the batch; or those from the first of dims to the second, which is the last one unless it is given.
func Flatten(dims ...int) *FuncModule {
	start, end := 1, -1
	if len(dims) > 0 {
		start = dims[0]
	}
	if len(dims) > 1 {
		end = dims[1]
	}
	m := Func(fmt.Sprintf("Flatten(start_dim=%d, end_dim=%d)", start, end), func(x *autograd.Variable) *autograd.Variable { return x.Flatten(start, end) })
	if len(dims) > 2 {
		m.mistaken(argumentErr("Flatten", "%s; there are a first and a last one", dimensions(len(dims))))
	}
	return m
}

// ReLU is max(x, 0).
func ReLU() *FuncModule {
	return Func("ReLU()", (*autograd.Variable).ReLU).afterLinear((*autograd.Variable).LinearReLU)
}

// LeakyReLU is x where x > 0, else slope*x. PyTorch's default slope is 0.01.
func LeakyReLU(slope float64) *FuncModule {
	return Func(fmt.Sprintf("LeakyReLU(negative_slope=%v)", slope),
		func(x *autograd.Variable) *autograd.Variable { return x.LeakyReLU(slope) })
}

// Sigmoid is 1/(1+exp(-x)).
func Sigmoid() *FuncModule { return Func("Sigmoid()", (*autograd.Variable).Sigmoid) }

// Tanh is the hyperbolic tangent.
func Tanh() *FuncModule { return Func("Tanh()", (*autograd.Variable).Tanh) }

// GELU is x times the normal distribution function at x.
func GELU() *FuncModule {
	return Func("GELU(approximate='none')", (*autograd.Variable).GELU).afterLinear((*autograd.Variable).LinearGELU)
}

// GELUTanh is the tanh approximation of GELU.
func GELUTanh() *FuncModule {
	return Func("GELU(approximate='tanh')", (*autograd.Variable).GELUTanh).afterLinear((*autograd.Variable).LinearGELUTanh)
}

// SiLU is x*sigmoid(x).
func SiLU() *FuncModule { return Func("SiLU()", (*autograd.Variable).SiLU) }

// Mish is x*tanh(log(1+exp(x))).
func Mish() *FuncModule { return Func("Mish()", (*autograd.Variable).Mish) }

// Hardsigmoid is min(max(x+3, 0), 6)/6.
func Hardsigmoid() *FuncModule { return Func("Hardsigmoid()", (*autograd.Variable).Hardsigmoid) }

// Hardswish is x*min(max(x+3, 0), 6)/6.
func Hardswish() *FuncModule { return Func("Hardswish()", (*autograd.Variable).Hardswish) }

// Softsign is x/(1+|x|).
func Softsign() *FuncModule { return Func("Softsign()", (*autograd.Variable).Softsign) }

// Softplus is log(1+exp(beta*x))/beta, and x itself where beta*x > threshold. PyTorch's defaults are 1 and 20.
func Softplus(beta, threshold float64) *FuncModule {
	return Func(fmt.Sprintf("Softplus(beta=%v, threshold=%v)", beta, threshold),
		func(x *autograd.Variable) *autograd.Variable { return x.Softplus(beta, threshold) })
}

// LogSigmoid is log(1/(1+exp(-x))).
func LogSigmoid() *FuncModule { return Func("LogSigmoid()", (*autograd.Variable).LogSigmoid) }

// SELU is ELU with the alpha and the scale that keep mean 0 and variance 1 from layer to layer.
func SELU() *FuncModule { return Func("SELU()", (*autograd.Variable).SELU) }

// ELU is x where x > 0, else alpha*(exp(x)-1). PyTorch's default alpha is 1.
func ELU(alpha float64) *FuncModule {
	return Func(fmt.Sprintf("ELU(alpha=%v)", alpha), func(x *autograd.Variable) *autograd.Variable { return x.ELU(alpha) })
}

// CELU is x where x > 0, else alpha*(exp(x/alpha)-1). PyTorch's default alpha is 1.
func CELU(alpha float64) *FuncModule {
	return Func(fmt.Sprintf("CELU(alpha=%v)", alpha), func(x *autograd.Variable) *autograd.Variable { return x.CELU(alpha) })
}

// ReLU6 is x brought into 0..6.
func ReLU6() *FuncModule { return Func("ReLU6()", (*autograd.Variable).ReLU6) }

// Hardtanh is x brought into lo..hi. PyTorch's defaults are -1 and 1.
func Hardtanh(lo, hi float64) *FuncModule {
	return Func(fmt.Sprintf("Hardtanh(min_val=%v, max_val=%v)", lo, hi), func(x *autograd.Variable) *autograd.Variable { return x.Hardtanh(lo, hi) })
}

// Threshold is x where x > edge, else value.
func Threshold(edge, value float64) *FuncModule {
	return Func(fmt.Sprintf("Threshold(threshold=%v, value=%v)", edge, value),
		func(x *autograd.Variable) *autograd.Variable { return x.Threshold(edge, value) })
}

// Hardshrink is 0 where -lambda <= x <= lambda, else x. PyTorch's default lambda is 0.5.
func Hardshrink(lambda float64) *FuncModule {
	return Func(fmt.Sprintf("Hardshrink(%v)", lambda), func(x *autograd.Variable) *autograd.Variable { return x.Hardshrink(lambda) })
}

// Softshrink brings x nearer to 0 by lambda, and to 0 if it is no farther. PyTorch's default lambda is 0.5.
func Softshrink(lambda float64) *FuncModule {
	return Func(fmt.Sprintf("Softshrink(%v)", lambda), func(x *autograd.Variable) *autograd.Variable { return x.Softshrink(lambda) })
}

// Tanhshrink is x - tanh(x).
func Tanhshrink() *FuncModule {
	return Func("Tanhshrink()", func(x *autograd.Variable) *autograd.Variable { return x.Sub(x.Tanh()) })
}

// Softmax is the softmax along dim.
func Softmax(dim int) *FuncModule {
	return Func(fmt.Sprintf("Softmax(dim=%d)", dim), func(x *autograd.Variable) *autograd.Variable { return x.Softmax(dim) })
}

// Softmax2d is the softmax over the channels of [N, C, H, W] or [C, H, W].
func Softmax2d() *FuncModule {
	return Func("Softmax2d()", func(x *autograd.Variable) *autograd.Variable { return x.Softmax(-3) })
}

// LogSoftmax is the logarithm of the softmax along dim.
func LogSoftmax(dim int) *FuncModule {
	return Func(fmt.Sprintf("LogSoftmax(dim=%d)", dim), func(x *autograd.Variable) *autograd.Variable { return x.LogSoftmax(dim) })
}
