package elementwise

// functions are those of mathematics: of one number, and of two.
var functions = []Op{
	{
		Name: "Exp", Torch: "exp", Types: ToFloat, Autocast: "Float32", InPlace: Tensor | Autograd,
		Does: "is e to the power of t",
		Func: Func{
			Go: "math.Exp(a)", Narrow: "expNarrow(a)", Float32: "vectorOne(vector.exp, 4, expFloat32)", CUDA: "exp(a)",
			Reference: "math.Exp(a)", Ulps: 2, Wild: true,
		},
		Gradients: []Gradient{{Rule: "expGrad", Uses: "output"}},
		Test:      Test{From: -4, To: 4, Torch: "x.exp()"},
	},
	{
		Name: "Log", Torch: "log", Types: ToFloat, Autocast: "Float32",
		Does:      "is the natural logarithm",
		Func:      Func{Go: "log64(a)", CUDA: "log(a)", Reference: "logOf(a)", Ulps: 2, Wild: true},
		Gradients: []Gradient{{Rule: "logGrad", Uses: "input(0)"}},
		Test:      Test{From: 0.1, To: 9, Torch: "x.log()"},
	},
	{
		Name: "Sqrt", Torch: "sqrt", Types: ToFloat, Autocast: "Untouched", InPlace: Tensor,
		Does:      "is the square root",
		Func:      Func{Go: "math.Sqrt(a)", CUDA: "sqrt(a)", Reference: "math.Sqrt(a)", Ulps: 2, Wild: true},
		Gradients: []Gradient{{Rule: "sqrtGrad", Uses: "output"}},
		Test:      Test{From: 0.1, To: 9, Torch: "x.sqrt()"},
	},
	{
		Name: "Rsqrt", Torch: "rsqrt", Types: ToFloat, Autocast: "Float32",
		Does:      "is 1/sqrt(t)",
		Func:      Func{Go: "1 / math.Sqrt(a)", CUDA: "1 / sqrt(a)", Reference: "1 / math.Sqrt(a)", Ulps: 2, Wild: true},
		Gradients: []Gradient{{Rule: "rsqrtGrad", Uses: "output"}},
		Test:      Test{From: 0.1, To: 9, Torch: "x.rsqrt()"},
	},
	{
		Name: "Reciprocal", Torch: "reciprocal", Types: ToFloat, Autocast: "Float32",
		Does:      "is 1/t",
		Func:      Func{Go: "1 / a", Own: true, CUDA: "1 / a", Reference: "1 / a", Ulps: 2, Wild: true},
		Gradients: []Gradient{{Rule: "reciprocalGrad", Uses: "output"}},
		Test:      Test{From: 0.1, To: 9, Torch: "x.reciprocal()"},
	},
	{
		Name: "Sin", Torch: "sin", Types: ToFloat, Autocast: "Untouched",
		Does:      "is the sine of t in radians",
		Func:      Func{Go: "math.Sin(a)", CUDA: "sine(a)", Reference: "math.Sin(a)", Ulps: 2},
		Gradients: []Gradient{{Rule: "sinGrad", Uses: "input(0)"}},
		Test:      Test{From: -4, To: 4, Torch: "x.sin()"},
	},
	{
		Name: "Cos", Torch: "cos", Types: ToFloat, Autocast: "Untouched",
		Does:      "is the cosine of t in radians",
		Func:      Func{Go: "math.Cos(a)", CUDA: "cosine(a)", Reference: "math.Cos(a)", Ulps: 2},
		Gradients: []Gradient{{Rule: "cosGrad", Uses: "input(0)"}},
		Test:      Test{From: -4, To: 4, Torch: "x.cos()"},
	},
	{
		Name: "Log1p", Torch: "log1p", Types: ToFloat, Autocast: "Float32",
		Does:      "is log(1+t), accurate near 0",
		Func:      Func{Go: "math.Log1p(a)", CUDA: "log1p(a)", Reference: "math.Log1p(a)", Ulps: 2, Wild: true},
		Gradients: []Gradient{{Rule: "log1pGrad", Uses: "input(0)"}},
		Test:      Test{From: -0.5, To: 9, Torch: "x.log1p()"},
	},
	{
		Name: "Expm1", Torch: "expm1", Types: ToFloat, Autocast: "Float32",
		Does:      "is exp(t)-1, accurate near 0",
		Func:      Func{Go: "math.Expm1(a)", Narrow: "expm1Narrow(a)", CUDA: "expm1(a)", Reference: "math.Expm1(a)", Ulps: 2, Wild: true},
		Gradients: []Gradient{{Rule: "expm1Grad", Uses: "output"}},
		Test:      Test{From: -4, To: 4, Torch: "x.expm1()"},
	},
	{
		Name: "Erf", Torch: "erf", Types: ToFloat, Autocast: "Untouched",
		Does: "is the error function",
		Func: Func{Go: "math.Erf(a)", Narrow: "erfNarrow(a)", CUDA: "erf(a)", Reference: "math.Erf(a)", Ulps: 2, Wild: true},
		Gradients: []Gradient{{
			Func: Func{
				Go: "g * (twoOverRootPi * math.Exp(-a*a))", Narrow: "g * (twoOverRootPi * expNarrow(-a*a))",
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
		Func: Func{Go: "log2of64(a)", CUDA: "log2(a)", Reference: "logOf(a) / math.Ln2", Ulps: 3},
		Gradients: []Gradient{{
			Func:    Func{Go: "g / (a * math.Ln2)", CUDA: "g / (a * (C)0.693147180559945309417)", Reference: "1 / (a * math.Ln2)", Ulps: 3},
			Formula: "g/(a*log 2)",
		}},
		Test: Test{From: 0.1, To: 9, Torch: "x.log2()"},
	},
	{
		Name: "Log10", Torch: "log10", Types: ToFloat, Autocast: "Float32",
		Does: "is the logarithm to base 10",
		Func: Func{Go: "log64(a) / math.Ln10", CUDA: "log10(a)", Reference: "logOf(a) / math.Ln10", Ulps: 3},
		Gradients: []Gradient{{
			Func:    Func{Go: "g / (a * math.Ln10)", CUDA: "g / (a * (C)2.30258509299404568402)", Reference: "1 / (a * math.Ln10)", Ulps: 3},
			Formula: "g/(a*log 10)",
		}},
		Test: Test{From: 0.1, To: 9, Torch: "x.log10()"},
	},
	{
		Name: "Exp2", Torch: "exp2", Types: ToFloat, Autocast: "Untouched",
		Does: "is 2 to the power of t",
		Func: Func{Go: "math.Exp2(a)", CUDA: "exp2(a)", Reference: "math.Exp2(a)", Ulps: 3},
		Gradients: []Gradient{{
			OfOutput: true,
			Func:     Func{Go: "g * (a * math.Ln2)", CUDA: "g * (a * (C)0.693147180559945309417)", Reference: "a * math.Ln2", Ulps: 3},
			Formula:  "g*a*log 2",
		}},
		Test: Test{From: -4, To: 4, Torch: "torch.exp2(x)"},
	},
	{
		Name: "Tan", Torch: "tan", Types: ToFloat, Autocast: "Float32",
		Does: "is the tangent of t in radians",
		Func: Func{Go: "math.Tan(a)", CUDA: "tan(a)", Reference: "math.Tan(a)", Ulps: 4},
		Gradients: []Gradient{{
			OfOutput: true,
			Func:     Func{Go: "g * (1 + a*a)", CUDA: "g * (1 + a * a)", Reference: "1 + a*a", Ulps: 4},
			Formula:  "g*(1+a*a)",
		}},
		Test: Test{From: -1.4, To: 1.4, Torch: "x.tan()"},
	},
	{
		Name: "Atan2", Torch: "atan2", Types: ToFloat, Second: "x", Autocast: "WidestInput",
		Does: "is the angle, from -pi to pi, of the point with the coordinates x and t",
		Func: Func{Go: "atan2of64(a, b)", CUDA: "atan2(a, b)", Reference: "math.Copysign(math.Atan2(math.Abs(a), b), a)", Ulps: 4},
		Gradients: []Gradient{
			{Func: Func{Go: "g * b / (a*a + b*b)", CUDA: "g * b / (a * a + b * b)", Reference: "b / (a*a + b*b)", Ulps: 4}, Formula: "g*b/(a*a+b*b)"},
			{Func: Func{Go: "-g * a / (a*a + b*b)", CUDA: "-g * a / (a * a + b * b)", Reference: "-a / (a*a + b*b)", Ulps: 4}, Formula: "-g*a/(a*a+b*b)"},
		},
		Test: Test{From: -4, To: 4, Torch: "torch.atan2(x, y)"},
	},
	{
		Name: "LogAddExp", Torch: "logaddexp", Types: OnlyFloats, Second: "u", Autocast: "Untouched",
		Does: "is log(exp(t) + exp(u)), without overflow",
		Func: Func{
			Go: "logAddExp64(a, b)", CUDA: "log_add_exp(a, b)",
			Reference: "logAddExp(a, b)", Scale: "math.Max(math.Abs(a), math.Abs(b))", Ulps: 4,
		},
		Gradients: []Gradient{
			{Func: Func{Go: "g / (1 + math.Exp(b-a))", CUDA: "g / (1 + exp(b - a))", Reference: "1 / (1 + math.Exp(b-a))", Ulps: 4}, Formula: "g/(1+exp(b-a))"},
			{Func: Func{Go: "g / (1 + math.Exp(a-b))", CUDA: "g / (1 + exp(a - b))", Reference: "1 / (1 + math.Exp(a-b))", Ulps: 4}, Formula: "g/(1+exp(a-b))"},
		},
		Test: Test{From: -4, To: 4, Torch: "torch.logaddexp(x, y)"},
	},
}
