package elementwise

// activations are the functions between the layers of a network.
var activations = []Op{
	{
		Name: "Tanh", Torch: "tanh", Types: ToFloat, Autocast: "Untouched", InPlace: Tensor | Autograd,
		Does: "is the hyperbolic tangent",
		Func: Func{
			Float32: "function1(fnTanh)", Float64: "wideFunction1(fnTanhFloat64)", CUDA: "tanh(a)",
			Reference: "math.Tanh(a)", Ulps: 2, Wild: true,
		},
		Gradients: []Gradient{{
			OfOutput: true,
			Func:     Func{Go: "g * (1 - T(a*a))", Own: true, Float32: "function2(fnTanhGrad)", CUDA: "g * (1 - a * a)", Reference: "1 - a*a", Ulps: 3},
			Formula:  "g*(1-a*a)", From: -1, To: 1,
		}},
		Test: Test{From: -4, To: 4, Torch: "x.tanh()"},
	},
	{
		Name: "Sigmoid", Torch: "sigmoid", Types: ToFloat, Autocast: "Untouched", InPlace: Tensor | Autograd,
		Does: "is 1/(1+exp(-t)), without overflow",
		Func: Func{
			Float32: "function1(fnSigmoid)", Float64: "wideFunction1(fnSigmoidFloat64)", CUDA: "sigmoid(a)",
			Reference: "sigmoid(a)", Ulps: 2, Wild: true,
		},
		Gradients: []Gradient{{
			OfOutput: true,
			Func:     Func{Go: "g * a * (1 - a)", Own: true, Float32: "function2(fnSigmoidGrad)", CUDA: "g * a * (1 - a)", Reference: "a * (1 - a)", Ulps: 3},
			Formula:  "g*a*(1-a)", From: 0, To: 1,
		}},
		Test: Test{From: -4, To: 4, Torch: "x.sigmoid()"},
	},
	{
		Name: "ReLU", Torch: "relu", Types: Numeric, Autocast: "Untouched", Fused: true, InPlace: Tensor | Autograd,
		Does: "is max(t, 0), and NaN where t is", Note: "Its gradient at 0 is 0.",
		Func: Func{
			Go: "rectified(a)", Float32: "vectorOne(vector.relu, 8, relu[float32])", CUDA: "a <= 0 ? (C)0 : a",
			Reference: "max(a, 0)", Wild: true,
		},
		Gradients: []Gradient{{
			OfOutput: true, // which the next layer usually saves as well
			Func: Func{
				Go: "rectifiedGrad(g, a)", Own: true, Float32: "vectorTwo(vector.reluGrad, 8, reluGrad[float32])", CUDA: "a <= 0 ? (C)0 : g",
				Reference: "onlyIf(!(a <= 0), g)", Wild: true,
			},
			Formula: "0 where a <= 0, else g, also where a is NaN",
		}},
		Test: Test{From: -4, To: 4, Torch: "F.relu(x)"},
	},
	{
		Name: "GELU", Torch: "gelu", Types: OnlyFloats, Autocast: "Untouched", Fused: true,
		Does: "is t times the normal distribution function at t: 0.5*t*(1+erf(t/sqrt 2))",
		Func: Func{
			Go: "gelu64(a)", Float32: "function1(fnGelu)", CUDA: "a * normal_cdf(a)",
			Reference: "a * 0.5 * math.Erfc(-a/math.Sqrt2)", Scale: "a", Ulps: 4, Wild: true,
		},
		Gradients: []Gradient{{
			Func: Func{
				Go: "g * geluDerivative64(a)", Float32: "function2(fnGeluGrad)",
				CUDA: "g * gelu_slope(a)", Reference: "geluSlope(a)", Ulps: 3,
			},
			Formula: "g*(0.5*(1+erf(a/sqrt 2)) + a*exp(-a*a/2)/sqrt(2*pi))", From: -12, To: 12,
		}},
		Test: Test{From: -4, To: 4, Torch: "F.gelu(x)"},
	},
	{
		Name: "GELUTanh", Torch: "gelu_tanh", Types: OnlyFloats, Autocast: "Untouched", Fused: true,
		Does: "is the tanh approximation of GELU",
		Func: Func{
			Go: "geluTanh64(a)", Float32: "function1(fnGeluTanh)", CUDA: "a * sigmoid(gelu_argument(a))",
			Reference: "a * sigmoid(2*geluArgument(a))", Scale: "a", Ulps: 2, Wild: true,
		},
		Gradients: []Gradient{{
			Func: Func{
				Go: "g * geluTanhDerivative64(a)", Float32: "function2(fnGeluTanhGrad)",
				CUDA: "g * gelu_tanh_slope(a)", Reference: "geluTanhSlope(a)", Ulps: 3,
			},
			Formula: "g times its derivative", From: -12, To: 12,
		}},
		Test: Test{From: -4, To: 4, Torch: "F.gelu(x, approximate='tanh')"},
	},
	{
		Name: "SiLU", Torch: "silu", Types: OnlyFloats, Autocast: "Untouched",
		Does: "is t*sigmoid(t)",
		Func: Func{
			Go: "silu64(a)", Float32: "function1(fnSilu)", CUDA: "silu(a)",
			Reference: "a * sigmoid(a)", Ulps: 4, Wild: true,
		},
		Gradients: []Gradient{{
			Func: Func{
				Go: "g * siluDerivative64(a)", Float32: "function2(fnSiluGrad)",
				CUDA: "g * silu_slope(a)", Reference: "sigmoid(a) + a*sigmoidSlope(a)", Ulps: 3,
			},
			Formula: "g*(s + a*s*(1-s)) with s = sigmoid(a)", From: -30, To: 30,
		}},
		Test: Test{From: -4, To: 4, Torch: "F.silu(x)"},
	},
	{
		Name: "Softsign", Torch: "softsign", Types: ToFloat, Autocast: "Untouched",
		Does:    "is t/(1+|t|)",
		Differs: "its gradient at infinities is 0, where PyTorch's is NaN",
		Func:    Func{Go: "a / (1 + math.Abs(a))", Float32: "function1(fnSoftsign)", CUDA: "a / (1 + abs(a))", Reference: "a / (1 + math.Abs(a))", Ulps: 3},
		Gradients: []Gradient{{
			Func: Func{
				Go: "g / ((1 + math.Abs(a)) * (1 + math.Abs(a)))", Float32: "function2(fnSoftsignGrad)", CUDA: "g / ((1 + abs(a)) * (1 + abs(a)))",
				Reference: "math.Pow(1+math.Abs(a), -2)", Ulps: 3,
			},
			Formula: "g/(1+|a|)**2",
		}},
		Test: Test{From: -4, To: 4, Torch: "F.softsign(x)"},
	},
	{
		Name: "Hardswish", Torch: "hardswish", Types: OnlyFloats, Autocast: "Untouched",
		Does:    "is t*min(max(t+3, 0), 6)/6",
		Differs: "its gradient at NaN is NaN, where PyTorch's depends on the number of elements; at -3 and 3 it is 0 and 1, as in later versions of PyTorch",
		Func: Func{
			Go: "a * min(max(a+3, 0), 6) / 6", Float32: "function1(fnHardswish)", CUDA: "a * least<C>(most<C>(a + 3, 0), 6) / 6",
			Reference: "a * math.Min(math.Max(a+3, 0), 6) / 6", Ulps: 3,
		},
		Gradients: []Gradient{{
			Func: Func{
				Go: "hardswishGrad64(g, a)", Float32: "function2(fnHardswishGrad)", CUDA: "a >= 3 ? g : a <= -3 ? (C)0 : g * (a / 3 + (C)0.5)",
				Reference: "hardswishSlope(a)", Ulps: 3,
			},
			Formula: "g where a >= 3, 0 where a <= -3, else g*(a/3+0.5)",
		}},
		Test: Test{From: -5, To: 5, Torch: "F.hardswish(x)"}, // at -3 and 3 PyTorch 1.13 has other answers than later versions
	},
	{
		Name: "Hardsigmoid", Torch: "hardsigmoid", Types: OnlyFloats, Autocast: "Untouched",
		Does: "is min(max(t+3, 0), 6)/6", Note: "Its gradient is 0 at -3, at 3 and at NaN.",
		Differs: "its gradient is g/6 in float64 too, where PyTorch multiplies by 1/6 of float32",
		Func: Func{
			Go: "min(max(a+3, 0), 6) / 6", Float32: "function1(fnHardsigmoid)", CUDA: "least<C>(most<C>(a + 3, 0), 6) / 6",
			Reference: "math.Min(math.Max(a+3, 0), 6) / 6", Ulps: 3, Wild: true,
		},
		Gradients: []Gradient{{
			Func: Func{
				Go: "hardsigmoidGrad64(g, a)", Float32: "function2(fnHardsigmoidGrad)", CUDA: "a > -3 && a < 3 ? g / 6 : (C)0",
				Reference: "onlyIf(a > -3 && a < 3, g/6)", Ulps: 3, Wild: true,
			},
			Formula: "g/6 where -3 < a < 3, else 0",
		}},
		// The gradient of F.hardsigmoid has 1/6 of float32 in it, also in float64.
		Test: Test{From: -6, To: 6, Torch: "torch.where((x > -3) & (x < 3), (x + 3) / 6, F.hardsigmoid(x).detach())"},
	},
	{
		Name: "Mish", Torch: "mish", Types: OnlyFloats, Autocast: "Untouched",
		Does:    "is t*tanh(log(1+exp(t)))",
		Differs: "its gradient at infinity is g, where PyTorch multiplies infinity by 0",
		Func:    Func{Go: "mish64(a)", Float32: "function1(fnMish)", CUDA: "mish(a)", Reference: "a * math.Tanh(math.Log1p(math.Exp(a)))", Ulps: 5},
		Gradients: []Gradient{{
			Func:    Func{Go: "g * mishSlope64(a)", Float32: "function2(fnMishGrad)", CUDA: "g * mish_slope(a)", Reference: "mishSlope(a)", Ulps: 5},
			Formula: "g*(tanh(s) + a*(1-tanh(s)**2)*sigmoid(a)) with s = log(1+exp(a))",
		}},
		Test: Test{From: -6, To: 6, Torch: "F.mish(x)"},
	},
	{
		Name: "LeakyReLU", Torch: "leaky_relu", Scalars: []string{"slope"}, Types: OnlyFloats, Autocast: "Untouched",
		Does: "is t where t > 0, else slope*t", Note: "PyTorch's default slope is 0.01.",
		Func: Func{Go: "leaky(a, slope)", Float32: "function1With(fnLeakyReLU)", Own: true, CUDA: "a > 0 ? a : a * slope", Reference: "leakyGrad(a, a, slope)", Ulps: 1, Wild: true},
		Gradients: []Gradient{{
			Func: Func{
				Go: "leakyGrad(g, a, slope)", Float32: "function2With(fnLeakyReLUGrad)", Own: true, CUDA: "a > 0 ? g : g * slope",
				Reference: "leakyGrad(g, a, slope)", Ulps: 1, Wild: true,
			},
			Formula: "g where a > 0, else g*slope",
		}},
		Test: Test{Scalars: []string{"0.25"}, From: -4, To: 4, Torch: "F.leaky_relu(x, 0.25)"},
	},
	{
		Name: "Softplus", Torch: "softplus", Scalars: []string{"beta", "threshold"}, Types: OnlyFloats, Autocast: "Float32",
		Does: "is log(1+exp(beta*t))/beta, and t itself where beta*t > threshold", Note: "PyTorch's defaults are 1 and 20.",
		Func: Func{
			Go: "softplus64(a, beta, threshold)", Float32: "softplus32", CUDA: "softplus(a, beta, threshold)", Double: true,
			Reference: "softplus(a, beta, threshold)", Ulps: 2, Wild: true,
		},
		Gradients: []Gradient{{
			Func: Func{
				Go: "softplusGrad64(g, a, beta, threshold)", Float32: "softplusGrad32", CUDA: "softplus_grad(g, a, beta, threshold)", Double: true,
				Reference: "g * softplusSlope(a, beta, threshold)", Ulps: 3, Values: "moderate",
			},
			Formula: "g*sigmoid(beta*a), and g where beta*a > threshold",
		}},
		Test: Test{Scalars: []string{"2, 5", "1, 20"}, From: -4, To: 4, Torch: "F.softplus(x, 2, 5)"},
	},
	{
		Name: "ELU", Torch: "elu", Scalars: []string{"alpha"}, Types: OnlyFloats, Autocast: "Untouched",
		Does: "is t where t > 0, else alpha*(exp(t)-1)", Note: "PyTorch's default alpha is 1.",
		Differs: "floating-point types only; `elu` has `alpha` alone, and its gradient at NaN is NaN, where PyTorch passes the gradient on",
		Func: Func{
			Go: "elu64(a, alpha)", Float32: "elu32", CUDA: "a > 0 ? a : alpha * expm1(a)",
			Reference: "elu(a, alpha)", Ulps: 3, Wild: true,
		},
		Gradients: []Gradient{{
			Func: Func{
				Go: "eluGrad64(g, a, alpha)", Float32: "eluGrad32", CUDA: "a > 0 ? g : g * (alpha * exp(a))",
				Reference: "g * eluSlope(a, alpha)", Ulps: 4,
			},
			Formula: "g where a > 0, else g*alpha*exp(a)", From: -12, To: 3,
		}},
		Test: Test{Scalars: []string{"0.3", "1"}, From: -4, To: 4, Torch: "F.elu(x, 0.3)"},
	},
	{
		Name: "LogSigmoid", Torch: "log_sigmoid", Types: OnlyFloats, Autocast: "Untouched",
		Does: "is log(1/(1+exp(-t))), without overflow",
		Func: Func{
			Go: "min(a, 0) - math.Log1p(math.Exp(-math.Abs(a)))", Float32: "function1(fnLogSigmoid)", CUDA: "least<C>(a, 0) - log1p(exp(-abs(a)))",
			Reference: "math.Min(a, 0) - math.Log1p(math.Exp(-math.Abs(a)))", Ulps: 4, Wild: true,
		},
		Gradients: []Gradient{{
			Func:    Func{Go: "g * sigmoid64(-a)", Float32: "function2(fnLogSigmoidGrad)", CUDA: "g * sigmoid(-a)", Reference: "sigmoid(-a)", Ulps: 4},
			Formula: "g/(1+exp(a))",
		}},
		Test: Test{From: -4, To: 4, Torch: "F.logsigmoid(x)"},
	},
	{
		Name: "SELU", Torch: "selu", Types: OnlyFloats, Autocast: "Untouched",
		Does: "is scale*t where t > 0, else scale*alpha*(exp(t)-1), with alpha 1.6733 and scale 1.0507, which keep mean 0 and variance 1 from layer to layer",
		Func: Func{
			Go: "selu64(a)", Float32: "selu32", CUDA: "(C)1.0507009873554804934193349852946 * (a > 0 ? a : (C)1.6732632423543772848170429916717 * expm1(a))",
			Reference: "1.0507009873554804934193349852946 * elu(a, 1.6732632423543772848170429916717)", Ulps: 4, Wild: true,
		},
		Gradients: []Gradient{{
			Func: Func{
				Go: "seluGrad64(g, a)", Float32: "seluGrad32",
				CUDA:      "g * ((C)1.0507009873554804934193349852946 * (a > 0 ? (C)1 : (C)1.6732632423543772848170429916717 * exp(a)))",
				Reference: "1.0507009873554804934193349852946 * eluSlope(a, 1.6732632423543772848170429916717)", Ulps: 4,
			},
			Formula: "g*scale where a > 0, else g*scale*alpha*exp(a)", From: -12, To: 3,
		}},
		Test: Test{From: -4, To: 4, Torch: "F.selu(x)"},
	},
	{
		Name: "CELU", Torch: "celu", Scalars: []string{"alpha"}, Types: OnlyFloats, Autocast: "Untouched", ByHand: Tensor,
		Does: "is t where t > 0, else alpha*(exp(t/alpha)-1)", Note: "PyTorch's default alpha is 1; 0 is refused.",
		Func: Func{
			Go: "celu64(a, alpha)", Narrow: "celu32(a, alpha)", CUDA: "a > 0 ? a : alpha * expm1(a / alpha)",
			Reference: "celu(a, alpha)", Ulps: 4, Wild: true,
		},
		Gradients: []Gradient{{
			Func: Func{
				Go: "celuGrad64(g, a, alpha)", Narrow: "celuGrad32(g, a, alpha)", CUDA: "a > 0 ? g : g * exp(a / alpha)",
				Reference: "celuSlope(a, alpha)", Ulps: 6,
			},
			Formula: "g where a > 0, else g*exp(a/alpha)", From: -12, To: 3,
		}},
		Test: Test{Scalars: []string{"0.75", "1"}, From: -4, To: 4, Torch: "F.celu(x, 0.75)"},
	},
	{
		Name: "PReLU", Torch: "prelu", Second: "weight", Types: OnlyFloats, Autocast: "LowerPrecision",
		Does: "is t where t > 0, else weight*t", Note: "The weight is broadcast: for one number per channel of [N, C, H, W] it is [C, 1, 1].",
		Differs: "the weight is broadcast and promoted as of any operation of two tensors, where PyTorch wants one number or one for each channel",
		Func:    Func{Go: "prelu64(a, b)", Float32: "function2(fnPrelu)", CUDA: "a > 0 ? a : a * b", Reference: "leakyGrad(a, a, b)", Ulps: 1, Wild: true},
		Gradients: []Gradient{
			{Func: Func{Go: "preluGrad64(g, a, b)", Float32: "function3(fnPreluGrad)", CUDA: "a > 0 ? g : g * b", Reference: "leakyGrad(g, a, b)", Ulps: 1, Wild: true}, Formula: "g where a > 0, else g*b"},
			{Func: Func{Go: "preluGradWeight64(g, a, b)", Float32: "function3(fnPreluGradWeight)", CUDA: "a > 0 ? (C)0 : g * a", Reference: "onlyIf(!(a > 0), g*a)", Ulps: 1, Wild: true}, Formula: "0 where a > 0, else g*a"},
		},
		Test: Test{From: -4, To: 4, Torch: "torch.prelu(torch.broadcast_tensors(x, y)[0].reshape(-1, y.numel()), y.reshape(-1)).reshape(torch.broadcast_shapes(x.shape, y.shape))"},
	},
	{
		Name: "Threshold", Torch: "threshold", Scalars: []string{"edge", "value"}, Types: OnlyFloats, Autocast: "Untouched",
		Does: "is t where t > edge, else value; NaN stays NaN",
		Func: Func{Go: "thresholded(a, a, edge, value)", Float32: "function1With(fnThreshold)", Own: true, CUDA: "a <= edge ? value : a", Reference: "thresholdOf(a, edge, value)", Wild: true},
		Gradients: []Gradient{{
			Func:    Func{Go: "thresholded(g, a, edge, 0)", Float32: "function2With(fnThresholdGrad)", Own: true, CUDA: "a <= edge ? (C)0 : g", Reference: "onlyIf(!(a <= edge), g)", Wild: true},
			Formula: "0 where a <= edge, else g",
		}},
		Test: Test{Scalars: []string{"0.5, -2"}, From: -4, To: 4, Torch: "F.threshold(x, 0.5, -2)"},
	},
	{
		Name: "Hardshrink", Torch: "hardshrink", Scalars: []string{"lambda"}, Types: OnlyFloats, Autocast: "Untouched",
		Does: "is 0 where -lambda <= t <= lambda, else t", Note: "PyTorch's default lambda is 0.5.",
		Differs: "its gradient passes at NaN, as in PyTorch's kernel for few elements and for GPUs, where its vector kernel gives 0",
		Func:    Func{Go: "shrunk(a, a, lambda)", Float32: "function1With(fnHardshrink)", Own: true, CUDA: "a >= -lambda && a <= lambda ? (C)0 : a", Reference: "onlyIf(!(a >= -lambda && a <= lambda), a)", Wild: true},
		Gradients: []Gradient{{
			Func:    Func{Go: "shrunk(g, a, lambda)", Float32: "function2With(fnHardshrinkGrad)", Own: true, CUDA: "a >= -lambda && a <= lambda ? (C)0 : g", Reference: "onlyIf(!(a >= -lambda && a <= lambda), g)", Wild: true},
			Formula: "0 where -lambda <= a <= lambda, else g",
		}},
		Test: Test{Scalars: []string{"0.75"}, From: -4, To: 4, Torch: "F.hardshrink(x, 0.75)"},
	},
	{
		Name: "Softshrink", Torch: "softshrink", Scalars: []string{"lambda"}, Types: OnlyFloats, Autocast: "Untouched", ByHand: Tensor,
		Does: "is t-lambda where t > lambda, t+lambda where t < -lambda, else 0; NaN stays NaN", Note: "PyTorch's default lambda is 0.5; it must not be negative.",
		Differs: "NaN stays NaN, as in later versions of PyTorch; its gradient there is that of `Hardshrink`",
		Func: Func{
			Go: "softShrunk(a, lambda)", Float32: "function1With(fnSoftshrink)", Own: true, CUDA: "a > lambda ? a - lambda : a < -lambda ? a + lambda : a * 0",
			Reference: "softShrunk(a, lambda)", Scale: "a, lambda", Ulps: 1, Wild: true,
		},
		Gradients: []Gradient{{Rule: "softshrinkGrad", Uses: "input(0)"}},
		Test:      Test{Scalars: []string{"0.75"}, From: -4, To: 4, Torch: "F.softshrink(x, 0.75)"},
	},
	{
		// Its kernel is that of Clamp.
		Name: "Hardtanh", Torch: "hardtanh", Scalars: []string{"lo", "hi"}, Types: OnlyFloats, Autocast: "Untouched", ByHand: Tensor,
		Does: "is t brought into lo..hi", Note: "PyTorch's defaults are -1 and 1. The gradient passes between the bounds, which are excluded.",
		Differs: "floating-point types only; its gradient passes at NaN, as in PyTorch's kernel for few or strided elements, where its vector kernel gives 0; `ReLU6` is `Hardtanh`, too",
		Gradients: []Gradient{{
			Func: Func{
				Go: "betweenGrad(g, a, lo, hi)", Float32: "function2With(fnHardtanhGrad)", Own: true, CUDA: "a <= lo || a >= hi ? (C)0 : g",
				Reference: "onlyIf(!(a <= lo || a >= hi), g)", Wild: true,
			},
			Formula: "0 where a <= lo or a >= hi, else g",
		}},
		Test: Test{Scalars: []string{"-0.5, 1.25", "math.Inf(-1), 0", "0, math.Inf(1)"}, From: -4, To: 4, Torch: "F.hardtanh(x, -0.5, 1.25)"},
	},
}
