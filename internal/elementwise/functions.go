package elementwise

// functions are those of mathematics: of one number, and of two.
var functions = []Op{
	{
		Name: "Exp", Torch: "exp", Types: ToFloat, Autocast: "Float32", InPlace: Tensor | Autograd,
		Does: "is e to the power of t",
		Func: Func{
			Float32: "function1(fnExp)", Float64: "wideFunction1(fnExpFloat64)", CUDA: "exp(a)",
			Reference: "math.Exp(a)", Ulps: 2, Wild: true,
		},
		Gradients: []Gradient{{Rule: "expGrad", Uses: "output"}},
		Test:      Test{From: -4, To: 4, Torch: "x.exp()"},
	},
	{
		Name: "Log", Torch: "log", Types: ToFloat, Autocast: "Float32",
		Does:      "is the natural logarithm",
		Func:      Func{Float32: "function1(fnLog)", Float64: "wideFunction1(fnLogFloat64)", CUDA: "log(a)", Reference: "logOf(a)", Ulps: 2, Wild: true},
		Gradients: []Gradient{{Rule: "logGrad", Uses: "input(0)"}},
		Test:      Test{From: 0.1, To: 9, Torch: "x.log()"},
	},
	{
		Name: "Sqrt", Torch: "sqrt", Types: ToFloat, Autocast: "Untouched", InPlace: Tensor,
		Does:      "is the square root",
		Func:      Func{Go: "math.Sqrt(a)", Float32: "function1(fnSqrt)", CUDA: "sqrt(a)", Reference: "math.Sqrt(a)", Ulps: 2, Wild: true},
		Gradients: []Gradient{{Rule: "sqrtGrad", Uses: "output"}},
		Test:      Test{From: 0.1, To: 9, Torch: "x.sqrt()"},
	},
	{
		Name: "Rsqrt", Torch: "rsqrt", Types: ToFloat, Autocast: "Float32",
		Does:      "is 1/sqrt(t)",
		Func:      Func{Go: "1 / math.Sqrt(a)", Float32: "function1(fnRsqrt)", CUDA: "1 / sqrt(a)", Reference: "1 / math.Sqrt(a)", Ulps: 2, Wild: true},
		Gradients: []Gradient{{Rule: "rsqrtGrad", Uses: "output"}},
		Test:      Test{From: 0.1, To: 9, Torch: "x.rsqrt()"},
	},
	{
		Name: "Reciprocal", Torch: "reciprocal", Types: ToFloat, Autocast: "Float32",
		Does:      "is 1/t",
		Func:      Func{Go: "1 / a", Own: true, Float32: "function1(fnReciprocal)", CUDA: "1 / a", Reference: "1 / a", Ulps: 2, Wild: true},
		Gradients: []Gradient{{Rule: "reciprocalGrad", Uses: "output"}},
		Test:      Test{From: 0.1, To: 9, Torch: "x.reciprocal()"},
	},
	{
		Name: "Sin", Torch: "sin", Types: ToFloat, Autocast: "Untouched",
		Does:      "is the sine of t in radians",
		Func:      Func{Go: "sin64(a)", Float32: "sine32(fnSin, sin64)", CUDA: "sine(a)", Slow: true, Reference: "math.Sin(a)", Ulps: 2},
		Gradients: []Gradient{{Rule: "sinGrad", Uses: "input(0)"}},
		Test:      Test{From: -4, To: 4, Torch: "x.sin()"},
	},
	{
		Name: "Cos", Torch: "cos", Types: ToFloat, Autocast: "Untouched",
		Does:      "is the cosine of t in radians",
		Func:      Func{Go: "cos64(a)", Float32: "sine32(fnCos, cos64)", CUDA: "cosine(a)", Slow: true, Reference: "math.Cos(a)", Ulps: 2},
		Gradients: []Gradient{{Rule: "cosGrad", Uses: "input(0)"}},
		Test:      Test{From: -4, To: 4, Torch: "x.cos()"},
	},
	{
		Name: "Log1p", Torch: "log1p", Types: ToFloat, Autocast: "Float32",
		Does:      "is log(1+t), accurate near 0",
		Func:      Func{Float32: "function1(fnLog1p)", Float64: "wideFunction1(fnLog1pFloat64)", CUDA: "log1p(a)", Reference: "math.Log1p(a)", Ulps: 2, Wild: true},
		Gradients: []Gradient{{Rule: "log1pGrad", Uses: "input(0)"}},
		Test:      Test{From: -0.5, To: 9, Torch: "x.log1p()"},
	},
	{
		Name: "Expm1", Torch: "expm1", Types: ToFloat, Autocast: "Float32",
		Does:      "is exp(t)-1, accurate near 0",
		Func:      Func{Float32: "function1(fnExpm1)", Float64: "wideFunction1(fnExpm1Float64)", CUDA: "expm1(a)", Reference: "math.Expm1(a)", Ulps: 2, Wild: true},
		Gradients: []Gradient{{Rule: "expm1Grad", Uses: "output"}},
		Test:      Test{From: -4, To: 4, Torch: "x.expm1()"},
	},
	{
		Name: "Erf", Torch: "erf", Types: ToFloat, Autocast: "Untouched",
		Does: "is the error function",
		Func: Func{Go: "math.Erf(a)", Float32: "function1(fnErf)", CUDA: "erf(a)", Reference: "math.Erf(a)", Ulps: 2, Wild: true},
		Gradients: []Gradient{{
			Func: Func{
				Go: "g * (twoOverRootPi * math.Exp(-a*a))", Float32: "function2(fnErfGrad)",
				CUDA:      "g * ((C)1.12837916709551257389615890312155 * exp(-a * a))",
				Reference: "2 / math.Sqrt(math.Pi) * math.Exp(-a*a)", Ulps: 3,
			},
			Formula: "g*2/sqrt(pi)*exp(-a*a)", From: -12, To: 12,
		}},
		Test: Test{From: -3, To: 3, Torch: "x.erf()"},
	},
	{
		Name: "Log2", Torch: "log2", Types: ToFloat, Autocast: "Float32",
		Does: "is the logarithm to base 2, exact for powers of two",
		Func: Func{Go: "log2of64(a)", Float32: "function1(fnLog2)", CUDA: "log2(a)", Slow: true, Reference: "logOf(a) / math.Ln2", Ulps: 3},
		Gradients: []Gradient{{
			Func:    Func{Go: "g / (a * math.Ln2)", Float32: "function2(fnLog2Grad)", CUDA: "g / (a * (C)0.693147180559945309417)", Reference: "1 / (a * math.Ln2)", Ulps: 3},
			Formula: "g/(a*log 2)",
		}},
		Test: Test{From: 0.1, To: 9, Torch: "x.log2()"},
	},
	{
		Name: "Log10", Torch: "log10", Types: ToFloat, Autocast: "Float32",
		Does: "is the logarithm to base 10",
		Func: Func{Go: "log64(a) / math.Ln10", Float32: "function1(fnLog10)", CUDA: "log10(a)", Slow: true, Reference: "logOf(a) / math.Ln10", Ulps: 3},
		Gradients: []Gradient{{
			Func:    Func{Go: "g / (a * math.Ln10)", Float32: "function2(fnLog10Grad)", CUDA: "g / (a * (C)2.30258509299404568402)", Reference: "1 / (a * math.Ln10)", Ulps: 3},
			Formula: "g/(a*log 10)",
		}},
		Test: Test{From: 0.1, To: 9, Torch: "x.log10()"},
	},
	{
		Name: "Exp2", Torch: "exp2", Types: ToFloat, Autocast: "Untouched",
		Does: "is 2 to the power of t",
		Func: Func{Go: "math.Exp2(a)", Float32: "function1(fnExp2)", CUDA: "exp2(a)", Slow: true, Reference: "math.Exp2(a)", Ulps: 3},
		Gradients: []Gradient{{
			OfOutput: true,
			Func:     Func{Go: "g * (a * math.Ln2)", Float32: "function2(fnExp2Grad)", CUDA: "g * (a * (C)0.693147180559945309417)", Reference: "a * math.Ln2", Ulps: 3},
			Formula:  "g*a*log 2",
		}},
		Test: Test{From: -4, To: 4, Torch: "torch.exp2(x)"},
	},
	{
		Name: "Tan", Torch: "tan", Types: ToFloat, Autocast: "Float32",
		Does: "is the tangent of t in radians",
		Func: Func{Go: "tan64(a)", Float32: "sine32(fnTan, tan64)", CUDA: "tan(a)", Slow: true, Reference: "math.Tan(a)", Ulps: 4},
		Gradients: []Gradient{{
			OfOutput: true,
			Func:     Func{Go: "g * (1 + float64(a*a))", Float32: "function2(fnTanGrad)", CUDA: "g * (1 + a * a)", Reference: "1 + a*a", Ulps: 4},
			Formula:  "g*(1+a*a)",
		}},
		Test: Test{From: -1.4, To: 1.4, Torch: "x.tan()"},
	},
	{
		Name: "Sinh", Torch: "sinh", Types: ToFloat, Autocast: "Float32",
		Does:      "is the hyperbolic sine",
		Func:      Func{Go: "math.Sinh(a)", Float32: "function1(fnSinh)", CUDA: "sinh(a)", Slow: true, Reference: "math.Sinh(a)", Ulps: 4, Wild: true},
		Gradients: []Gradient{{Rule: "sinhGrad", Uses: "input(0)"}},
		Test:      Test{From: -4, To: 4, Torch: "x.sinh()"},
	},
	{
		Name: "Cosh", Torch: "cosh", Types: ToFloat, Autocast: "Float32",
		Does:      "is the hyperbolic cosine",
		Func:      Func{Go: "math.Cosh(a)", Float32: "function1(fnCosh)", CUDA: "cosh(a)", Slow: true, Reference: "math.Cosh(a)", Ulps: 4, Wild: true},
		Gradients: []Gradient{{Rule: "coshGrad", Uses: "input(0)"}},
		Test:      Test{From: -4, To: 4, Torch: "x.cosh()"},
	},
	{
		Name: "Asin", Torch: "asin", Types: ToFloat, Autocast: "Float32",
		Does: "is the angle in radians, from -pi/2 to pi/2, whose sine is t",
		Func: Func{Go: "asin64(a)", Float32: "function1(fnAsin)", CUDA: "asin(a)", Slow: true, Reference: "math.Atan2(a, math.Sqrt((1-a)*(1+a)))", Ulps: 4, Wild: true},
		Gradients: []Gradient{{
			Func:    Func{Go: "g / math.Sqrt((1-a)*(1+a))", Float32: "function2(fnAsinGrad)", CUDA: "g / sqrt((1 - a) * (1 + a))", Reference: "1 / math.Sqrt((1-a)*(1+a))", Ulps: 4},
			Formula: "g/sqrt(1-a*a)",
		}},
		Test: Test{From: -0.9, To: 0.9, Torch: "x.asin()"},
	},
	{
		Name: "Acos", Torch: "acos", Types: ToFloat, Autocast: "Float32",
		Does: "is the angle in radians, from 0 to pi, whose cosine is t",
		Func: Func{Go: "acos64(a)", Float32: "function1(fnAcos)", CUDA: "acos(a)", Slow: true, Reference: "2 * math.Atan2(math.Sqrt(1-a), math.Sqrt(1+a))", Ulps: 4, Wild: true},
		Gradients: []Gradient{{
			Func:    Func{Go: "-g / math.Sqrt((1-a)*(1+a))", Float32: "function2(fnAcosGrad)", CUDA: "-g / sqrt((1 - a) * (1 + a))", Reference: "-1 / math.Sqrt((1-a)*(1+a))", Ulps: 4},
			Formula: "-g/sqrt(1-a*a)",
		}},
		Test: Test{From: -0.9, To: 0.9, Torch: "x.acos()"},
	},
	{
		Name: "Atan", Torch: "atan", Types: ToFloat, Autocast: "Untouched",
		Does: "is the angle in radians, from -pi/2 to pi/2, whose tangent is t",
		Func: Func{Go: "math.Atan(a)", Float32: "function1(fnAtan)", CUDA: "atan2(a, (C)1)", Slow: true, Reference: "math.Atan(a)", Ulps: 4, Wild: true},
		Gradients: []Gradient{{
			Func:    Func{Go: "g / (1 + float64(a*a))", Float32: "function2(fnAtanGrad)", CUDA: "g / (1 + a * a)", Reference: "1 / (1 + a*a)", Ulps: 4},
			Formula: "g/(1+a*a)",
		}},
		Test: Test{From: -4, To: 4, Torch: "x.atan()"},
	},
	{
		Name: "Asinh", Torch: "asinh", Types: ToFloat, Autocast: "Untouched",
		Does: "is the inverse of the hyperbolic sine",
		Func: Func{Go: "math.Asinh(a)", Float32: "function1(fnAsinh)", CUDA: "asinh(a)", Slow: true, Reference: "math.Asinh(a)", Ulps: 4, Wild: true},
		Gradients: []Gradient{{
			Func:    Func{Go: "g / math.Sqrt(float64(a*a)+1)", Float32: "function2(fnAsinhGrad)", CUDA: "g / sqrt(a * a + 1)", Reference: "1 / math.Sqrt(a*a+1)", Ulps: 4},
			Formula: "g/sqrt(a*a+1)",
		}},
		Test: Test{From: -4, To: 4, Torch: "x.asinh()"},
	},
	{
		Name: "Acosh", Torch: "acosh", Types: ToFloat, Autocast: "Untouched",
		Does: "is the inverse of the hyperbolic cosine, not negative, and NaN below 1",
		Func: Func{Go: "math.Acosh(a)", Float32: "function1(fnAcosh)", CUDA: "acosh(a)", Slow: true, Reference: "math.Acosh(a)", Ulps: 4, Wild: true},
		Gradients: []Gradient{{
			Func:    Func{Go: "g / math.Abs(math.Sqrt((a-1)*(a+1)))", Float32: "function2(fnAcoshGrad)", CUDA: "g / abs(sqrt((a - 1) * (a + 1)))", Reference: "1 / math.Abs(math.Sqrt((a-1)*(a+1)))", Ulps: 4}, // at -1 the root is -0
			Formula: "g/sqrt(a*a-1)",
		}},
		Test: Test{From: 1.1, To: 9, Torch: "x.acosh()"},
	},
	{
		Name: "Atanh", Torch: "atanh", Types: ToFloat, Autocast: "Untouched",
		Does: "is the inverse of the hyperbolic tangent, infinite at -1 and 1, and NaN beyond",
		Func: Func{Go: "math.Atanh(a)", Float32: "function1(fnAtanh)", CUDA: "atanh(a)", Slow: true, Reference: "math.Atanh(a)", Ulps: 4, Wild: true},
		Gradients: []Gradient{{
			Func:    Func{Go: "g / ((1 - a) * (1 + a))", Float32: "function2(fnAtanhGrad)", CUDA: "g / ((1 - a) * (1 + a))", Reference: "1 / ((1 - a) * (1 + a))", Ulps: 4},
			Formula: "g/(1-a*a)",
		}},
		Test: Test{From: -0.9, To: 0.9, Torch: "x.atanh()"},
	},
	{
		Name: "Erfc", Torch: "erfc", Types: ToFloat, Autocast: "Untouched",
		Does:      "is 1-erf(t), accurate where that is small",
		Func:      Func{Go: "math.Erfc(a)", Float32: "function1(fnErfc)", CUDA: "(C)erfc((f64)a)", Slow: true, Reference: "math.Erfc(a)", Ulps: 6, Wild: true},
		Gradients: []Gradient{{Rule: "erfcGrad", Uses: "input(0)"}},
		Test:      Test{From: -3, To: 3, Torch: "x.erfc()"},
	},
	{
		Name: "Erfinv", Torch: "erfinv", Types: ToFloat, Autocast: "Float32",
		Does: "is the inverse of the error function, infinite at -1 and 1, and NaN beyond",
		Func: Func{Go: "math.Erfinv(a)", CUDA: "(C)erfinv((f64)a)", Slow: true, Reference: "math.Erfinv(a)", Ulps: 4, Wild: true},
		Gradients: []Gradient{{
			OfOutput: true,
			Func:     Func{Go: "g * (math.Exp(a*a) / twoOverRootPi)", CUDA: "g * ((C)0.886226925452758013649 * exp(a * a))", Reference: "math.Sqrt(math.Pi) / 2 * math.Exp(a*a)", Ulps: 4},
			Formula:  "g*sqrt(pi)/2*exp(a*a)", From: -2, To: 2,
		}},
		Test: Test{From: -0.9, To: 0.9, Torch: "x.erfinv()"},
	},
	{
		Name: "Lgamma", Torch: "lgamma", Types: ToFloat, Autocast: "Untouched",
		Does:      "is the natural logarithm of the absolute value of the gamma function, infinite at 0, -1, -2, ...",
		Func:      Func{Go: "lgamma64(a)", Float32: "function1(fnLgamma)", CUDA: "(C)lgamma((f64)a)", Slow: true, Reference: "lgammaOf(a)", Scale: "8, a", Ulps: 4},
		Gradients: []Gradient{{Rule: "lgammaGrad", Uses: "input(0)"}},
		Test:      Test{From: 0.1, To: 9, Torch: "x.lgamma()"},
	},
	{
		Name: "Digamma", Torch: "digamma", Types: ToFloat, Autocast: "Untouched",
		Does:      "is the derivative of the logarithm of the gamma function, NaN at -1, -2, ...",
		Func:      Func{Go: "digamma64(a)", Float32: "function1(fnDigamma)", CUDA: "(C)digamma((f64)a)", Slow: true, Reference: "digammaOf(a)", Scale: "4, digammaOf(a)", Ulps: 6, Values: "positive"},
		Gradients: []Gradient{{Rule: "digammaGrad", Uses: "input(0)"}},
		Test:      Test{From: 0.1, To: 9, Torch: "torch.digamma(x).detach() + torch.special.zeta(2.0, x.detach()) * (x - x.detach())"},
	},
	{
		Name: "Polygamma", Torch: "polygamma", Scalars: []string{"n"}, Types: ToFloat, Autocast: "Untouched", ByHand: Tensor,
		Does:      "is derivative number n of Digamma, from 0, Digamma itself, to 169",
		Func:      Func{Go: "polygamma64(n, a)", CUDA: "(C)polygamma(n, (f64)a)", Slow: true, Double: true, Reference: "polygammaOf(n, a)", Ulps: 16, Values: "positive"},
		Gradients: []Gradient{{Rule: "polygammaGrad", Uses: "input(0)"}},
		// PyTorch's own for 1, which is also the gradient of its digamma, is only good for 9 digits.
		Test: Test{Scalars: []string{"2", "1", "5"}, From: 0.2, To: 9, Torch: "torch.polygamma(2, x)"},
	},
	{
		Name: "Logit", Torch: "logit", Scalars: []string{"eps"}, Types: ToFloat, Autocast: "Untouched",
		Does: "is log(t/(1-t)) of t brought into eps..1-eps, or of t itself where eps is negative", Note: "PyTorch's default is t itself.",
		Differs: "with `eps` above 1/2 all elements become 1-eps, as in PyTorch's kernel for many elements (that for few makes small ones eps); bounds are " +
			"rounded to float32 for all types but float64, as there for float32 and on GPUs, so that in bfloat16 1 has a finite result with an `eps` of 1e-6; the gradient at NaN is NaN, where PyTorch's depends on the number of elements",
		Func: Func{
			Go: "logit64(a, eps)", Float32: "logit32", CUDA: "logit(a, eps)", Slow: true, Double: true,
			Reference: "logitOf(a, eps)", Scale: "1", Ulps: 4, Wild: true,
		},
		Gradients: []Gradient{{
			Func: Func{
				Go: "logitGrad64(g, a, eps)", Float32: "logitGrad32", CUDA: "logit_grad(g, a, eps)", Double: true,
				Reference: "g * logitSlope(a, eps)", Ulps: 4,
			},
			Formula: "g/(a*(1-a)); of a outside of eps..1-eps 0, and NaN outside of 0..1 if eps is negative",
		}},
		Test: Test{Scalars: []string{"-1", "0.125"}, From: 0.05, To: 0.95, Torch: "x.logit()"},
	},
	{
		Name: "Xlogy", Torch: "xlogy", Second: "u", Types: ToFloat, Autocast: "Untouched",
		Does: "is t*log(u), and 0 where t is 0, unless u is NaN",
		Func: Func{Go: "xlogy64(a, b)", Float32: "function2(fnXlogy)", CUDA: "xlogy(a, b)", Reference: "xlogyOf(a, b)", Ulps: 3, Wild: true},
		Gradients: []Gradient{
			{Func: Func{Go: "xlogyGrad64(g, a, b)", Float32: "function3(fnXlogyGrad)", CUDA: "xlogy_grad(g, a, b)", Reference: "xlogySlope(g, a, b)", Ulps: 3}, Formula: "g*log(b), and 0 where a is 0 and b <= 0, or g is 0"},
			{Func: Func{Go: "g * a / b", Float32: "function3(fnXlogyGradU)", CUDA: "g * a / b", Reference: "a / b", Ulps: 3}, Formula: "g*a/b"},
		},
		Test: Test{From: 0.1, To: 4, Torch: "torch.xlogy(x, y)"},
	},
	{
		Name: "Atan2", Torch: "atan2", Types: ToFloat, Second: "x", Autocast: "WidestInput",
		Does: "is the angle, from -pi to pi, of the point with the coordinates x and t",
		Func: Func{Go: "atan2of64(a, b)", Float32: "function2(fnAtan2)", CUDA: "atan2(a, b)", Slow: true, Reference: "math.Copysign(math.Atan2(math.Abs(a), b), a)", Ulps: 4},
		Gradients: []Gradient{
			{Func: Func{Go: "g * b / (float64(a*a) + float64(b*b))", Float32: "atan2Grad32", CUDA: "g * b / (a * a + b * b)", Reference: "b / (a*a + b*b)", Ulps: 4}, Formula: "g*b/(a*a+b*b)"},
			{Func: Func{Go: "-g * a / (float64(a*a) + float64(b*b))", Float32: "atan2GradX32", CUDA: "-g * a / (a * a + b * b)", Reference: "-a / (a*a + b*b)", Ulps: 4}, Formula: "-g*a/(a*a+b*b)"},
		},
		Test: Test{From: -4, To: 4, Torch: "torch.atan2(x, y)"},
	},
	{
		Name: "LogAddExp", Torch: "logaddexp", Types: OnlyFloats, Second: "u", Autocast: "Untouched",
		Does: "is log(exp(t) + exp(u)), without overflow",
		Func: Func{
			Go: "logAddExp64(a, b)", Float32: "function2(fnLogAddExp)", CUDA: "log_add_exp(a, b)",
			Reference: "logAddExp(a, b)", Scale: "math.Max(math.Abs(a), math.Abs(b))", Ulps: 4,
		},
		Gradients: []Gradient{
			{Func: Func{Go: "g / (1 + math.Exp(b-a))", Float32: "function3(fnLogAddExpGrad)", CUDA: "g / (1 + exp(b - a))", Reference: "1 / (1 + math.Exp(b-a))", Ulps: 4}, Formula: "g/(1+exp(b-a))"},
			{Func: Func{Go: "g / (1 + math.Exp(a-b))", Float32: "otherOf3(fnLogAddExpGrad)", CUDA: "g / (1 + exp(a - b))", Reference: "1 / (1 + math.Exp(a-b))", Ulps: 4}, Formula: "g/(1+exp(a-b))"},
		},
		Test: Test{From: -4, To: 4, Torch: "torch.logaddexp(x, y)"},
	},
}
