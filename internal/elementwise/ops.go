package elementwise

// Ops are the operations, in the order of their identifiers.
var Ops = []Op{
	{
		Name: "Log2", Torch: "log2", Types: ToFloat, Autocast: "Float32",
		Does: "is the logarithm to base 2, exact for powers of two",
		Go:   "log2of64(a)", CUDA: "log2(a)",
		Gradients: []Gradient{{Go: "g / (a * math.Ln2)", CUDA: "g / (a * (C)0.693147180559945309417)", Formula: "g/(a*log 2)"}},
		Test:      Test{Reference: "logOf(a) / math.Ln2", Gradients: []string{"1 / (a * math.Ln2)"}, Ulps: 3, From: 0.1, To: 9, Torch: "x.log2()"},
	},
	{
		Name: "Log10", Torch: "log10", Types: ToFloat, Autocast: "Float32",
		Does: "is the logarithm to base 10",
		Go:   "log64(a) / math.Ln10", CUDA: "log10(a)",
		Gradients: []Gradient{{Go: "g / (a * math.Ln10)", CUDA: "g / (a * (C)2.30258509299404568402)", Formula: "g/(a*log 10)"}},
		Test:      Test{Reference: "logOf(a) / math.Ln10", Gradients: []string{"1 / (a * math.Ln10)"}, Ulps: 3, From: 0.1, To: 9, Torch: "x.log10()"},
	},
	{
		Name: "Exp2", Torch: "exp2", Types: ToFloat, Autocast: "Untouched",
		Does: "is 2 to the power of t",
		Go:   "math.Exp2(a)", CUDA: "exp2(a)",
		Gradients: []Gradient{{OfOutput: true, Go: "g * (a * math.Ln2)", CUDA: "g * (a * (C)0.693147180559945309417)", Formula: "g*a*log 2"}},
		Test:      Test{Reference: "math.Exp2(a)", Gradients: []string{"a * math.Ln2"}, Ulps: 3, From: -4, To: 4, Torch: "torch.exp2(x)"},
	},
	{
		Name: "Square", Torch: "square", Types: Numeric, Autocast: "Float32",
		Does: "is t*t",
		Go:   "a * a", CUDA: "times<C>(a, a)",
		Gradients: []Gradient{{Go: "g * (2 * a)", CUDA: "g * (2 * a)", Formula: "g*2*a"}},
		Test:      Test{Reference: "a * a", Gradients: []string{"2 * a"}, Ulps: 1, From: -4, To: 4, Torch: "x.square()"},
	},
	{
		Name: "Tan", Torch: "tan", Types: ToFloat, Autocast: "Float32",
		Does: "is the tangent of t in radians",
		Go:   "math.Tan(a)", CUDA: "tan(a)",
		Gradients: []Gradient{{OfOutput: true, Go: "g * (1 + a*a)", CUDA: "g * (1 + a * a)", Formula: "g*(1+a*a)"}},
		Test:      Test{Reference: "math.Tan(a)", Gradients: []string{"1 + a*a"}, Ulps: 4, From: -1.4, To: 1.4, Torch: "x.tan()"},
	},
	{
		Name: "Softsign", Torch: "softsign", Types: ToFloat, Autocast: "Untouched",
		Does: "is t/(1+|t|)",
		Go:   "a / (1 + math.Abs(a))", CUDA: "a / (1 + abs(a))",
		Gradients: []Gradient{{Go: "g / ((1 + math.Abs(a)) * (1 + math.Abs(a)))", CUDA: "g / ((1 + abs(a)) * (1 + abs(a)))", Formula: "g/(1+|a|)**2"}},
		Test:      Test{Reference: "a / (1 + math.Abs(a))", Gradients: []string{"math.Pow(1+math.Abs(a), -2)"}, Ulps: 3, From: -4, To: 4, Torch: "F.softsign(x)"},
	},
	{
		Name: "Hardswish", Torch: "hardswish", Types: OnlyFloats, Autocast: "Untouched",
		Does: "is t*min(max(t+3, 0), 6)/6",
		Go:   "a * min(max(a+3, 0), 6) / 6", CUDA: "a * least<C>(most<C>(a + 3, 0), 6) / 6",
		Gradients: []Gradient{{Go: "hardswishGrad64(g, a)", CUDA: "a > 3 ? g : a < -3 ? (C)0 : g * (a / 3 + (C)0.5)",
			Formula: "g where a > 3, 0 where a < -3, else g*(a/3+0.5)"}},
		Test: Test{Reference: "a * math.Min(math.Max(a+3, 0), 6) / 6", Gradients: []string{"hardswishSlope(a)"}, Ulps: 3, From: -5, To: 5,
			Torch: "F.hardswish(x)"},
	},
	{
		Name: "Mish", Torch: "mish", Types: OnlyFloats, Autocast: "Untouched",
		Does: "is t*tanh(log(1+exp(t)))",
		Go:   "mish64(a)", CUDA: "mish(a)",
		Gradients: []Gradient{{Go: "g * mishSlope64(a)", CUDA: "g * mish_slope(a)", Formula: "g*(tanh(s) + a*(1-tanh(s)**2)*sigmoid(a)) with s = log(1+exp(a))"}},
		Test:      Test{Reference: "a * math.Tanh(math.Log1p(math.Exp(a)))", Gradients: []string{"mishSlope(a)"}, Ulps: 5, From: -6, To: 6, Torch: "F.mish(x)"},
	},
	{
		Name: "Atan2", Torch: "atan2", Types: ToFloat, Second: "x", Autocast: "WidestInput",
		Does: "is the angle, from -pi to pi, of the point with the coordinates x and t",
		Go:   "atan2of64(a, b)", CUDA: "atan2(a, b)",
		Gradients: []Gradient{
			{Go: "g * b / (a*a + b*b)", CUDA: "g * b / (a * a + b * b)", Formula: "g*b/(a*a+b*b)"},
			{Go: "-g * a / (a*a + b*b)", CUDA: "-g * a / (a * a + b * b)", Formula: "-g*a/(a*a+b*b)"},
		},
		Test: Test{Reference: "math.Copysign(math.Atan2(math.Abs(a), b), a)", Gradients: []string{"b / (a*a + b*b)", "-a / (a*a + b*b)"}, Ulps: 4, From: -4, To: 4,
			Torch: "torch.atan2(x, y)"},
	},
	{
		Name: "LogAddExp", Torch: "logaddexp", Types: OnlyFloats, Second: "u", Autocast: "Untouched",
		Does: "is log(exp(t) + exp(u)), without overflow",
		Go:   "logAddExp64(a, b)", CUDA: "log_add_exp(a, b)",
		Gradients: []Gradient{
			{Go: "g / (1 + math.Exp(b-a))", CUDA: "g / (1 + exp(b - a))", Formula: "g/(1+exp(b-a))"},
			{Go: "g / (1 + math.Exp(a-b))", CUDA: "g / (1 + exp(a - b))", Formula: "g/(1+exp(a-b))"},
		},
		Test: Test{Reference: "logAddExp(a, b)", Scale: "math.Max(math.Abs(a), math.Abs(b))", Gradients: []string{"1 / (1 + math.Exp(b-a))", "1 / (1 + math.Exp(a-b))"}, Ulps: 4, From: -4, To: 4,
			Torch: "torch.logaddexp(x, y)"},
	},
}
