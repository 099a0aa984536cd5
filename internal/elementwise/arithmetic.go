package elementwise

// arithmetic are operations of floating-point numbers and integers, and roundings.
var arithmetic = []Op{
	{
		Name: "Neg", Torch: "neg", Types: Numeric, Autocast: "Untouched", InPlace: Tensor,
		Does: "is -t", More: "Integers wrap.",
		Func:      Func{Go: "-a", Float32: "function1(fnNeg)", CUDA: "negative<C>(a)", Reference: "-a", Wild: true},
		Gradients: []Gradient{{Rule: "negGrad"}},
		Test:      Test{From: -4, To: 4, Torch: "-x"},
	},
	{
		Name: "Abs", Torch: "abs", Types: Numeric, Autocast: "Untouched",
		Does: "is |t|", More: "Integers wrap.", Note: "Its gradient at 0 is 0.",
		Func:      Func{Go: "magnitude(a)", Float32: "function1(fnAbs)", CUDA: "a <= 0 ? minus<C>(0, a) : a", Reference: "math.Abs(a)", WholeReference: "max(a, -a)", Wild: true},
		Gradients: []Gradient{{Rule: "absGrad", Uses: "input(0)"}},
		Test:      Test{From: -4, To: 4, Torch: "x.abs()"},
	},
	{
		Name: "Sign", Torch: "sign", Types: Numeric, Autocast: "Untouched",
		Does: "is -1, 0 or 1, and 0 for NaN", Note: "Its gradient is 0.",
		Differs: refusesBools + "; " + takesNoMemory,
		Func: Func{
			Go: "signum(a)", Float32: "function1(fnSign)", CUDA: "(C)(a > 0) - (C)(a < 0)",
			Reference: "float64(b2i(a > 0) - b2i(a < 0))", WholeReference: "b2i(a > 0) - b2i(a < 0)", Wild: true,
		},
		Gradients: []Gradient{{Rule: "zeroGrad"}},
		Test:      Test{From: -4, To: 4, Torch: "x.sign()"},
	},
	{
		Name: "Square", Torch: "square", Types: Numeric, Autocast: "Float32",
		Does: "is t*t", More: "Integers wrap.",
		Differs: refusesBools,
		Func:    Func{Go: "a * a", Float32: "function1(fnSquare)", CUDA: "times<C>(a, a)", Reference: "a * a", Ulps: 1},
		Gradients: []Gradient{{
			Func: Func{Go: "g * (2 * a)", Float32: "function2(fnSquareGrad)", CUDA: "g * (2 * a)", Reference: "2 * a", Ulps: 1}, Formula: "g*2*a",
		}},
		Test: Test{From: -4, To: 4, Torch: "x.square()"},
	},
	{
		Name: "Floor", Torch: "floor", Types: Rounding, Autocast: "Untouched",
		Does: "is the greatest integer that is not above t", Note: "Its gradient is 0.",
		Differs:   takesNoMemory,
		Func:      Func{Go: "math.Floor(a)", Float32: "function1(fnFloor)", CUDA: "floor(a)", Quick: true, Reference: "math.Floor(a)", Wild: true},
		Gradients: []Gradient{{Rule: "zeroGrad"}},
		Test:      Test{From: -4, To: 4, Torch: "x.floor()"},
	},
	{
		Name: "Ceil", Torch: "ceil", Types: Rounding, Autocast: "Untouched",
		Does: "is the least integer that is not below t", Note: "Its gradient is 0.",
		Differs:   takesNoMemory,
		Func:      Func{Go: "math.Ceil(a)", Float32: "function1(fnCeil)", CUDA: "ceil(a)", Quick: true, Reference: "math.Ceil(a)", Wild: true},
		Gradients: []Gradient{{Rule: "zeroGrad"}},
		Test:      Test{From: -4, To: 4, Torch: "x.ceil()"},
	},
	{
		Name: "Round", Torch: "round", Types: Rounding, Autocast: "Untouched",
		Does: "is the nearest integer, and the even one of two", Note: "Its gradient is 0.",
		Differs:   "there are no `decimals`; " + takesNoMemory,
		Func:      Func{Go: "math.RoundToEven(a)", Float32: "function1(fnNearest)", CUDA: "rint(a)", Quick: true, Reference: "math.RoundToEven(a)", Wild: true},
		Gradients: []Gradient{{Rule: "zeroGrad"}},
		Test:      Test{From: -4, To: 4, Torch: "x.round()"},
	},
	{
		Name: "Trunc", Torch: "trunc", Types: Rounding, Autocast: "Untouched",
		Does: "is t without its fraction", Note: "Its gradient is 0.",
		Differs:   takesNoMemory,
		Func:      Func{Go: "math.Trunc(a)", Float32: "function1(fnTrunc)", CUDA: "trunc(a)", Quick: true, Reference: "math.Trunc(a)", Wild: true},
		Gradients: []Gradient{{Rule: "zeroGrad"}},
		Test:      Test{From: -4, To: 4, Torch: "x.trunc()"},
	},
	{
		Name: "Frac", Torch: "frac", Types: OnlyFloats, Autocast: "Untouched",
		Does: "is t - trunc(t), with the sign of t", Note: "The gradient passes.",
		Func:      Func{Go: "a - math.Trunc(a)", Float32: "function1(fnFrac)", CUDA: "a - trunc(a)", Quick: true, Reference: "a - math.Trunc(a)", Wild: true},
		Gradients: []Gradient{{Rule: "passGrad"}},
		Test:      Test{From: -3.9, To: 4.1, Torch: "x.frac()"},
	},
	{
		Name: "Add", Torch: "add", Second: "u", Scalars: []string{"alpha"}, Types: Numeric, Autocast: "Untouched", ByHand: Tensor | Autograd,
		Does: "is t + alpha*u",
		Func: Func{
			Loop: "add", Float32: "add32(vector.add)", CUDA: "sum<C>(a, b, alpha)",
			Reference: "a + alpha*b", Scale: "a, alpha*b", Ulps: 1, Wild: true,
		},
		Test: Test{Scalars: []string{"1", "-0.5"}, Wholes: []string{"1", "-3"}},
	},
	{
		Name: "Sub", Torch: "sub", Second: "u", Types: Numeric, Autocast: "Untouched", ByHand: Tensor,
		Does: "is t - u", More: "Not defined for bool.",
		Func:      Func{Go: "a - b", Float32: "vectorTwo(vector.sub, 8, sub[float32])", CUDA: "minus<C>(a, b)", Reference: "a - b", Wild: true},
		Gradients: []Gradient{{Rule: "passGrad"}, {Rule: "negGrad"}},
		Test:      Test{From: -4, To: 4, Torch: "x - y"},
	},
	{
		Name: "Mul", Torch: "mul", Second: "u", Types: Numeric, OfBools: "Mul", Autocast: "Untouched",
		Does: "is t * u",
		Func: Func{
			Go: "a * b", Float32: "vectorTwo(vector.mul, 8, mul[float32])", Bool: "and", CUDA: "times<C>(a, b)", CUDABool: "And",
			Reference: "a * b", Wild: true,
		},
		Gradients: []Gradient{{Rule: "mulGrad", Uses: "input(1)"}, {Rule: "mulGrad", Uses: "input(0)"}},
		Test:      Test{From: -4, To: 4, Torch: "x * y"},
	},
	{
		Name: "Div", Torch: "div", Second: "u", Types: ToFloat, Autocast: "Untouched",
		Does: "is t / u, true division",
		Func: Func{Go: "a / b", Own: true, Float32: "vectorTwo(vector.div, 8, div[float32])", CUDA: "a / b", Reference: "a / b", Ulps: 2, Wild: true},
		Gradients: []Gradient{
			{Rule: "divGradDividend", Uses: "input(1)"},
			{Rule: "divGradDivisor", Uses: "input(0) | input(1)"},
		},
		Test: Test{From: 0.5, To: 4, Torch: "x / y"},
	},
	{
		Name: "Pow", Torch: "pow", Second: "u", Types: Numeric, Autocast: "Float32",
		Does:    "is t to the power of u",
		Differs: "integers: exact but for wrapping, on every device (compared in `tensor/testdata/integers.json`)",
		More:    "Powers of integers are exact but for wrapping; negative ones are 0, but 1 for 1, and 1 or -1 for -1.",
		Func: Func{
			Go: "T(pow64(float64(a), float64(b)))", Whole: "wholePower(a, int64(b))", Float32: "function2(fnPow)", CUDA: "power(a, b)",
			Reference: "powOf(a, b)", WholeReference: "intPower(a, b)", Ulps: 2, Wild: true,
		},
		Gradients: []Gradient{
			{Rule: "powGradBase", Uses: "input(0) | input(1)"},
			{Rule: "powGradExponent", Uses: "input(0) | input(1) | output"},
		},
		Test: Test{From: 0.5, To: 4, Torch: "x ** y"},
	},
	{
		Name: "Maximum", Torch: "maximum", Second: "u", Types: Numeric, OfBools: "Or", Autocast: "Untouched",
		Does: "is the greater of t and u, and NaN if either is", Note: "Equal elements share the gradient.",
		Differs:   "which of 0 and -0 it is may differ: in PyTorch that depends on the number of elements",
		Func:      Func{Go: "max(a, b)", Float32: "vectorTwo(vector.maximum, 8, maximum[float32])", CUDA: "greater<C>(a, b)", Reference: "max(a, b)", Wild: true},
		Gradients: []Gradient{{Rule: "maximumGrad", Uses: "input(0) | input(1)"}, {Rule: "maximumGrad", Uses: "input(0) | input(1)"}},
		Test:      Test{From: -4, To: 4, Torch: "torch.maximum(x, y)"},
	},
	{
		Name: "Minimum", Torch: "minimum", Second: "u", Types: Numeric, OfBools: "And", Autocast: "Untouched",
		Does: "is the lesser of t and u, and NaN if either is", Note: "Equal elements share the gradient.",
		Differs:   "which of 0 and -0 it is may differ: in PyTorch that depends on the number of elements",
		Func:      Func{Go: "min(a, b)", Float32: "vectorTwo(vector.minimum, 8, minimum[float32])", CUDA: "lesser<C>(a, b)", Reference: "min(a, b)", Wild: true},
		Gradients: []Gradient{{Rule: "minimumGrad", Uses: "input(0) | input(1)"}, {Rule: "minimumGrad", Uses: "input(0) | input(1)"}},
		Test:      Test{From: -4, To: 4, Torch: "torch.minimum(x, y)"},
	},
	{
		Name: "Fmod", Torch: "fmod", Second: "u", Types: Numeric, Autocast: "Untouched",
		Does: "is the remainder of t/u with the sign of t, exact", More: "Of integers it is 0 where u is 0.",
		Differs: divisorsMayBe0,
		Func: Func{
			Go: "T(mod(a, b))", Float32: "remainder32(fnFmod, modOf)", Whole: "intMod(a, b)", Int64: "divided(divisionFmod, fmodWhole[int64])", CUDA: "fmod(a, b)",
			Reference: "math.Mod(a, b)", WholeReference: "intMod(a, b)", Wild: true,
		},
		Gradients: []Gradient{{Rule: "passGrad"}, {Rule: "quotientGrad(truncated)", Uses: "input(0) | input(1)"}},
		Test:      Test{From: 0.5, To: 4, Torch: "torch.fmod(x, y)"},
	},
	{
		Name: "Remainder", Torch: "remainder", Second: "u", Types: Numeric, Autocast: "Untouched",
		Does: "is the remainder of t/u with the sign of u, as Python's %", More: "Of integers it is 0 where u is 0.",
		Differs: divisorsMayBe0,
		Func: Func{
			Go: "remainderOf(a, b)", Float32: "remainder32(fnRemainder, remainderOf[float32])", Whole: "intRemainder(a, b)", Int64: "divided(divisionRemainder, remainderWhole[int64])", CUDA: "remainder(a, b)",
			Reference: "remainder(a, b)", WholeReference: "intRemainder(a, b)", Scale: "remainder(a, b) - math.Mod(a, b)", Ulps: 1, Wild: true,
		},
		Gradients: []Gradient{{Rule: "passGrad"}, {Rule: "quotientGrad(floored)", Uses: "input(0) | input(1)"}},
		Test:      Test{From: -4, To: 4, Torch: "torch.remainder(x, y)"},
	},
	{
		Name: "FloorDivide", Torch: "floor_divide", Second: "u", Types: Numeric, Autocast: "Untouched",
		Does: "is the greatest integer that is not above t/u, as Python's //", More: "Of integers it is 0 where u is 0.",
		Differs: divisorsMayBe0,
		Note:    "Its gradients are 0.",
		Func: Func{
			Go: "floorDivideOf(a, b)", Float32: "remainder32(fnFloorDivide, floorDivideOf[float32])", Whole: "intFloorDivide(a, b)", Int64: "divided(divisionFloor, floorDivideWhole[int64])", CUDA: "floor_divide(a, b)",
			Reference: "floorDivide(a, b)", WholeReference: "intFloorDivide(a, b)", Ulps: 2,
		},
		Gradients: []Gradient{{Rule: "zeroGrad"}, {Rule: "zeroGrad"}},
		Test:      Test{From: 0.5, To: 4, Torch: "torch.div(x, y, rounding_mode='floor')"},
	},
	{
		Name: "AddScalar", Torch: "add_scalar", Scalars: []string{"s"}, Types: Lifting, Autocast: "Untouched",
		Does: "is t + s",
		Func: Func{
			Go: "a + s", Float32: "vectorScalar(vector.addScalar, addScalar[float32])", CUDA: "plus<C>(a, s)",
			Reference: "a + s", Scale: "a, s", Ulps: 1, Wild: true,
		},
		Gradients: []Gradient{{Rule: "passGrad"}},
		Test:      Test{Scalars: []string{"1.5"}, Wholes: []string{"-3"}, From: -4, To: 4, Torch: "x + 1.5"},
	},
	{
		Name: "MulScalar", Torch: "mul_scalar", Scalars: []string{"s"}, Types: Lifting, Autocast: "Untouched",
		Does:    "is t * s",
		Differs: "float16 and bfloat16: the number is not rounded to half, where PyTorch's processor code rounds it, so that 1e30 is infinite in float16 and 0 times it NaN",
		Func: Func{
			Go: "a * s", Float32: "vectorScalar(vector.mulScalar, mulScalar[float32])", CUDA: "times<C>(a, s)",
			Reference: "a * s", Ulps: 1, Wild: true,
		},
		Gradients: []Gradient{{Rule: "mulScalarGrad"}},
		Test:      Test{Scalars: []string{"-0.75"}, Wholes: []string{"-3"}, From: -4, To: 4, Torch: "x * -0.75"},
	},
	{
		Name: "DivScalar", Torch: "div_scalar", Scalars: []string{"s"}, Types: ToFloat, Autocast: "Untouched",
		Does: "is t / s, true division", More: "It is the quotient, also on a GPU, where PyTorch multiplies by 1/s.",
		Differs: "the quotient on every device, where PyTorch's GPUs multiply by the reciprocal",
		Func: Func{
			Go: "a / s", Own: true, Float32: "vectorScalar(vector.divScalar, divScalar[float32])", CUDA: "a / s",
			Reference: "a / s", Wild: true,
		},
		Gradients: []Gradient{{Rule: "divScalarGrad"}},
		Test:      Test{Scalars: []string{"-0.75", "3", "0"}, From: -4, To: 4, Torch: "x / -0.75"},
	},
	{
		Name: "PowScalar", Torch: "pow_scalar", Scalars: []string{"p"}, Types: Lifting, Autocast: "Float32", ByHand: Tensor,
		Does:    "is t to the power of p, of integers exact but for wrapping",
		Differs: "integers: exact but for wrapping, on every device (compared in `tensor/testdata/integers.json`)",
		Func: Func{
			Loop: "powScalar", WholeLoop: "intPowScalar", Float32: "powScalar32", CUDA: "power_scalar(a, p)", Double: true,
			Reference: "powOf(a, p)", WholeReference: "intPower(a, p)", Ulps: 2, Wild: true,
		},
		Gradients: []Gradient{{Rule: "powScalarGrad", Uses: "input(0)"}},
		Test: Test{
			Scalars: []string{"3", "2", "0.5", "-1", "0", "1", "-2.5", "math.NaN()"}, Wholes: []string{"39", "2", "300", "1", "0", "64", "7"},
			From: -4, To: 4, Torch: "x ** 3",
		},
	},
	{
		Name: "Clamp", Torch: "clamp", Scalars: []string{"lo", "hi"}, Types: Numeric, Autocast: "Untouched", ByHand: Tensor,
		Does:    "is t brought into lo..hi, and hi where lo > hi; NaN stays NaN",
		Differs: refusesBools + "; its gradient is one kernel",
		Note:    "An infinity leaves its side open. The gradient passes where v lies in the range, its ends included.",
		Func: Func{
			Loop: "clamp", Float32: "function1With(fnClamp)", CUDA: "least<C>(most<C>(a, lo), hi)", Bounds: true,
			Reference: "min(max(a, lo), hi)", Wild: true,
		},
		Gradients: []Gradient{{
			Func: Func{
				Go: "withinGrad(g, a, lo, hi)", Float32: "function2With(fnClampGrad)", Own: true, CUDA: "a >= lo && a <= hi ? g : (C)0",
				Reference: "onlyIf(a >= lo && a <= hi, g)", Wild: true,
			},
			Formula: "g where lo <= a <= hi, else 0",
		}},
		Test: Test{
			Scalars: []string{"-0.5, 1.25", "1, -1", "math.Inf(-1), 0", "0, math.Inf(1)"},
			Wholes:  []string{"-2, 100", "5, 3", "math.MinInt64, 7", "3, math.MaxInt64"},
			From:    -4, To: 4, Torch: "x.clamp(-0.5, 1.25)",
		},
	},
	{
		Name: "Lerp", Torch: "lerp", Second: "end", Third: "weight", Types: OnlyFloats, Autocast: "Untouched", ByHand: Tensor | Autograd,
		Does:    "is t + weight*(end-t), which comes from the nearer of both",
		Differs: "weights of -1/2 and less count from the end, as on GPUs there; `LerpScalar`, too",
		Func: Func{
			Go: "between(a, b, c)", Float32: "function3(fnLerp)", Own: true, CUDA: "abs(c) < (C)0.5 ? a + c * (b - a) : b - (b - a) * (1 - c)", Quick: true,
			Reference: "a + c*(b-a)", Scale: "a, b, c*a, c*b", Ulps: 3, Values: "weights",
		},
	},
	{
		Name: "AddCMul", Torch: "addcmul", Second: "u", Third: "w", Scalars: []string{"value"}, Types: Numeric, Autocast: "WidestInput", ByHand: Tensor | Autograd,
		Does:    "is t + value*u*w",
		Differs: "a fraction as `value` for integers is refused, not truncated",
		Func: Func{
			Go: "a + T(T(value*b)*c)", Float32: "function3With(fnAddCMul)", CUDA: "plus<C>(a, times<C>(times<C>(value, b), c))",
			Reference: "bounded(a, value*b*c)", WholeReference: "a + value*b*c", Ulps: 3, Values: "weights",
		},
		Test: Test{Scalars: []string{"1", "-0.5"}, Wholes: []string{"1", "-3"}},
	},
	{
		// On processors the product comes first, as PyTorch has it there; its GPUs, and ours, divide first.
		Name: "AddCDiv", Torch: "addcdiv", Second: "u", Third: "w", Scalars: []string{"value"}, Types: OnlyFloats, Autocast: "WidestInput", ByHand: Tensor | Autograd,
		Does:    "is t + value*u/w",
		Differs: "(value*a)/b on the processor and value*(a/b) on GPUs, as there; its gradient divides by b twice, where PyTorch squares b, which may overflow or vanish",
		Func: Func{
			Go: "a + T(T(value*b)/c)", Float32: "function3With(fnAddCDiv)", Own: true, CUDA: "a + value * (b / c)",
			Reference: "bounded(a, value*(b/c))", Ulps: 3, Values: "weights",
		},
		Test: Test{Scalars: []string{"1", "-0.5"}},
	},
}
